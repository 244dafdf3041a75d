package stat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func interval(low, mid, high float64) record.Interval {
	return record.Interval{Mid: mid, Low: low, High: high}
}

func TestJudge(t *testing.T) {
	const band = 0.25 // bounds 0.8 and 1.25 are exact
	for _, c := range []struct {
		gain record.Interval
		want record.Verdict
	}{
		{interval(1.1, 1.3, 1.5), record.Faster},
		{interval(1.1, 1.25, 1.5), record.Undecided}, // at the band
		{interval(1, 1.3, 1.5), record.Undecided},    // the interval contains 1
		{interval(0.9, 1.3, 1.5), record.Undecided},
		{interval(1.1, 1.2, 1.3), record.Undecided}, // may lie within the band
		{interval(0.5, 0.7, 0.9), record.Slower},
		{interval(0.5, 0.8, 0.9), record.Undecided}, // at the band
		{interval(0.5, 0.7, 1), record.Undecided},   // the interval contains 1
		{interval(0.5, 0.7, 1.1), record.Undecided},
		{interval(0.8, 1, 1.25), record.Same}, // the ends belong to the band
		{interval(0.799, 1, 1.25), record.Undecided},
		{interval(0.8, 1, 1.251), record.Undecided},
		{interval(1.01, 1.02, 1.03), record.Same}, // not 1, but within the band
		{record.One, record.Same},
		{interval(math.NaN(), 2, math.NaN()), record.Undecided}, // one round
		{interval(math.NaN(), 0.5, math.NaN()), record.Undecided},
	} {
		if got := Judge(c.gain, band); got != c.want {
			t.Errorf("%v: %s, want %s", c.gain, got, c.want)
		}
	}
	above := 1.01 * math.Exp(6e-16)
	for _, g := range []record.Interval{interval(above, above, above), interval(1/above, 1/above, 1/above), interval(1.005, above, 1.02)} {
		if got := Judge(g, 0.01); got == record.Faster || got == record.Slower {
			t.Errorf("%v is at the end of the band, but %s", g, got)
		}
	}
	if got := Judge(interval(1.001, 1.002, 1.003), 0); got != record.Faster {
		t.Errorf("without a band: %s", got)
	}
}

var fast, slow = config("k:a=2"), config("k:a=1")

func config(key string) ep.Config {
	c, err := ep.ParseConfig(key)
	if err != nil {
		panic(err)
	}
	return c
}

// TestDecide: Compare keeps the caller's config. Decide takes the challenger only if it is faster.
func TestDecide(t *testing.T) {
	quiet := record.Band{Policy: 0.01, AA: 0.005}
	for _, c := range []struct {
		name    string
		gain    record.Interval
		band    record.Band
		bound   string
		verdict record.Verdict
		cause   record.Cause
		reason  string
		wins    bool
	}{
		{"faster", interval(1.1, 1.2, 1.3), quiet, "", record.Faster, "", "", true},
		{"slower", interval(0.7, 0.8, 0.9), quiet, "", record.Slower, "", "", false},
		{"the same", interval(0.999, 1.001, 1.003), quiet, "", record.Same, "", "", false},
		{"undecided", interval(0.9, 1.2, 1.5), quiet, "", record.Undecided, "", "", false},
		{"the default", record.One, quiet, "", record.Same, "", "", false},
		{"the A/A spread is the band", interval(1.005, 1.02, 1.03), record.Band{Policy: 0.03, AA: 0.03}, "", record.Same, "", "", false},
		{"a spread as wide as the policy's band", interval(1.1, 1.2, 1.3), record.Band{Policy: 0.01, AA: 0.01}, "", record.Faster, "", "", true},
		{"a spread wider than the band", interval(1.05, 1.2, 1.3), record.Band{Policy: 0.01, AA: 0.0101}, "", record.Undecided, record.Noisy, "varies by 1.0 %, more than the band of 1.0 %", false},
		{"plainly faster in spite of the spread", interval(1.06, 1.2, 1.3), record.Band{Policy: 0.01, AA: 0.0101}, "", record.Faster, "", "", true},
		{"plainly slower", interval(0.4, 0.5, 0.6), record.Band{Policy: 0.01, AA: 0.1}, "", record.Slower, "", "", false},
		{"slower, but not plainly", interval(0.4, 0.5, 0.7), record.Band{Policy: 0.01, AA: 0.1}, "", record.Undecided, record.Noisy, "varies by 10.0 %", false},
		{"host-bound", interval(1.1, 1.2, 1.3), quiet, "an empty kernel", record.Same, record.HostBound, "an empty kernel", false},
		{"noisy and host-bound", interval(1.1, 1.2, 1.3), record.Band{Policy: 0.01, AA: 0.2}, "an empty kernel", record.Undecided, record.Noisy, "varies by 20.0 %", false},
	} {
		m := Comparison{Config: fast, Default: slow, Gain: Estimate{Interval: c.gain, Rounds: 25, Sessions: 1}, Band: c.band, HostBound: c.bound}
		for name, d := range map[string]record.Decision{"Compare": Compare(m), "Decide": Decide(m)} {
			if d.Verdict != c.verdict || d.Cause != c.cause || !strings.Contains(d.Reason, c.reason) || (d.Reason == "") != (c.reason == "") {
				t.Errorf("%s: %s: %s, %q, %q", c.name, name, d.Verdict, d.Cause, d.Reason)
			}
			want, gain := fast, c.gain
			if name == "Decide" && !c.wins {
				want, gain = slow, record.One
			}
			if d.Config.Key() != want.Key() || d.Gain != gain || d.KeepsDefault() != (want.Key() == slow.Key()) {
				t.Errorf("%s: %s: config %s, gain %v", c.name, name, d.Config.Key(), d.Gain)
			}
			if d.Default.Key() != slow.Key() || d.Challenger.Key() != fast.Key() || d.ChallengerGain != c.gain || d.Rounds != 25 || d.Band != c.band {
				t.Errorf("%s: %s loses a part of the comparison: %+v", c.name, name, d)
			}
		}
	}
}

// shifting returns 25 rounds whose times change by a sixth in the middle.
func shifting(gain float64, seed uint64) Part {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := Part{}
	for i := range 25 {
		level := math.Log(gain)
		if i >= 12 {
			level += math.Log(7.0 / 6)
		}
		p.A, p.B = append(p.A, level+0.01*rng.NormFloat64()), append(p.B, 0)
	}
	return p
}

// TestGainFarBeyondNoise: a large gain is claimed although the rounds are correlated.
func TestGainFarBeyondNoise(t *testing.T) {
	for gain, want := range map[float64]record.Verdict{4.4: record.Faster, 1 / 4.4: record.Slower, 1.5: record.Undecided, 1.1: record.Undecided, 1: record.Undecided} {
		for seed := range uint64(100) {
			e := Ratio(shifting(gain, seed))
			if e.Unknowable() == "" {
				t.Fatalf("the shift is not seen: correlation %.2f", e.Correlation)
			}
			d := Compare(Comparison{Config: fast, Default: slow, Gain: e, Band: record.Band{Policy: 0.01}})
			if noisy := d.Cause == record.Noisy; d.Verdict != want || noisy != (want == record.Undecided) {
				t.Fatalf("gain %.2f [%.2f, %.2f]: %s, %s, range %.3f", e.Mid, e.Low, e.High, d.Verdict, d.Reason, e.Range)
			}
		}
	}
}

func TestFail(t *testing.T) {
	d := Fail(Comparison{Config: fast, Default: slow, Band: record.Band{Policy: 0.1}}, record.Failed, "hang")
	if d.Cause != record.Failed || d.Reason != "hang" || d.Verdict != record.Undecided || d.Config.Key() != fast.Key() || d.Usable() {
		t.Errorf("%+v", d)
	}
}

func steady(mid, se float64) Estimate {
	return Estimate{Interval: interval(mid*math.Exp(-1.96*se), mid, mid*math.Exp(1.96*se)), Rounds: 25, Sessions: 1}
}

func TestJudgeAll(t *testing.T) {
	for _, c := range []struct {
		name  string
		ratio Estimate
		want  record.Verdict
	}{
		{"twice the time", steady(2, 0.01), record.Slower},
		{"half the time", steady(0.5, 0.01), record.Faster},
		{"the same", steady(1, 0.001), record.Same},
		{"surely different, inside the band", steady(1.02, 0.001), record.Same},
		{"just inside the band, without noise", steady(1.0499, 0), record.Same},
		{"just beyond the band, without noise", steady(1.0501, 0), record.Slower},
		{"beyond the band, not for certain", steady(1.06, 0.02), record.Undecided},
		{"too noisy to be the same", steady(1, 0.1), record.Undecided},
		{"one round", Estimate{Interval: interval(math.NaN(), 2, math.NaN())}, record.Undecided},
	} {
		if got := JudgeAll([]BandedRatio{{c.ratio, 0.05}}); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// TestJudgeAllControlsChance: p = 0.046 is significant in a single comparison, but not among a hundred comparisons.
func TestJudgeAllControlsChance(t *testing.T) {
	x := BandedRatio{steady(1.05*math.Exp(0.02), 0.01), 0.05}
	if got := JudgeAll([]BandedRatio{x})[0]; got != record.Slower {
		t.Errorf("alone: %s", got)
	}
	all := make([]BandedRatio, 100)
	for i := range all {
		all[i] = BandedRatio{steady(1, 0.001), 0.05}
	}
	all[40] = x
	if got := JudgeAll(all)[40]; got != record.Undecided {
		t.Errorf("among a hundred comparisons: %s", got)
	}
}

// TestDecidedBand: with the returned band, nine of ten comparisons of equal programs give "same".
func TestDecidedBand(t *testing.T) {
	const sessions, spread, pairs = 12, 0.02, 2000
	band, rng := DecidedBand(sessions, spread), rand.New(rand.NewPCG(1, 0))
	draw := func() [][]float64 {
		out := make([][]float64, sessions)
		for i := range out {
			place := spread * rng.NormFloat64()
			for range 20 {
				out[i] = append(out[i], place+0.001*rng.NormFloat64())
			}
		}
		return out
	}
	same := map[float64]int{}
	for range pairs {
		ratio := IndependentRatio(draw(), draw(), 0).Interval
		for _, b := range []float64{band, band / 2} {
			if Judge(ratio, b) == record.Same {
				same[b]++
			}
		}
	}
	if same[band] < 9*pairs/10 || same[band/2] > pairs/2 {
		t.Errorf("with a band of %.1f %%, %d of %d pairs are judged the same; with a band of %.1f %%, %d pairs are", 100*band, same[band], pairs, 50*band, same[band/2])
	}
}

// TestSessionsFor: the returned number suffices, and a smaller number does not.
func TestSessionsFor(t *testing.T) {
	for _, half := range []float64{0.02, 0.01, 0.005, 0.004} {
		e := steady(1, 0.012/normal95)
		e.Sessions = 12
		n := e.SessionsFor(half, 100)
		reach := func(n int) float64 {
			return 0.012 * student(n) / student(12) * math.Sqrt(12/float64(n))
		}
		if reach(n) > half || n > 12 && reach(n-1) <= half {
			t.Errorf("with %d sessions the ends are %.4f from the middle, want at most %.4f", n, reach(n), half)
		}
	}
	if e := steady(1, 0.1); e.SessionsFor(0.01, 100) <= 100 {
		t.Error("one session shows no deviation between sessions")
	}
}
