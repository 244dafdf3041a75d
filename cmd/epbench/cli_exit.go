package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Exit codes of every command.
const (
	exitDone          = 0
	exitFailed        = 1
	exitUsage         = 2 // usage or bad input
	exitWrong         = 3 // wrong numbers or a regression
	exitUndecided     = 4
	exitNotComparable = 5
	exitInterrupted   = 130 // interrupted, state saved
)

// exitError carries an exit code other than exitFailed out of a command.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef is a complaint about what the user typed or handed over.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// badInput marks err as the fault of a flag or an input file.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

// withCode gives err an exit code.
func withCode(code int, err error) error { return &exitError{code, err} }

// complain prints an error, on a terminal no wider than that is. What only an interrupt
// ended says so in a word that people know.
func complain(stderr io.Writer, err error) {
	text := "epbench: " + strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted")
	width := 0
	if f, ok := stderr.(*os.File); ok {
		width = windowWidth(f)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if width > 0 {
			line = wrappedTo(line, width)
		}
		fmt.Fprintln(stderr, line)
	}
}

// run is the program without its process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	addCompletion(root, args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	complain(stderr, err)
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}
