package compile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// usage holds the resources of an SM that one kernel takes, as ptxas reports them.
type usage struct {
	Entry      string
	Registers  int // registers of one thread
	SpillStore int // bytes of spill stores in one thread
	SpillLoad  int // bytes of spill loads in one thread
	Stack      int // bytes of stack of one thread
	Shared     int // bytes of static shared memory of one block
}

// spills reports whether the kernel spills registers to memory.
func (u usage) spills() bool { return u.SpillStore+u.SpillLoad > 0 }

var (
	entryLine = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	spillLine = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine  = regexp.MustCompile(`Used (\d+) registers`)
	smemLine  = regexp.MustCompile(`(\d+) bytes smem`)
)

// parseUsage reads the log that ptxas writes under -v. It lists only entry points, because the
// registers of other functions are counted with their callers.
func parseUsage(log string) ([]usage, error) {
	var out []usage
	var u usage
	for line := range strings.SplitSeq(log, "\n") {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			u = usage{Entry: m[1]}
		}
		// The spill line of the entry comes before its "Used" line. Later spill lines belong to
		// device functions that the entry calls.
		if m := spillLine.FindStringSubmatch(line); m != nil && u.Entry != "" {
			u.Stack, u.SpillStore, u.SpillLoad = digits(m[1]), digits(m[2]), digits(m[3])
		}
		m := usedLine.FindStringSubmatch(line)
		if m == nil || u.Entry == "" {
			continue
		}
		u.Registers = digits(m[1])
		if s := smemLine.FindStringSubmatch(line); s != nil {
			u.Shared = digits(s[1])
		}
		out = append(out, u)
		u = usage{}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the compiler's log names no entry function: %.200q", log)
	}
	return out, nil
}

// digits converts a number that a pattern has already matched.
func digits(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// TestParseUsage reads a log of ptxas 13.0: two entries, one of which calls a
// function that is compiled by itself.
func TestParseUsage(t *testing.T) {
	const log = `ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function 'ep_empty' for 'sm_90a'
ptxas info    : Function properties for ep_empty
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers
ptxas info    : Compile time = 2.439 ms
ptxas info    : Compiling entry function 'ep_align' for 'sm_90a'
ptxas info    : Function properties for ep_align
ptxas         .     528 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 54 registers, used 0 barriers, 528 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 13.377 ms
ptxas info    : Function properties for _ZN8ep_faultERK6EpArgs
ptxas         .     0 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads`
	got, err := parseUsage(log)
	want := []usage{
		{Entry: "ep_empty", Registers: 8},
		{Entry: "ep_align", Registers: 54, SpillStore: 16, SpillLoad: 24, Stack: 528, Shared: 1024},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if !got[1].spills() || got[0].spills() {
		t.Error("spills must be true for ep_align and false for ep_empty")
	}
	if _, err := parseUsage("nothing"); err == nil {
		t.Error("parseUsage accepts a log without entries")
	}
}
