package compile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// usage holds a kernel's resources, from ptxas.
type usage struct {
	Entry      string
	Registers  int // per thread
	SpillStore int // bytes per thread
	SpillLoad  int // bytes per thread
	Stack      int // bytes per thread
	Shared     int // static bytes per block
}

func (u usage) spills() bool { return u.SpillStore+u.SpillLoad > 0 }

var (
	entryLine = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	spillLine = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine  = regexp.MustCompile(`Used (\d+) registers`)
	smemLine  = regexp.MustCompile(`(\d+) bytes smem`)
)

// parseUsage reads a log of ptxas -v. It returns only entry points, whose registers include those of called functions.
func parseUsage(log string) ([]usage, error) {
	var out []usage
	var u usage
	for line := range strings.SplitSeq(log, "\n") {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			u = usage{Entry: m[1]}
		}
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

func digits(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// TestParseUsage reads a log of ptxas 13.0 with two entries.
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
