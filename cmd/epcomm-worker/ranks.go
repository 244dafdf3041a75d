//go:build cuda

package main

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

type ranks struct {
	all  []*process
	once sync.Once
}

type process struct {
	rank int
	cmd  *exec.Cmd
	in   io.WriteCloser
	enc  *gob.Encoder
	dec  *gob.Decoder
}

// startRanks starts n processes. Rank i uses GPU i.
func startRanks(n int) (*ranks, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &ranks{}
	for i := range n {
		p, err := startProcess(self, i)
		if err != nil {
			r.end()
			return nil, fmt.Errorf("rank %d: %w", i, err)
		}
		r.all = append(r.all, p)
	}
	_, err = r.ask(func(i int) request { return request{Place: &place{Rank: i, Ranks: n, Device: i}} })
	if err != nil {
		r.end()
	}
	return r, err
}

func startProcess(self string, rank int) (*process, error) {
	p := &process{rank: rank, cmd: exec.Command(self, "rank")}
	p.cmd.Stderr = os.Stderr
	// Kernels are loaded early, because a later load waits until running kernels end, and these wait for other ranks.
	// Every stream gets its own hardware queue.
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

const patience = 10 * time.Second // before a process is killed

func (r *ranks) end() {
	r.once.Do(func() {
		for _, p := range r.all {
			_ = p.enc.Encode(request{End: true}) // the process may have ended
			p.in.Close()
		}
		for _, p := range r.all {
			timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
			_ = p.cmd.Wait()
			timer.Stop()
		}
	})
}

// ask sends a request to every rank and waits for all replies. An error that a rank reports is a
// *kernels.Failure. After any other error the ranks are unusable.
func (r *ranks) ask(q func(rank int) request) ([]reply, error) {
	out := make([]reply, len(r.all))
	asks := func(a reply) bool { return a.Asks }
	for first := true; first || slices.ContainsFunc(out, asks); first = false {
		var g errgroup.Group
		for i, p := range r.all {
			if first || out[i].Asks {
				g.Go(func() (err error) {
					out[i], err = p.exchange(q(p.rank))
					return err
				})
			}
		}
		if err := g.Wait(); err != nil {
			r.end()
			return nil, err
		}
		together := gathered(out)
		q = func(int) request { return together }
	}
	return out, r.worst(out)
}

// gathered answers ranks that wait in epcomm's all-gather. The answer holds the bytes of all ranks. If one rank's call
// failed before the all-gather, the answer is empty, so that the waiting ranks fail too.
func gathered(all []reply) (q request) {
	for _, a := range all {
		if !a.Asks {
			return request{}
		}
		q.Gather = append(q.Gather, a.Gather...)
	}
	return q
}

// worst returns a fault if there is one, else the first error.
func (r *ranks) worst(all []reply) error {
	var first error
	for i, a := range all {
		if a.Error == "" {
			continue
		}
		status := ep.LaunchFailed
		if a.Fault {
			status = ep.Hang
		}
		f := kernels.Failf(status, "rank %d: %s", r.all[i].rank, a.Error)
		if a.Fault {
			return f
		}
		if first == nil {
			first = f
		}
	}
	return first
}

func (p *process) exchange(q request) (a reply, err error) {
	if err := p.enc.Encode(q); err != nil {
		return a, fmt.Errorf("rank %d: %w", p.rank, err)
	}
	if err := p.dec.Decode(&a); err != nil {
		return a, fmt.Errorf("rank %d ended: %w", p.rank, err)
	}
	return a, nil
}
