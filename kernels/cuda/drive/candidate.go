//go:build cuda

package drive

import (
	"errors"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// call holds the launches of one op, the same on every rank.
type call struct {
	declaration declare.Declaration
	config      ep.Config
	unit        sources.Unit
	launches    []declare.Launch
	entries     [][]cu.Function // [launch][GPU]
	module      *module
}

func (k *call) part(h callHalf) []int {
	var out []int
	for i := range k.launches {
		if last := i == len(k.launches)-1; h == whole || last == (h == receiving) {
			out = append(out, i)
		}
	}
	return out
}

type candidate struct {
	config   ep.Config
	op       ep.Op
	calls    map[ep.Op]*call
	programs map[timing]*program
}

// ops lists the ops in running order.
var ops = []ep.Op{ep.Dispatch, ep.Combine, ep.Activation}

// opConfigs splits c into the configs of its ops.
func opConfigs(m ep.Machine, p ep.Problem, c ep.Config) (map[ep.Op]ep.Config, error) {
	switch p.Op {
	case ep.Dispatch, ep.Activation:
		return map[ep.Op]ep.Config{p.Op: c}, nil
	case ep.Pair:
		d, k, err := ep.Split(c)
		return map[ep.Op]ep.Config{ep.Dispatch: d, ep.Combine: k}, err
	}
	d, err := declare.DispatchBefore(m, p, c)
	return map[ep.Op]ep.Config{ep.Dispatch: d, ep.Combine: c}, err
}

// newCandidate returns a candidate without binaries, or an error that says why the config is illegal.
func newCandidate(m ep.Machine, p ep.Problem, c ep.Config) (*candidate, error) {
	if err := kernels.CheckConfig(declare.AllKernels(), m, p, c); err != nil {
		return nil, err
	}
	configs, err := opConfigs(m, p, c)
	if err != nil {
		return nil, err
	}
	out := &candidate{config: c, op: p.Op, calls: map[ep.Op]*call{}, programs: map[timing]*program{}}
	for op, cfg := range configs {
		f, err := declare.Find(cfg.Kernel)
		if err != nil {
			return nil, err
		}
		if err := f.Check(m, p, cfg); err != nil {
			return nil, err
		}
		u, err := f.Unit(p, cfg)
		if err != nil {
			return nil, err
		}
		out.calls[op] = &call{declaration: f, config: cfg, unit: u, launches: f.Launches(p, cfg)}
	}
	return out, nil
}

func (c *candidate) takesCast() bool {
	k := c.calls[ep.Dispatch]
	return k != nil && declare.TakesCast(k.config)
}

func (c *candidate) state() declare.State { return stateOf(c.calls) }

// stateOf returns the memory of a candidate's calls. The combine's memory may have more regions than the dispatch's.
func stateOf(calls map[ep.Op]*call) declare.State {
	for _, op := range []ep.Op{ep.Activation, ep.Combine} {
		if k := calls[op]; k != nil {
			return k.declaration.StateOf(k.config)
		}
	}
	return calls[ep.Dispatch].declaration.StateOf(calls[ep.Dispatch].config)
}

// phased reports whether every call sends in one kernel and receives in another.
func (c *candidate) phased() bool {
	for op, k := range c.calls {
		if len(k.launches) < 2 && (op == c.op || c.op == ep.Pair) {
			return false
		}
	}
	return true
}

func candidateUnits(m ep.Machine, p ep.Problem, c ep.Config) ([]sources.Unit, error) {
	k, err := newCandidate(m, p, c)
	if err != nil {
		return nil, err
	}
	var out []sources.Unit
	for _, op := range ops {
		if call := k.calls[op]; call != nil {
			out = append(out, call.unit)
		}
	}
	return out, nil
}

func (c *candidate) load(r *rankSet) error {
	for _, op := range ops {
		k := c.calls[op]
		if k == nil {
			continue
		}
		var err error
		if k.module, err = r.node.load(k.unit); err != nil {
			return err
		}
		for _, l := range k.launches {
			entries, err := k.module.function(l.Entry)
			if err != nil {
				return err
			}
			if err := checkResident(r, l, entries); err != nil {
				return err
			}
			k.entries = append(k.entries, entries)
		}
	}
	return nil
}

// checkResident refuses a launch if a GPU cannot hold the blocks of all its ranks at the same time.
func checkResident(r *rankSet, l declare.Launch, entries []cu.Function) error {
	ranks := map[*gpu]int{}
	for _, s := range r.local {
		ranks[s.gpu]++
	}
	for i, g := range r.node.gpus {
		if ranks[g] == 0 {
			continue
		}
		if l.Shared > g.shared {
			return kernels.Failf(ep.LaunchFailed, "%s: %d bytes of shared memory for each block, but GPU %d gives at most %d", l.Entry, l.Shared, i, g.shared)
		}
		var o occupancy
		err := g.do(func() (err error) { o, err = readyFunction(entries[i], l.Block, l.Shared); return err })
		if err != nil {
			return kernels.Failf(ep.LaunchFailed, "%s: %v", l.Entry, err)
		}
		if l.Block > o.maxThreads {
			return kernels.Failf(ep.LaunchFailed, "%s: %d threads in a block, but with %d registers for each thread at most %d are possible", l.Entry, l.Block, o.registers, o.maxThreads)
		}
		if most := o.blocksPerSM * g.sms / ranks[g]; l.Grid > most {
			return kernels.Failf(ep.LaunchFailed,
				"%s: %d blocks of %d threads cannot all be resident: GPU %d holds %d for each of %d ranks (%d on each SM, with %d registers for each thread and %d bytes of shared memory)",
				l.Entry, l.Grid, l.Block, i, most, ranks[g], o.blocksPerSM, o.registers, l.Shared)
		}
	}
	return nil
}

// asFailure returns err as a Failure with the status s. If err is nil or already a Failure, it returns err unchanged.
func asFailure(s ep.Status, err error) error {
	var f *kernels.Failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &kernels.Failure{Status: s, Reason: err.Error()}
}
