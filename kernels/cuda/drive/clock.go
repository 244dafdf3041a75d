package drive

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// Clocks of a session. Times of different clocks are never compared.
const (
	clockChain = "chain" // calls and waits of the ranks for each other, minus the same waits without calls
	clockSpan  = "span"  // from the first block's start to the last block's end
	clockEvent = "event" // between two CUDA events
)

// clocks lists all clocks, the default first.
var clocks = []string{clockChain, clockSpan, clockEvent}

// stages lists where a span can end. The numbers EP_STAGE_* of common/check.cuh have the same order and begin at 1.
var stages = []string{"ready", "sent", "arrived"}

// spent starts to measure time. The function that it returns adds the time since then to `seconds`.
func spent(seconds *float64) func() {
	start := time.Now()
	return func() { *seconds += time.Since(start).Seconds() }
}

// parseClock reads chain, span, event or span:STAGE. It returns stage 0 if a span ends with the kernel.
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

// stageDefines returns the macros with which a kernel ends its spans at a stage.
func stageDefines(stage int) []string {
	if stage == 0 {
		return nil
	}
	return []string{declare.Define("EP_STAGE", stage)}
}
