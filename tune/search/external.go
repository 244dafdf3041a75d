package search

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

const externalPrefix = "exec:"

const (
	maxAskLine     = 1 << 20     // bytes of a line
	maxIdleAsks    = 100         // consecutive lines without a new legal config
	externalEnding = time.Second // time for the program to exit
)

// externalWait bounds the wait for a program's next line. externalRead bounds the wait until the program reads a line.
// Tests shorten both.
var externalWait, externalRead = time.Minute, time.Minute

// externalSpace is the first line to the program.
type externalSpace struct {
	Protocol int              `json:"protocol"`
	Seed     uint64           `json:"seed"`
	Points   int              `json:"points"` // legal configs
	Left     int              `json:"left"`   // configs that may still be measured
	Kernels  []externalKernel `json:"kernels"`
	Results  []externalResult `json:"results"` // of the required configs
}

type externalKernel struct {
	Name       string              `json:"name"`
	Parameters []externalParameter `json:"parameters"`
}

type externalParameter struct {
	Name   string     `json:"name"`
	Values []ep.Value `json:"values"`
}

// externalAsk is a line from the program.
type externalAsk struct {
	Ask  []ep.Config `json:"ask"`
	Done bool        `json:"done"`
}

type externalTell struct {
	Results []externalResult `json:"results"` // in the order asked
	Left    int              `json:"left"`
}

type externalResult struct {
	Config ep.Config `json:"config"`
	Ratio  float64   `json:"ratio,omitempty"` // the config's time divided by the default's
	Error  string    `json:"error,omitempty"` // why there is no ratio
}

// external returns a strategy that runs a program. The program chooses configs by JSON lines: see docs/search-own.md.
func external(command string) (Strategy, error) {
	argv := strings.Fields(command)
	if len(argv) == 0 {
		return nil, errors.New("strategy exec: has no command; write exec:COMMAND, such as exec:python3 mine.py")
	}
	return func(ctx context.Context, s *State) error {
		p, err := startExternal(argv)
		if err != nil {
			return fmt.Errorf("strategy: %w", err)
		}
		err = p.run(ctx, s)
		if ended := p.end(); err != nil && err == errSilent {
			err = fmt.Errorf("it ended without {\"done\": true}: %w", ended)
		}
		if err != nil {
			return fmt.Errorf("strategy %s: %w%s", command, err, p.lastWords())
		}
		return nil
	}, nil
}

type externalProgram struct {
	cmd   *exec.Cmd
	in    *os.File
	lines chan []byte // closed at the end of the program's output
	said  bytes.Buffer
	cut   error // why scan ended early; read it after lines is closed
}

func startExternal(argv []string) (*externalProgram, error) {
	p := &externalProgram{cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan []byte)}
	p.cmd.Stderr = &tail{buffer: &p.said}
	p.cmd.WaitDelay = externalEnding
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// Unlike StdinPipe, os.Pipe allows a deadline for writes.
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p.cmd.Stdin, p.in = theirs, ours
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	go p.scan(out)
	return p, nil
}

func (p *externalProgram) scan(out io.Reader) {
	defer close(p.lines)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxAskLine)
	for lines.Scan() {
		p.lines <- bytes.Clone(lines.Bytes())
	}
	p.cut = lines.Err()
}

type tail struct{ buffer *bytes.Buffer }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.buffer.Write(p)
	t.buffer.Next(max(0, t.buffer.Len()-500))
	return len(p), nil
}

// lastWords returns the last text on standard error, for an error message. Call it after end.
func (p *externalProgram) lastWords() string {
	if text := strings.TrimSpace(p.said.String()); text != "" {
		return fmt.Sprintf("; it said: %q", text)
	}
	return ""
}

// end closes the program's input, and kills the program with its children if it does not exit.
func (p *externalProgram) end() error {
	p.in.Close()
	kill := time.AfterFunc(externalEnding, func() { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	defer kill.Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range p.lines { // scan blocks until its lines are taken
		}
	}()
	err := p.cmd.Wait()
	<-drained
	return err
}

var errSilent = errors.New("its output ended")

func (p *externalProgram) run(ctx context.Context, s *State) error {
	if err := s.Measure(ctx, record.StageScreen, s.Required, s.screenRounds()); err != nil {
		return err
	}
	if err := p.send(ctx, s.describe()); err != nil {
		return err
	}
	for idle := 0; ; {
		ask, err := p.next(ctx)
		if err != nil || ask.Done {
			return err
		}
		before := s.Tried()
		tell, err := s.answer(ctx, ask.Ask)
		if err != nil {
			return err
		}
		if idle++; s.Tried() > before {
			idle = 0
		}
		if idle == maxIdleAsks {
			return fmt.Errorf("%d lines in a row named no new legal config (the last line named %d configs); a program that is done writes {\"done\": true}", maxIdleAsks, len(ask.Ask))
		}
		if err := p.send(ctx, tell); err != nil {
			return err
		}
	}
}

// send writes a line. It fails if the program does not read within externalRead.
func (p *externalProgram) send(ctx context.Context, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := p.in.SetWriteDeadline(time.Now().Add(externalRead)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { p.in.SetWriteDeadline(time.Now()) })
	defer stop()
	switch _, err := p.in.Write(append(line, '\n')); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it did not read a line of %d bytes for %v", len(line), externalRead)
	case err != nil:
		return errSilent // the exit status says why
	}
	return nil
}

func (p *externalProgram) next(ctx context.Context) (ask externalAsk, err error) {
	late := time.NewTimer(externalWait)
	defer late.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok && p.cut != nil {
			return ask, fmt.Errorf("its line cannot be read: %w", p.cut)
		}
		if !ok {
			return ask, errSilent
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&ask); err != nil {
			return ask, fmt.Errorf("its line %.80q is not {\"ask\": [CONFIG...]} or {\"done\": true}: %w", line, err)
		}
		return ask, nil
	case <-late.C:
		return ask, fmt.Errorf("it wrote no line for %v", externalWait)
	case <-ctx.Done():
		return ask, ctx.Err()
	}
}

func (s *State) describe() externalSpace {
	out := externalSpace{Protocol: 1, Seed: s.Rand.Uint64(), Points: s.Space.Len(), Left: s.Left()}
	for _, p := range s.Space.parts {
		k := externalKernel{Name: p.grid.Kernel}
		for _, a := range p.grid.Axes {
			k.Parameters = append(k.Parameters, externalParameter{a.Name, a.Values})
		}
		out.Kernels = append(out.Kernels, k)
	}
	for _, i := range s.Measured() {
		out.Results = append(out.Results, s.resultOf(i))
	}
	return out
}

func (s *State) answer(ctx context.Context, asked []ep.Config) (externalTell, error) {
	var fresh []int
	points := make([]int, len(asked))
	for k, c := range asked {
		i, ok := s.Space.Index(c)
		if !ok {
			i = outsideSpace
		}
		points[k] = i
		if ok && s.Fresh(i) && !slices.Contains(fresh, i) && len(fresh) < s.Left() {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) > 0 {
		if err := s.Measure(ctx, record.StageModel, fresh, s.screenRounds()); err != nil {
			return externalTell{}, err
		}
	}
	out := externalTell{Results: []externalResult{}, Left: s.Left()}
	for k, i := range points {
		r := externalResult{Config: asked[k], Error: "the config is not in the space: a value is unknown, or a rule forbids it"}
		if i != outsideSpace {
			r = s.resultOf(i)
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

const outsideSpace = -1

func (s *State) resultOf(i int) externalResult {
	r := externalResult{Config: s.Space.Config(i)}
	switch score := s.Score(i); {
	case s.Fresh(i):
		r.Error = "the budget is spent"
	case math.IsInf(score, 1):
		r.Error = "the config failed"
	default:
		r.Ratio = math.Exp(score)
	}
	return r
}
