//go:build cuda

package main

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// ranks are the processes of a communicator.
type ranks struct {
	all  []*process
	once sync.Once
}

type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	enc  *gob.Encoder
	dec  *gob.Decoder
	done chan struct{}
}

// startRanks starts a process for each rank, on GPUs in their order.
func startRanks(n int) (*ranks, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &ranks{}
	for i := range n {
		p, err := startProcess(self)
		if err != nil {
			r.end()
			return nil, fmt.Errorf("rank %d: %w", i, err)
		}
		r.all = append(r.all, p)
	}
	_, err = r.ask(func(i int) request { return request{Seat: &seat{Rank: i, Ranks: n, Device: i}} })
	if err != nil {
		r.end()
	}
	return r, err
}

func startProcess(self string) (*process, error) {
	p := &process{cmd: exec.Command(self, "rank"), done: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	// As many hardware queues as there may be streams, and kernels loaded when they
	// are found: a load beside a spinning kernel waits for it.
	p.cmd.Env = append(os.Environ(), "CUDA_MODULE_LOADING=EAGER", "CUDA_DEVICE_MAX_CONNECTIONS=32")
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.in, p.enc, p.dec = in, gob.NewEncoder(in), gob.NewDecoder(out)
	return p, nil
}

// patience is how long a rank that was asked to end may take.
const patience = 10 * time.Second

// end stops all processes.
func (r *ranks) end() {
	r.once.Do(func() {
		for _, p := range r.all {
			_ = p.enc.Encode(request{End: true}) // it may be gone
			p.in.Close()
		}
		for _, p := range r.all {
			timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
			_ = p.cmd.Wait() // killed ones say so
			timer.Stop()
		}
	})
}

// meeting brings the bytes of all ranks together, time after time.
type meeting struct {
	mu    sync.Mutex
	cond  *sync.Cond
	turn  int
	have  map[int][]byte
	last  []byte
	ranks int
	gone  error
}

func newMeeting(n int) *meeting {
	m := &meeting{ranks: n, have: map[int][]byte{}}
	m.cond = sync.NewCond(&m.mu)
	return m
}

func (m *meeting) meet(rank int, mine []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := m.turn
	m.have[rank] = mine
	if len(m.have) == m.ranks {
		m.last = nil
		for i := range m.ranks {
			m.last = append(m.last, m.have[i]...)
		}
		clear(m.have)
		m.turn++
		m.cond.Broadcast()
	}
	for m.turn == turn && m.gone == nil {
		m.cond.Wait()
	}
	if m.turn == turn {
		return nil // a rank is gone: the library is told so
	}
	return m.last
}

func (m *meeting) leave(err error) {
	m.mu.Lock()
	m.gone = err
	m.cond.Broadcast()
	m.mu.Unlock()
}

// ask puts a request to every rank and waits for all answers. The error is a
// *kernels.Failure where a rank answered with one, else the ranks are lost.
func (r *ranks) ask(q func(rank int) request) ([]reply, error) {
	out := make([]reply, len(r.all))
	errs := make([]error, len(r.all))
	m := newMeeting(len(r.all))
	var wg sync.WaitGroup
	for i, p := range r.all {
		wg.Go(func() {
			if out[i], errs[i] = p.converse(i, q(i), m); errs[i] != nil {
				m.leave(errs[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		r.end()
		return nil, err
	}
	return out, worst(out)
}

// worst is the failure that explains the others: a fault names who waited.
func worst(all []reply) error {
	var first error
	for i, a := range all {
		if a.Error == "" {
			continue
		}
		status := ep.NoLaunch
		if a.Fault {
			status = ep.Hang
		}
		f := kernels.Failf(status, "rank %d: %s", i, a.Error)
		if a.Fault {
			return f
		}
		if first == nil {
			first = f
		}
	}
	return first
}

func (p *process) converse(rank int, q request, m *meeting) (reply, error) {
	if err := p.enc.Encode(q); err != nil {
		return reply{}, fmt.Errorf("rank %d: %w", rank, err)
	}
	for {
		var a reply
		if err := p.dec.Decode(&a); err != nil {
			return a, fmt.Errorf("rank %d ended: %w", rank, err)
		}
		if !a.Asks {
			return a, nil
		}
		if err := p.enc.Encode(request{Gather: m.meet(rank, a.Gather)}); err != nil {
			return a, fmt.Errorf("rank %d: %w", rank, err)
		}
	}
}
