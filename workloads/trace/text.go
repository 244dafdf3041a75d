package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLine limits the bytes of a line. A line of 32 ids with weights needs less than 1 KB.
const maxLine = 1 << 16

type lines struct {
	f       *os.File
	scanner *bufio.Scanner
	number  int // last line read, from 1
}

func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &lines{f: f, scanner: bufio.NewScanner(f)}
	l.scanner.Buffer(make([]byte, 4096), maxLine)
	return l, nil
}

func (l *lines) next() (string, error) {
	for l.scanner.Scan() {
		l.number++
		if text := strings.TrimSpace(l.scanner.Text()); text != "" {
			return text, nil
		}
	}
	if errors.Is(l.scanner.Err(), bufio.ErrTooLong) {
		return "", fmt.Errorf("line %d: longer than %d bytes", l.number+1, maxLine)
	}
	return "", cmp.Or(l.scanner.Err(), io.EOF)
}

// rowParser reads one token. Without weights, `weights` is nil.
type rowParser func(text string) (ids []int32, weights []float32, err error)

func (l *lines) tokens(first string, parse rowParser) (*Reader, error) {
	ids, weights, err := parse(first)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", l.number, err)
	}
	k, weighted := len(ids), weights != nil
	if k > MaxTopK || weighted && len(weights) != k {
		return nil, fmt.Errorf("line %d: %d ids and %d weights, use 1 to %d ids and as many weights, or none", l.number, k, len(weights), MaxTopK)
	}
	r := &Reader{Kind: IDs, TopK: k, Weights: weighted, close: l.f.Close}
	r.next = func(dst []int32, ws []float32) (n int, err error) {
		for ; n < len(dst)/k; n++ {
			if ids == nil {
				if ids, weights, err = l.token(parse, k, weighted); err != nil {
					return n, err
				}
			}
			copy(dst[n*k:], ids)
			if ws != nil {
				copy(ws[n*k:], weights)
			}
			ids = nil
		}
		return n, nil
	}
	return r, nil
}

func (l *lines) token(parse rowParser, k int, weighted bool) ([]int32, []float32, error) {
	text, err := l.next()
	if err != nil {
		return nil, nil, err
	}
	ids, weights, err := parse(text)
	if err == nil && (len(ids) != k || weighted != (weights != nil) || weighted && len(weights) != k) {
		err = fmt.Errorf("%d ids and %d weights, the first token has %d ids", len(ids), len(weights), k)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("line %d: %w", l.number, err)
	}
	return ids, weights, nil
}
