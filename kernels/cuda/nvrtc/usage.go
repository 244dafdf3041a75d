// Package nvrtc compiles CUDA sources at run time. It loads libnvrtc, of CUDA 12 or
// 13, only when something is compiled, so that a program starts without it.
//
// gorgonia.org/cu/nvrtc was not taken. It links one fixed libnvrtc and returns PTX
// only, which the driver compiles when it loads it: registers and spills would not
// be known on a host without a GPU.
package nvrtc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Usage is what one kernel takes of an SM, as ptxas says.
type Usage struct {
	Entry      string
	Registers  int // a thread
	SpillStore int // bytes a thread
	SpillLoad  int // bytes a thread
	Stack      int // bytes a thread
	Shared     int // static bytes a block
}

// Spills reports whether registers are kept in memory.
func (u Usage) Spills() bool { return u.SpillStore+u.SpillLoad > 0 }

var (
	entryLine = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	spillLine = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine  = regexp.MustCompile(`Used (\d+) registers`)
	smemLine  = regexp.MustCompile(`(\d+) bytes smem`)
)

// ParseUsage reads the log that ptxas writes under -v. Functions that are not
// entry points are not listed: their registers count with their callers'.
func ParseUsage(log string) ([]Usage, error) {
	var out []Usage
	var u Usage
	for line := range strings.SplitSeq(log, "\n") {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			u = Usage{Entry: m[1]}
		}
		// Properties of the entry itself stand before its "Used" line;
		// those of device functions it calls come after it.
		if m := spillLine.FindStringSubmatch(line); m != nil && u.Entry != "" {
			u.Stack, u.SpillStore, u.SpillLoad = number(m[1]), number(m[2]), number(m[3])
		}
		m := usedLine.FindStringSubmatch(line)
		if m == nil || u.Entry == "" {
			continue
		}
		u.Registers = number(m[1])
		if s := smemLine.FindStringSubmatch(line); s != nil {
			u.Shared = number(s[1])
		}
		out = append(out, u)
		u = Usage{}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nvrtc: the compiler's log names no entry function: %.200q", log)
	}
	return out, nil
}

// number reads what a pattern has already recognised as digits.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
