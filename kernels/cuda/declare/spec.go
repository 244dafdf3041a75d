package declare

import (
	"fmt"

	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
)

// CallSpec describes what one op of a config launches. A pack stores it, so that a runtime can make the same calls
// without this program.
type CallSpec struct {
	Config   ep.Config
	Op       ep.Op
	State    string // name of the memory, which calls with the same name share
	Extends  string // smaller state with the same first regions, or ""
	Unit     sources.Unit
	Launches []Launch
	Regions  []Region // in the order of EpArgs.region
	Counters int      // int32 words at EpArgs.counters
	AnyDType bool     // calls of different dtypes may share memory
	Places   bool     // outputs must lie on the symmetric heap
}

// DescribeCall returns what a config of one op launches, or an error that says why the config is illegal.
func DescribeCall(m ep.Machine, p ep.Problem, c ep.Config) (CallSpec, error) {
	all := oneHost()
	if p.Nodes > 1 {
		all = overHosts()
	}
	f, err := findIn(all, c.Kernel)
	if err != nil {
		return CallSpec{}, err
	}
	if err := f.Check(m, p, c); err != nil {
		return CallSpec{}, err
	}
	u, err := f.Unit(p, c)
	if err != nil {
		return CallSpec{}, err
	}
	s := f.StateOf(c)
	return CallSpec{Config: c, Op: f.Kernel.Op, State: s.Name, Extends: s.extends, AnyDType: s.anyDType, Unit: u.Packed(),
		Counters: s.counters(p), Places: f.placesRows(c), Regions: s.RegionsFor(p), Launches: f.Launches(p, c)}, nil
}

// InMemoryOf returns the dispatch s, changed to use the memory of the given combine. If this memory does not include the
// memory of s, InMemoryOf returns s unchanged.
func (s CallSpec) InMemoryOf(combine CallSpec) CallSpec {
	if combine.Extends == s.State {
		s.State, s.Extends, s.Regions, s.Counters = combine.State, combine.Extends, combine.Regions, combine.Counters
		s.AnyDType = combine.AnyDType
	}
	return s
}

// DispatchBefore returns the dispatch to run before a combine, if only the combine is timed or verified. It is the
// default config of the first kernel that writes the combine's memory.
func DispatchBefore(m ep.Machine, p ep.Problem, combine ep.Config) (ep.Config, error) {
	f, err := Find(combine.Kernel)
	if err != nil {
		return ep.Config{}, err
	}
	for _, d := range everywhere() {
		if f.Kernel.Op != ep.Combine || d.Kernel.Op != ep.Dispatch {
			continue
		}
		c := Fitted(d.Kernel, m, p)
		if f.follows != "" {
			c = c.With(f.follows, combine.Values[f.follows])
		}
		if f.StateOf(combine).serves(d.StateOf(c)) {
			return c, nil
		}
	}
	return ep.Config{}, fmt.Errorf("kernel: %s is no combine kernel", combine.Kernel)
}

// SupportUnits returns the binaries that a runtime needs besides those of ops. `align` aligns the ranks in time.
// `calls` holds the kernels that run before and after epcomm's calls. On several nodes both are the same binary.
func SupportUnits(nodes int) (align, calls sources.Unit) {
	if nodes > 1 {
		all := sources.Unit{Source: sources.HostsFolder + "calls.cuh"}.Packed()
		return all, all
	}
	return sources.Unit{Source: "common/align.cuh"}.Packed(), sources.Unit{Source: "epcomm/calls.cuh"}.Packed()
}

// ExpertUnit returns the binary of the stand-in for the experts in verifications (entry ep_expert).
func ExpertUnit(p ep.Problem) (sources.Unit, error) {
	u, err := NewUnit(ExpertSource(p), p, nil)
	return u.Packed(), err
}

// ExpertSource returns the source of the stand-in for the experts of a layout.
func ExpertSource(p ep.Problem) string {
	switch p.Layout.Kind() {
	case "rank":
		return "rank/expert.cuh"
	case "masked":
		return "masked/expert.cuh"
	}
	return "common/expert.cuh"
}

// RoundWords counts the words at EpArgs.round_base. Only packs have them. Each word holds the call number of one warp.
const RoundWords = Warp * sources.RoundBlocks
