package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// Wall holds the parts of the wall time of a sweep, in seconds. A resumed sweep adds to them.
type Wall struct {
	Total     float64      `json:"total"`              // from the command's start to its last file
	Measuring float64      `json:"measuring"`          // measuring kernels, warm-up included
	Samples   float64      `json:"samples"`            // the recorded samples alone; included in Measuring
	Checking  float64      `json:"checking"`           // comparing candidates with the oracle
	Run       ep.RunTime   `json:"run,omitzero"`       // parts of Measuring
	Check     ep.CheckTime `json:"check,omitzero"`     // parts of Checking
	Preparing float64      `json:"preparing"`          // compiling and loading candidates
	Opening   float64      `json:"opening"`            // opening sessions: buffers and inputs
	Sessions  float64      `json:"sessions,omitempty"` // further sessions; their time is also in the other parts
	Starting  float64      `json:"starting"`           // starting the backend, planning, timing an empty kernel
	Writing   float64      `json:"writing"`            // writing files
}

// Deciding returns the total minus the parts that were measured.
func (w Wall) Deciding() float64 {
	return max(0, w.Total-w.Measuring-w.Checking-w.Preparing-w.Opening-w.Starting-w.Writing)
}

// Plus returns the sum of w and o.
func (w Wall) Plus(o Wall) Wall {
	w.Total += o.Total
	w.Measuring += o.Measuring
	w.Samples += o.Samples
	w.Run = w.Run.Plus(o.Run)
	w.Checking += o.Checking
	w.Check = w.Check.Plus(o.Check)
	w.Preparing += o.Preparing
	w.Opening += o.Opening
	w.Sessions += o.Sessions
	w.Starting += o.Starting
	w.Writing += o.Writing
	return w
}

type wallPart struct {
	name    string
	seconds float64
	of      []wallPart
}

func (p wallPart) text(total float64) string {
	out := fmt.Sprintf("%s %.0f %%", p.name, 100*p.seconds/total)
	if len(p.of) == 0 {
		return out
	}
	return out + " (" + joined(p.of, total) + ")"
}

func joined(parts []wallPart, total float64) string {
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.text(total))
	}
	return strings.Join(texts, ", ")
}

func (w Wall) measuring() []wallPart {
	out := []wallPart{{name: "samples themselves", seconds: w.Samples}}
	if r := w.Run; r.Rounds > 0 {
		way := max(0, w.Measuring-r.Rounds-r.Graphs-r.Clocks)
		out = append(out, wallPart{name: "warm-up and launches", seconds: max(0, r.Rounds-w.Samples)}, wallPart{name: "graphs", seconds: r.Graphs},
			wallPart{name: "asking for clocks", seconds: r.Clocks}, wallPart{name: "to the worker and back", seconds: way})
	}
	return out
}

func (w Wall) checking() []wallPart {
	c := w.Check
	if c.Comparing == 0 {
		return nil
	}
	way := max(0, w.Checking-c.Filling-c.Running-c.Reading-c.Comparing)
	return []wallPart{{name: "filling buffers", seconds: c.Filling}, {name: "running", seconds: c.Running}, {name: "reading", seconds: c.Reading},
		{name: "comparing", seconds: c.Comparing}, {name: "probes, to the worker and back", seconds: way}}
}

// String returns one sentence with the parts in per cent, or "".
func (w Wall) String() string {
	if w.Total <= 0 {
		return ""
	}
	parts := []wallPart{{"measured kernels", w.Measuring, w.measuring()}, {"checking answers", w.Checking, w.checking()},
		{name: "compiling and loading", seconds: w.Preparing}, {name: "opening sessions", seconds: w.Opening}, {name: "starting", seconds: w.Starting},
		{name: "deciding", seconds: w.Deciding()}, {name: "writing files", seconds: w.Writing}}
	text := fmt.Sprintf("%v of wall time: %s", Rounded(w.Total), joined(parts, w.Total))
	if w.Sessions > 0 {
		text += fmt.Sprintf("; further sessions took %.0f %% of it", 100*w.Sessions/w.Total)
	}
	return text
}

// Rounded returns a time in seconds, to a tenth of a second.
func Rounded(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond)
}
