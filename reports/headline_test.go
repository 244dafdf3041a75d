package reports

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// decision returns a search. The interval of log(gain) is log(mid) +- half.
func decision(v record.Verdict, c record.Cause, mid, half float64, p ep.Precision) record.Search {
	return record.Search{
		Problem: ep.Problem{Op: ep.Dispatch, Tokens: 8, Precision: p}, Routing: "uniform",
		Decision: record.Decision{Verdict: v, Cause: c, Gain: record.Interval{Mid: mid, Low: mid * math.Exp(-half), High: mid * math.Exp(half)},
			Band: record.Band{Policy: 0.01, AA: 0.004}},
	}
}

// TestHeadlineCounts: the mean gain leaves out failed searches.
func TestHeadlineCounts(t *testing.T) {
	run := &record.Run{Band: 0.01, Searches: []record.Search{
		decision(record.Faster, "", 2, 0.02, ep.Full),
		decision(record.Same, "", 1, 0, ep.Full),
		decision(record.Undecided, "", 1, 0, ep.Full),
		decision(record.Undecided, record.Noisy, 1, 0, ep.Full),
		decision(record.Undecided, record.NoDefault, 1, 0, ep.Full),
		decision(record.Faster, "", 4, 0.02, ep.Reduced),
	}}
	h := Summarise(run)
	want := math.Pow(8, 1.0/5)
	if math.Abs(h.All.Gain.Mid-want) > 1e-12 || math.Abs(math.Log(h.All.Gain.High/h.All.Gain.Low)-2*0.02*math.Sqrt2/5) > 1e-12 {
		t.Errorf("gain %+v, want the mean (2 x 1 x 1 x 1 x 4)^(1/5) = %v", h.All.Gain, want)
	}
	text := strings.Join(h.Lines(), "\n")
	for _, part := range []string{
		"Faster than the default: 2 of 6 cases, gain 1.52x [1.51, 1.52] over all (geometric mean); 4.00x at best (dispatch (reduced precision), 8 tokens, uniform).",
		"Full precision: 1 of 5 cases, gain 1.19x", "Reduced precision: 1 of 1 cases, gain 4.00x",
		"Not confirmed: 1 undecided, 1 too noisy to decide, 1 because the default failed.", "is 0.4 %;",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	if top := LargestGains(run); len(top.Rows) != 2 || top.Rows[0][0].Text != "6" || top.Rows[1][0].Text != "1" {
		t.Errorf("largest gains: %v", top.Rows)
	}
	kept := decision(record.Same, "", 1, 0, ep.Full)
	kept.Decision.Challenger, kept.Decision.ChallengerGain = ep.Config{Kernel: "dispatch"}.With("blocks", "2"), record.Interval{Mid: 1.02, Low: 0.99, High: 1.05}
	text = strings.Join(Summarise(&record.Run{Band: 0.1, Searches: []record.Search{kept}}).Lines(), "\n")
	if want := "Keep the default: no config is faster.\nThe best other config gains 1.020x [0.990, 1.050] (dispatch, 8 tokens, uniform); a gain counts only if it exceeds the band of "; !strings.Contains(text, want) {
		t.Errorf("%q is missing in\n%s", want, text)
	}
	if got := Summarise(&record.Run{}).Lines(); len(got) != 1 || got[0] != "Nothing was decided in this run." {
		t.Errorf("an empty run: %q", got)
	}
}

func TestGatherWarnings(t *testing.T) {
	got := GatherWarnings([]string{
		"3 of 9 searches ended early",
		"dispatch, bf16, 1 tokens, uniform: drift: the last third is -7.4 % against the first",
		"combine, bf16, 64 tokens, zipf:1.0: drift: the last third is +12 % against the first",
		"combine, bf16, 64 tokens, zipf:1.0: throttled",
	})
	want := []string{
		"3 of 9 searches ended early",
		"2 cases, the first: dispatch, bf16, 1 tokens, uniform: drift: the last third is -7.4 % against the first",
		"combine, bf16, 64 tokens, zipf:1.0: throttled",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
