package drive

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// faultRecord is a copy of EpFault, which a kernel writes before it gives up.
type faultRecord struct {
	rank   int
	phase  int
	expert int // -1 if none
	source int // -1 if none
	block  int
	want   uint64
	got    uint64
}

var phases = map[int]string{
	1: "the start alignment",
	2: "dispatch_async",
	3: "dispatch_wait",
	4: "combine_async",
	5: "combine_wait",
}

func (f faultRecord) sentence() string {
	phase := phases[f.phase]
	if phase == "" {
		phase = fmt.Sprintf("phase %d", f.phase)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rank %d waited in %s", f.rank, phase)
	if f.expert >= 0 {
		fmt.Fprintf(&b, " for expert %d", f.expert)
	}
	if f.source >= 0 && f.expert >= 0 {
		fmt.Fprintf(&b, " from rank %d", f.source)
	} else if f.source >= 0 {
		fmt.Fprintf(&b, " for rank %d", f.source)
	}
	fmt.Fprintf(&b, " (block %d wanted %d, saw %d)", f.block, int64(f.want), int64(f.got))
	return b.String()
}

func neverBegan(faults []faultRecord) bool {
	return len(faults) > 0 && !slices.ContainsFunc(faults, func(f faultRecord) bool { return phases[f.phase] != phases[1] })
}

// hangReason describes all records in one line. Ranks in an alignment come last, because they only waited for the
// other ranks.
func hangReason(faults []faultRecord, deadline time.Duration) string {
	var first, last []string
	for _, f := range faults {
		if phases[f.phase] == phases[1] {
			last = append(last, f.sentence())
		} else {
			first = append(first, f.sentence())
		}
	}
	return fmt.Sprintf("no progress within %v: %s", deadline, strings.Join(append(first, last...), "; "))
}
