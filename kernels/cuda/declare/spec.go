package declare

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/ep"
)

// CallSpec is everything that one op of a config launches, as plain values: what
// a pack stores, so that a runtime can make the same calls without this program.
type CallSpec struct {
	Config   ep.Config
	Op       ep.Op
	State    string // calls that share memory have the same state
	Extends  string // another state whose regions State begins with, "" if none
	Unit     Unit
	Launches []LaunchSpec
	Regions  []Region // of the state's heap, in the order of EpArgs.region
	Counters int      // int32 words behind EpArgs.counters
	Places   bool     // peers write its output rows: the outputs must lie on the heap
}

// LaunchSpec is one kernel of a call.
type LaunchSpec struct {
	Entry  string
	Grid   int // blocks; all must be resident at once
	Block  int // threads
	Shared int // bytes of dynamic shared memory
	PDL    bool
	// Words are EpArgs.sms to chunk_bytes, five of them, then the two words that
	// one kernel alone gives a meaning to.
	Words [LaunchWords]int32
}

// LaunchWords is the number of int32 launch parameters in EpArgs.
const LaunchWords = 5 + 2

// DescribeCall works out what a config of one op launches for a problem on a
// machine. It is pure; the error says why the config is illegal there.
func DescribeCall(m ep.Machine, p ep.Problem, c ep.Config) (CallSpec, error) {
	f, err := findFamily(familiesOver(p.Nodes), c.Kernel)
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
	s := CallSpec{Config: c, Op: f.Kernel.Op, State: f.State.Name, Extends: f.State.extends, Unit: u.packed(),
		Counters: max(f.State.Counters(p), 1), Places: f.places, Regions: f.State.Regions(p)}
	for _, l := range f.Launches(p, c) {
		s.Launches = append(s.Launches, l.spec())
	}
	return s, nil
}

// In is a dispatch in the memory of the combine that follows it, where that holds the
// dispatch's own.
func (s CallSpec) In(combine CallSpec) CallSpec {
	if combine.Extends == s.State {
		s.State, s.Extends, s.Regions, s.Counters = combine.State, combine.Extends, combine.Regions, combine.Counters
	}
	return s
}

func (l Launch) spec() LaunchSpec {
	p := l.Params
	s := LaunchSpec{Entry: l.Entry, Grid: l.Grid, Block: l.Block, Shared: l.Shared, PDL: l.PDL}
	for i, n := range []int{p.SMs, p.WaitSMs, p.CountSMs, p.TileTokens, p.ChunkBytes} {
		s.Words[i] = int32(n)
	}
	switch v := p.Own.(type) {
	case nil:
	case CombineParams:
		s.Words[5] = int32(Bit(v.Rotate))
	case LLParams:
		s.Words[5], s.Words[6] = int32(v.Receivers), int32(v.PauseNs)
	default:
		panic(fmt.Sprintf("cuda: launch parameters %T have no place in a pack", v)) // a new kernel's author sees it
	}
	return s
}

// FollowsDispatch is the dispatch config that a combine config follows when it is
// looked at by itself: of the same state.
func FollowsDispatch(m ep.Machine, p ep.Problem, combine ep.Config) (ep.Config, error) {
	f, err := Find(combine.Kernel)
	if err != nil {
		return ep.Config{}, err
	}
	if f.dispatch == nil {
		return ep.Config{}, fmt.Errorf("kernel: %s is no combine kernel", combine.Kernel)
	}
	return f.dispatch(m, p, combine), nil
}

// SupportUnits are the binaries of no op that a runtime needs: alignment over
// ranks (entry ep_align), and what stands around epcomm's calls (ep_narrow_ids,
// ep_agree). Over several nodes both are one binary, and the entries that reach other
// ranks are ep_align_hosts and ep_agree_hosts.
func SupportUnits(nodes int) (align, calls Unit) {
	if nodes > 1 {
		all := Unit{Source: HostsFolder + "calls.cuh"}.packed()
		return all, all
	}
	return Unit{Source: "common/align.cuh"}.packed(), Unit{Source: "epcomm/calls.cuh"}.packed()
}

// ExpertUnit stands in for the experts in verifications: entry ep_expert.
func ExpertUnit(p ep.Problem) (Unit, error) {
	u, err := NewUnit(ExpertSource(p), p, nil)
	return u.packed(), err
}

// expertSource is the stand-in for the experts of a layout.
func ExpertSource(p ep.Problem) string {
	switch p.Layout.Kind() {
	case "rank":
		return "rank/expert.cuh"
	case "masked":
		return "masked/expert.cuh"
	}
	return "common/expert.cuh"
}

// RoundBlocks is EP_OWN_ROUNDS of packed kernels: no grid has more blocks.
// RoundWords call numbers lie behind round_base, one for each warp.
const (
	RoundBlocks = 192
	RoundWords  = 32 * RoundBlocks
)

// packed is a unit as packs have it.
func (u Unit) packed() Unit {
	return Unit{u.Source, append(slices.Clip(u.Defines), Define("EP_OWN_ROUNDS", RoundBlocks))}
}

// ArchName is the compiler's name of the architecture of a machine, sm_90a for
// sm_90.
func ArchName(m ep.Machine) (string, error) {
	var n int
	if _, err := fmt.Sscanf(m.Arch, "sm_%d", &n); err != nil || n < 50 {
		return "", fmt.Errorf("arch: %q is no GPU architecture such as sm_90", m.Arch)
	}
	return ArchOf(n/10, n%10), nil
}

var argsVersion = regexp.MustCompile(`#define EP_ARGS_VERSION (\d+)`)

// ArgsVersion is EP_ARGS_VERSION of the device sources.
func ArgsVersion() uint32 {
	text, err := ReadSource("ep_args.h")
	m := argsVersion.FindStringSubmatch(text)
	if err != nil || m == nil {
		panic("cuda: ep_args.h defines no EP_ARGS_VERSION") // it is embedded
	}
	n, _ := strconv.Atoi(m[1]) // the pattern wants digits
	return uint32(n)
}
