package stat

import (
	"math"

	"github.com/epbench/epbench/tune/record"
)

// discovery is the share of claimed differences that may be false, over all
// comparisons judged together.
const discovery = 0.05

// Compared is a comparison of two samples from different sessions.
type Compared struct {
	Ratio Ratio   // time of B over time of A
	Band  float64 // least relative difference that is called one
}

// JudgeAll says how B compares with A in many comparisons at once. A
// difference is called only where it exceeds the band by more than chance
// explains, controlled over all comparisons (Benjamini and Hochberg 1995):
// among a hundred comparisons of equal programs some intervals exclude 1.
func JudgeAll(all []Compared) []record.Verdict {
	ps := make([]float64, len(all))
	for i, c := range all {
		beyond := math.Abs(math.Log(c.Ratio.Mid)) - math.Log1p(c.Band)
		ps[i] = min(1, 2*UpperP(beyond, c.Ratio.StdErr))
	}
	sure := BenjaminiHochberg(ps, discovery)
	out := make([]record.Verdict, len(all))
	for i, c := range all {
		switch {
		case sure[i] && c.Ratio.Mid > 1:
			out[i] = record.Slower
		case sure[i]:
			out[i] = record.Faster
		case Judge(c.Ratio.Interval, c.Band) == record.Same: // whichever way the ratio is taken
			out[i] = record.Same
		default:
			out[i] = record.Undecided
		}
	}
	return out
}
