package record

import (
	"fmt"
	"strings"
	"time"
)

// Wall says where the wall time of a sweep went, in seconds. A resumed sweep adds its
// own times to those of the run that it continues.
type Wall struct {
	Total     float64 `json:"total"`     // from the start of the command to its last file
	Measuring float64 `json:"measuring"` // calls that time a kernel: samples, warm-up, graphs, the way to the worker and back
	Samples   float64 `json:"samples"`   // of Measuring: what the recorded samples themselves took
	Checking  float64 `json:"checking"`  // running a candidate once and comparing its answer with the oracle
	Preparing float64 `json:"preparing"` // waiting for the compiler, loading candidates
	Opening   float64 `json:"opening"`   // sessions: buffers and inputs
	Starting  float64 `json:"starting"`  // the backend, the plan, the reading of an empty kernel
	Writing   float64 `json:"writing"`   // the log, run.json, table, summary, page and pictures
}

// Deciding is what no other part holds: drawing routings, the strategy, intervals.
func (w Wall) Deciding() float64 {
	return max(0, w.Total-w.Measuring-w.Checking-w.Preparing-w.Opening-w.Starting-w.Writing)
}

// Plus is the sum of two.
func (w Wall) Plus(o Wall) Wall {
	w.Total += o.Total
	w.Measuring += o.Measuring
	w.Samples += o.Samples
	w.Checking += o.Checking
	w.Preparing += o.Preparing
	w.Opening += o.Opening
	w.Starting += o.Starting
	w.Writing += o.Writing
	return w
}

// String is one sentence with the parts in per cent of the total, in the order of a
// candidate's life. It is empty for a run that does not say.
func (w Wall) String() string {
	if w.Total <= 0 {
		return ""
	}
	share := func(part float64) float64 { return 100 * part / w.Total }
	parts := []string{fmt.Sprintf("measured kernels %.0f %% (samples themselves %.0f %%)", share(w.Measuring), share(w.Samples))}
	for _, p := range []struct {
		name string
		part float64
	}{{"checking answers", w.Checking}, {"compiling and loading", w.Preparing}, {"opening sessions", w.Opening},
		{"starting", w.Starting}, {"deciding", w.Deciding()}, {"writing files", w.Writing}} {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", p.name, share(p.part)))
	}
	return fmt.Sprintf("%v of wall time: %s", Rounded(w.Total), strings.Join(parts, ", "))
}

// Rounded is a time in seconds as it is read: to a tenth of a second.
func Rounded(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond)
}
