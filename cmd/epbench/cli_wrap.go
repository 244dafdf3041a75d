package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/epbench/epbench/reports/text"
)

// widthOf returns the width of the terminal to which w writes, in characters. It returns 0 if w does not write to a
// terminal. Tests replace this function.
var widthOf = func(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		columns, _ := windowSize(f)
		return columns
	}
	return 0
}

// wrapping returns a writer that breaks lines between words, so that they fit the width. If width is 0, it returns w.
func wrapping(w io.Writer, width int) io.Writer {
	if width == 0 {
		return w
	}
	return &wrapper{w, width}
}

// wrapper breaks lines that are too long. Each call of Write must be given whole lines.
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

// unwrapped returns the writer to which a wrapper writes. Progress lines need it: they contain control characters that
// move the cursor, and must not be broken.
func unwrapped(w io.Writer) io.Writer {
	if wrapped, ok := w.(*wrapper); ok {
		return wrapped.out
	}
	return w
}
