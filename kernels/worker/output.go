package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/creachadair/jrpc2/channel"
)

// pipeDelay is the longest time for which pipes are read after the process has ended. A child may keep them open.
const pipeDelay = 2 * time.Second

// outputPipes holds a command's output pipes. We do not use the pipes of exec.Cmd, because they close when the command
// ends. Ranks in the background may still print then.
type outputPipes struct {
	read, given []*os.File // this program's ends, the command's ends
	copied      sync.WaitGroup
}

func (o *outputPipes) pipe() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err == nil {
		o.read, o.given = append(o.read, r), append(o.given, w)
	}
	return r, w, err
}

// to makes a pipe to `writer` and returns the end for the command. If `writer` has a method Close, it is called after
// the last byte.
func (o *outputPipes) to(writer io.Writer) (*os.File, error) {
	r, w, err := o.pipe()
	if err != nil {
		return nil, err
	}
	o.copied.Go(func() {
		_, _ = io.Copy(writer, r) // ends when close closes r
		if c, ok := writer.(io.Closer); ok {
			_ = c.Close()
		}
	})
	return w, nil
}

// started closes this program's copies of the command's ends. While a copy is open, reads never reach the end.
func (o *outputPipes) started() {
	for _, w := range o.given {
		w.Close()
	}
	o.given = nil
}

func (o *outputPipes) drain() {
	all := make(chan struct{})
	go func() {
		o.copied.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(pipeDelay):
	}
}

func (o *outputPipes) close() {
	o.started()
	for _, r := range o.read {
		r.Close()
	}
}

// epbench shows at most saidLines lines of a worker's text, and at most saidBytes bytes of a line.
const (
	saidLines = 20
	saidBytes = 1000
)

type printer struct {
	tail *tailBuffer
	show func(string)

	mu    sync.Mutex
	count int
}

func (p *printer) line(text string) {
	fmt.Fprintln(p.tail, text)
	if text = shownText(text); text == "" || p.show == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	switch {
	case p.count > saidLines:
	case p.count == saidLines:
		p.show(text + " (further lines are not shown)")
	default:
		p.show(text)
	}
}

func shownText(text string) string {
	more := ""
	if len(text) > saidBytes {
		text, more = text[:saidBytes], fmt.Sprintf("... (%d bytes)", len(text))
	}
	return strings.TrimSpace(printable(text)) + more
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
}

type lineWriter struct {
	to   *printer
	rest []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		n, line, err := bufio.ScanLines(w.rest, len(w.rest) > stderrTail)
		if err != nil || n == 0 {
			return len(b), err
		}
		w.to.line(string(line))
		w.rest = w.rest[n:]
	}
}

// Close prints the last line if it has no line feed.
func (w *lineWriter) Close() error {
	if len(w.rest) > 0 {
		w.to.line(string(w.rest))
	}
	w.rest = nil
	return nil
}

// messageFilter receives a worker's messages, and prints all other text.
type messageFilter struct {
	channel.Channel
	printed *printer
}

func (t messageFilter) Recv() ([]byte, error) {
	for {
		line, err := t.Channel.Recv()
		if err != nil {
			return line, err
		}
		text, message := splitMessage(line)
		if len(text) > 0 || message == nil {
			t.printed.line(string(text))
		}
		if message != nil {
			return message, nil
		}
	}
}

// mostBefore is the most bytes of other text that a line may have before a message.
const mostBefore = 4096

// splitMessage splits a line into text and the message that follows it. message is nil if the line has none.
func splitMessage(line []byte) (text, message []byte) {
	if !bytes.Contains(line, []byte(`"jsonrpc"`)) {
		return line, nil
	}
	for at := 0; at < min(len(line), mostBefore); at++ {
		if line[at] == '{' && isMessage(line[at:]) {
			return bytes.TrimSpace(line[:at]), line[at:]
		}
	}
	return line, nil
}

func isMessage(b []byte) bool {
	var m struct {
		Version string `json:"jsonrpc"`
	}
	return json.Unmarshal(b, &m) == nil && m.Version == "2.0"
}

type tailBuffer struct {
	mu    sync.Mutex
	limit int
	buf   []byte
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(b), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Join(withoutTraces(string(t.buf)), "\n")
	return strings.Join(strings.Fields(printable(lines)), " ")
}

// lineLimit is a reader that fails on a line of more than limit bytes.
type lineLimit struct {
	r     io.Reader
	limit int
	run   int // bytes of the line so far
}

func (l *lineLimit) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	for _, c := range b[:n] {
		if c == '\n' {
			l.run = 0
		} else if l.run++; l.run > l.limit {
			return 0, fmt.Errorf("a line is longer than %d bytes", l.limit)
		}
	}
	return n, err
}
