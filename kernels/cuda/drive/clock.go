package drive

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// The clocks of a session. An empty kernel has another reading on each, so that times of two
// clocks are never compared.
const (
	clockChain = "chain" // what a call adds to a chain of aligned calls
	clockSpan  = "span"  // first block's start to last block's end, in the kernel
	clockEvent = "event" // event before to event after
)

// clocks lists all clocks, the default first.
var clocks = []string{clockChain, clockSpan, clockEvent}

// stages lists the places inside a kernel where a span can end: EP_STAGE_* of common/check.cuh,
// from 1.
var stages = []string{"ready", "sent", "arrived"}

// spent adds the host's time until the returned function is called to *seconds.
func spent(seconds *float64) func() {
	start := time.Now()
	return func() { *seconds += time.Since(start).Seconds() }
}

// parseClock reads chain, span, event or span:STAGE. Stage 0 is the whole kernel. Another stage
// needs variants that are compiled for it.
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

// stageDefines returns the compile options with which a span ends at a stage.
func stageDefines(stage int) []string {
	if stage == 0 {
		return nil
	}
	return []string{declare.Define("EP_STAGE", stage)}
}
