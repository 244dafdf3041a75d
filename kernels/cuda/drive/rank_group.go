//go:build cuda

package drive

import (
	"cmp"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"sync"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// rankGroup is one backend of all launched ranks. It runs on rank 0.
type rankGroup struct {
	first   *Rank
	links   []*link // to rank 1, 2, ...
	machine ep.Machine
	hosts   int
	opened  *groupSession // open session, or nil
}

func (c *rankGroup) Conditions(string) []kernels.Condition {
	return []kernels.Condition{c.topology().condition()}
}

func (c *rankGroup) topology() topology {
	return topology{c.machine.GPUs, c.hosts, c.first.place.Split}
}

type link struct {
	rank int
	mu   sync.Mutex
	in   *gob.Decoder
	out  *gob.Encoder
}

// Lead returns the backend of all ranks. `links` are the connections to rank 1, 2 and so on. All hosts must
// have GPUs of the same kind.
func (r *Rank) Lead(links []io.ReadWriter) (kernels.Backend, error) {
	c := &rankGroup{first: r}
	for i, l := range links {
		c.links = append(c.links, &link{rank: i + 1, in: gob.NewDecoder(l), out: gob.NewEncoder(l)})
	}
	all, err := c.ask(task{Facts: true})
	if err == nil {
		c.machine, c.hosts, err = joined(all, r.place.Split)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// joined returns rank 0's machine with the GPUs of all ranks. The machine's Link names the network,
// so that a table from another network does not match.
func joined(all []answer, split bool) (ep.Machine, int, error) {
	m, hosts := all[0].Facts.Machine, 1
	for rank, a := range all[1:] {
		before, f := all[rank].Facts, a.Facts
		if f.Host != before.Host {
			hosts++
		}
		if f.Machine.Key() != m.Key() || f.Network != all[0].Facts.Network {
			return m, 0, fmt.Errorf("rank %d: its machine is %s with network %s, but the machine of rank 0 is %s with network %s; launch on hosts of one kind",
				rank+1, f.Machine.Key(), f.Network, m.Key(), all[0].Facts.Network)
		}
	}
	m.Backend = "cuda-hosts"
	m.GPUs = len(all)
	switch {
	case hosts > 1:
		m.Link += "+" + all[0].Facts.Network
	case split:
		m.Link += "+split"
	}
	return m, hosts, nil
}

// ask makes every rank perform a task. Its error is a rank's Failure or a lost connection.
func (c *rankGroup) ask(t task) ([]answer, error) {
	out, errs := make([]answer, 1+len(c.links)), make([]error, 1+len(c.links))
	var wg sync.WaitGroup
	for i, l := range c.links {
		wg.Go(func() { out[i+1], errs[i+1] = l.exchange(t) })
	}
	out[0] = c.first.do(t)
	wg.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return out, rootFailure(out, c.first.backend)
}

func (l *link) exchange(t task) (a answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.out.Encode(t); err == nil {
		err = l.in.Decode(&a)
	}
	if err != nil {
		return a, fmt.Errorf("rank %d is gone: %w", l.rank, err)
	}
	return a, nil
}

// rootFailure returns the failure that explains the others, or nil. If one rank hangs and another rank fails in
// another way, it returns the other rank's failure, because that failure may have caused the hang.
func rootFailure(all []answer, b *Backend) error {
	for rank, a := range all {
		if a.Status != "" && a.Status != ep.Hang {
			return kernels.Failf(a.Status, "rank %d: %s", rank, a.Reason)
		}
	}
	if faults := faultsOf(all); len(faults) > 0 {
		return kernels.Failf(ep.Hang, "%s", hangReason(faults, b.options.Deadline))
	}
	for rank, a := range all {
		if a.Status != "" {
			return kernels.Failf(a.Status, "rank %d: %s", rank, a.Reason)
		}
	}
	return nil
}

func faultsOf(all []answer) (out []faultRecord) {
	for _, a := range all {
		for _, f := range a.Faults {
			out = append(out, faultRecord{f.Rank, f.Phase, f.Expert, f.Source, f.Block, f.Want, f.Got})
		}
	}
	return out
}

func (c *rankGroup) Machine() ep.Machine { return c.machine }

func (c *rankGroup) Kernels() []kernels.Kernel { return declare.HostKernels(c.machine) }

func (c *rankGroup) ABI() ep.ABI { return declare.HostABI() }

// Empty implements kernels.Clocker on rank 0.
func (c *rankGroup) Empty(ctx context.Context) (map[string]float64, error) {
	return c.first.backend.Empty(ctx)
}

func (c *rankGroup) Precompile(p ep.Problem, configs []ep.Config) {
	c.first.backend.Precompile(p, configs)
}

func (c *rankGroup) Close() error {
	for _, l := range c.links {
		_ = l.out.Encode(task{End: true})
	}
	c.first.Close()
	return nil
}

func (c *rankGroup) Open(_ context.Context, w *workloads.Workload) (kernels.Session, error) {
	if err := w.Problem.Validate(); err != nil {
		return nil, err
	}
	if err := c.topology().check(w.Problem); err != nil {
		return nil, err
	}
	if _, err := c.ask(task{Open: w}); err != nil {
		return nil, err
	}
	s := &groupSession{rankGroup: c, problem: w.Problem}
	s.outputs = ref.NewRemote(ref.New(w, c.first.backend.options.InputScale), dtype.MaxRows(w.Problem), s.read)
	c.opened = s
	return s, nil
}
