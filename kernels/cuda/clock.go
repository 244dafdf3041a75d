package cuda

import (
	"fmt"
	"slices"
	"strings"
)

// The clocks a session can read. See docs on measurement: an empty kernel
// reads differently on each, so times of two clocks are never compared.
const (
	clockChain = "chain" // what a call adds to a chain of aligned calls
	clockSpan  = "span"  // first block's start to last block's end, in the kernel
	clockEvent = "event" // event before to event after
)

// clocks lists them, the default first.
var clocks = []string{clockChain, clockSpan, clockEvent}

// stages are where a span may end instead of with the kernel: EP_STAGE_* of
// common/check.cuh, from 1.
var stages = []string{"ready", "sent", "arrived"}

// parseClock reads chain, span, event or span:STAGE. A stage takes variants
// of their own, compiled to read it; 0 is none.
func parseClock(word string) (clock string, stage int, err error) {
	clock, name, staged := strings.Cut(word, ":")
	stage = slices.Index(stages, name) + 1
	switch {
	case !slices.Contains(clocks, clock):
		return "", 0, fmt.Errorf("clock: unknown %q, use chain, span, span:STAGE or event", word)
	case staged && (clock != clockSpan || stage == 0):
		return "", 0, fmt.Errorf("clock: unknown %q, use span:%s", word, strings.Join(stages, ", span:"))
	}
	return clock, stage, nil
}

// stageDefines compiles the reading of a stage in; none for the whole kernel.
func stageDefines(stage int) []string {
	if stage == 0 {
		return nil
	}
	return []string{define("EP_STAGE", stage)}
}
