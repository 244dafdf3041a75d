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

// usagef returns an error that blames a flag, an argument or an input file: exit code 2.
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

// complain prints an error, wrapped on a terminal. It prints "interrupted" for Go's
// "context canceled".
func complain(stderr io.Writer, err error) {
	text := shortened("epbench: " + strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted"))
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

// maxComplaint bounds an error, in bytes: it may quote a file, or hold what a compiler printed.
const maxComplaint = 16 << 10

// shortened cuts the middle out of a longer text: what went wrong stands at its beginning, and what
// a dying program printed at its end.
func shortened(text string) string {
	if len(text) <= maxComplaint {
		return text
	}
	head, tail := text[:maxComplaint/2], text[len(text)-maxComplaint/2:]
	return strings.ToValidUTF8(fmt.Sprintf("%s ... (%d bytes left out) ... %s", head, len(text)-maxComplaint, tail), "")
}

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
