package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/epbench/epbench/reports/text"
)

// widthOf returns the width of the terminal that w writes to, 0 if there is none. Tests replace this function.
var widthOf = func(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		columns, _ := windowSize(f)
		return columns
	}
	return 0
}

// wrapping returns a writer that breaks lines between words. Width 0 breaks no lines.
func wrapping(w io.Writer, width int) io.Writer {
	if width == 0 {
		return w
	}
	return &wrapper{w, width}
}

// wrapper breaks long lines. Each call of Write must be given whole lines.
type wrapper struct {
	out   io.Writer
	width int
}

func (w *wrapper) Write(lines []byte) (int, error) {
	var b bytes.Buffer
	for line := range strings.Lines(string(lines)) {
		plain := strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(plain) > w.width {
			plain = strings.Join(text.Wrap(plain, w.width), "\n")
		}
		b.WriteString(plain + line[len(strings.TrimSuffix(line, "\n")):])
	}
	if _, err := w.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// unwrapped returns the writer behind a wrapper. Progress bars need it: their control characters must not be broken.
func unwrapped(w io.Writer) io.Writer {
	if wrapped, ok := w.(*wrapper); ok {
		return wrapped.out
	}
	return w
}
