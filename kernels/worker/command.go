package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/creachadair/jrpc2/channel"
	"mvdan.cc/sh/v3/shell"
)

// Loopback is the Listen of ranks on this host.
const Loopback = "127.0.0.1:0"

// Command says how a worker is started.
type Command struct {
	Argv []string // program and arguments; the program is looked up on PATH

	// Listen is the address, host or host:port, that ranks connect back to. With ""
	// the worker speaks over its standard input and output.
	Listen string

	// Said gets the lines of free text on the worker's standard output; may be nil.
	Said func(line string)
}

// Split splits a command line as a shell does: quotes are honoured, $NAME is
// replaced from the environment, and nothing else is expanded.
func Split(line string) ([]string, error) {
	argv, err := shell.Fields(line, os.Getenv)
	if err == nil && len(argv) == 0 {
		err = errors.New("no worker command given")
	}
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", line, err)
	}
	return argv, nil
}

// saidLines is how many lines of free text of one process are shown. A worker that
// prints every round would hide everything else.
const saidLines = 20

// printer keeps and shows the lines that a worker prints.
type printer struct {
	tail *tailBuffer
	show func(string)

	mu    sync.Mutex
	count int
}

func (p *printer) line(text string) {
	fmt.Fprintln(p.tail, text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	switch text = strings.TrimSpace(text); {
	case p.show == nil || text == "" || p.count > saidLines:
	case p.count == saidLines:
		p.show(text + " (further lines are not shown)")
	default:
		p.show(text)
	}
}

// lineWriter hands whole lines to a printer.
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

// tolerant leaves out the lines that are no message, since a library that the worker
// uses may print to standard output.
type tolerant struct {
	channel.Channel
	printed *printer
}

func (t tolerant) Recv() ([]byte, error) {
	for {
		b, err := t.Channel.Recv()
		if err != nil || bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) && json.Valid(b) {
			return b, err
		}
		t.printed.line(string(b))
	}
}
