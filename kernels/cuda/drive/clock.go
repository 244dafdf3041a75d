package drive

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// The clocks of a session. Times of different clocks are never compared: even for an empty kernel
// they differ.
const (
	clockChain = "chain" // time that one call adds to a chain of calls with alignments between them
	clockSpan  = "span"  // time from the first block's start to the last block's end, stamped by the kernel
	clockEvent = "event" // time between two CUDA events, one before and one after the call
)

// clocks lists all clocks, the default first.
var clocks = []string{clockChain, clockSpan, clockEvent}

// stages lists the places inside a kernel where a span can end. Their numbers, EP_STAGE_* of
// common/check.cuh, begin at 1.
var stages = []string{"ready", "sent", "arrived"}

// spent starts a clock of the host. The returned function adds the time since then to *seconds.
func spent(seconds *float64) func() {
	start := time.Now()
	return func() { *seconds += time.Since(start).Seconds() }
}

// parseClock reads chain, span, event or span:STAGE. Stage 0 means that a span ends with the kernel.
// Any other stage needs kernels that are compiled for it: see stageDefines.
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

// stageDefines returns the macros with which a kernel's span ends at a stage.
func stageDefines(stage int) []string {
	if stage == 0 {
		return nil
	}
	return []string{declare.Define("EP_STAGE", stage)}
}
