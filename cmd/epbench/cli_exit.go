package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

const (
	exitDone          = 0
	exitFailed        = 1
	exitUsage         = 2 // wrong usage or bad input
	exitWrong         = 3 // a wrong answer, a failed config or a regression
	exitUndecided     = 4
	exitNotComparable = 5
	exitInterrupted   = 130 // the state is saved
)

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func badInput(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

func withCode(code int, err error) error { return &exitError{code, err} }

func complain(stderr io.Writer, err error) {
	text := shortened("epbench: " + strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted"))
	fmt.Fprintln(wrapping(stderr, widthOf(stderr)), text)
}

// maxComplaint bounds a printed error, in bytes. Errors may quote a compiler's output.
const maxComplaint = 16 << 10

// shortened cuts out the middle, because the end may hold a program's last output.
func shortened(text string) string { return ep.Shorten(text, maxComplaint) }

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
