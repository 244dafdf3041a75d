package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Exit codes of every command.
const (
	exitDone          = 0
	exitFailed        = 1
	exitUsage         = 2 // wrong usage or bad input
	exitWrong         = 3 // a wrong answer, a failed config or a regression
	exitUndecided     = 4
	exitNotComparable = 5
	exitInterrupted   = 130 // interrupted; the state is saved
)

// exitError is an error of a command that has an exit code other than exitFailed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef returns an error with exit code 2, for a wrong flag, argument or input file.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// badInput gives err the exit code of usage errors.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

// withCode gives err an exit code.
func withCode(code int, err error) error { return &exitError{code, err} }

// complain prints an error, wrapped if stderr is a terminal. It replaces Go's "context canceled" by
// "interrupted".
func complain(stderr io.Writer, err error) {
	text := shortened("epbench: " + strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted"))
	fmt.Fprintln(wrapping(stderr, widthOf(stderr)), text)
}

// maxComplaint is the largest number of bytes of an error that is printed. (Errors may quote a file or
// the output of a compiler.)
const maxComplaint = 16 << 10

// shortened cuts the middle out of a text longer than maxComplaint. It keeps the beginning, which names
// the error, and the end, which may have the last output of a program that died.
func shortened(text string) string { return ep.Shorten(text, maxComplaint) }

// run runs the program and returns its exit code.
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
