package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/table"
)

// shares holds times by token count, routing and SMs, relative to the default's time. A config that is not
// listed takes as long as the default.
type shares map[int]map[string]map[int]float64

// exact returns a backend without noise, on which the default takes 100 us.
func exact(s shares) *scripted {
	return &scripted{SMs: []int{8, 16, 32, 64}, Truth: func(p ep.Problem, routing string, c ep.Config) float64 {
		if share, ok := s[p.Tokens][routing][c.Int("sms")]; ok {
			return share * 100e-6
		}
		return 100e-6
	}}
}

// exactly runs a sweep of dispatch that varies only the SMs.
func exactly(t *testing.T, s shares, tokens []int, routings ...string) *Summary {
	t.Helper()
	return mustSweep(t, exact(s), exactOptions(t, tokens, routings...), t.TempDir())
}

func exactOptions(t *testing.T, tokens []int, routings ...string) *Options {
	o := options(t, "dispatch", tokens, routings...)
	o.Strategy, o.Params = "grid", map[string][]ep.Value{"threads": {"256"}}
	return o
}

func brief(r table.Row) string {
	sms := r.Config.Int("sms")
	if r.Default {
		sms = 8
	}
	e := r.Evidence
	return fmt.Sprintf("%s %d-%d sms=%d gain=%.3f regret=%.3f %v %v", r.Key.Routing, r.Lo, r.Hi, sms, e.Gain, e.Regret, e.Tokens, e.Routings)
}

func TestRows(t *testing.T) {
	only := func(sms int, share float64) map[string]map[int]float64 {
		return map[string]map[int]float64{"uniform": {sms: share}}
	}
	for _, c := range []struct {
		name     string
		shares   shares
		tokens   []int
		routings string
		want     []string
	}{
		{"one winner, the least gain is claimed", shares{8: only(32, 0.5), 16: only(32, 0.8), 17: only(32, 0.625)}, []int{8, 16, 17}, "uniform", []string{
			"even 8-17 sms=32 gain=1.250 regret=0.000 [8 16 17] [uniform]",
		}},
		{"the default is a row", shares{}, []int{8}, "uniform", []string{
			"even 8-8 sms=8 gain=1.000 regret=0.000 [8] [uniform]",
		}},
		{"the config of the lower count wins between the counts", shares{16: only(32, 0.5), 32: {"uniform": {32: 0.4, 64: 0.8}}, 64: only(64, 0.5)}, []int{16, 64}, "uniform", []string{
			"even 16-45 sms=32 gain=2.000 regret=0.000 [16 32] [uniform]",
			"even 46-64 sms=64 gain=2.000 regret=0.000 [64] [uniform]",
		}},
		{"the config of the higher count wins between the counts", shares{16: only(32, 0.5), 32: {"uniform": {32: 0.8, 64: 0.625}}, 64: only(64, 0.5)}, []int{16, 64}, "uniform", []string{
			"even 16-22 sms=32 gain=2.000 regret=0.000 [16] [uniform]",
			"even 23-64 sms=64 gain=1.600 regret=0.000 [32 64] [uniform]",
		}},
		{"a tie goes to the config of the lower count", shares{16: only(32, 0.5), 32: {"uniform": {32: 0.503, 64: 0.5}}, 64: only(64, 0.5)}, []int{16, 64}, "uniform", []string{
			"even 16-45 sms=32 gain=1.988 regret=0.000 [16 32] [uniform]",
			"even 46-64 sms=64 gain=2.000 regret=0.000 [64] [uniform]",
		}},
		{"a tie goes to the default of the higher count", shares{16: only(32, 0.5), 32: only(32, 0.999)}, []int{16, 64}, "uniform", []string{
			"even 16-22 sms=32 gain=2.000 regret=0.000 [16] [uniform]",
			"even 23-64 sms=8 gain=1.000 regret=0.000 [32 64] [uniform]",
		}},
		{"nothing lies between", shares{16: only(32, 0.5), 17: only(64, 0.5)}, []int{16, 17}, "uniform", []string{
			"even 16-16 sms=32 gain=2.000 regret=0.000 [16] [uniform]",
			"even 17-17 sms=64 gain=2.000 regret=0.000 [17] [uniform]",
		}},
		{"winners cross, the minimax config serves all", shares{16: {"uniform": {32: 0.5, 64: 0.75}, "zipf:1.5": {32: 0.8, 64: 0.64}}}, []int{16}, "uniform,zipf:1.5", []string{
			"even 16-16 sms=32 gain=2.000 regret=0.000 [16] [uniform]",
			"skewed 16-16 sms=64 gain=1.563 regret=0.000 [16] [zipf:1.5]",
			"all 16-16 sms=32 gain=1.250 regret=0.250 [16] [uniform zipf:1.5]",
		}},
		{"of two losses within the band the cheaper config wins", shares{16: {"uniform": {32: 0.5, 64: 0.549}, "zipf:1.5": {32: 0.55, 64: 0.5}}}, []int{16}, "uniform,zipf:1.5", []string{
			"even 16-16 sms=32 gain=2.000 regret=0.000 [16] [uniform]",
			"skewed 16-16 sms=64 gain=2.000 regret=0.000 [16] [zipf:1.5]",
			"all 16-16 sms=32 gain=1.818 regret=0.100 [16] [uniform zipf:1.5]",
		}},
		{"of two losses within the band the config at fewer tokens wins", shares{
			8:  {"uniform": {64: 0.5}, "zipf:1.5": {64: 0.5}},
			11: {"uniform": {64: 0.6, 32: 0.5}},
			16: {"uniform": {32: 0.5, 64: 0.549}, "zipf:1.5": {32: 0.55, 64: 0.5}},
		}, []int{8, 16}, "uniform,zipf:1.5", []string{
			"even 8-9 sms=64 gain=2.000 regret=0.000 [8] [uniform]",
			"even 10-16 sms=32 gain=2.000 regret=0.000 [11 16] [uniform]",
			"skewed 8-16 sms=64 gain=2.000 regret=0.000 [8 16] [zipf:1.5]",
			"all 8-16 sms=64 gain=1.821 regret=0.098 [8 16] [uniform zipf:1.5]",
		}},
		{"a class has a minimax config of its own", shares{16: {
			"zipf:1.4": {16: 0.5, 32: 0.55, 64: 0.9}, "zipf:1.5": {16: 0.55, 32: 0.5, 64: 0.9}, "uniform": {64: 0.5},
		}}, []int{16}, "zipf:1.4,zipf:1.5,uniform", []string{
			"even 16-16 sms=64 gain=2.000 regret=0.000 [16] [uniform]",
			"skewed 16-16 sms=16 gain=1.818 regret=0.100 [16] [zipf:1.4 zipf:1.5]",
			"all 16-16 sms=64 gain=1.111 regret=0.800 [16] [zipf:1.4 zipf:1.5 uniform]",
		}},
		{"two routings of one class", shares{16: {"zipf:1.4": {32: 0.5, 64: 0.75}, "zipf:1.5": {32: 0.8, 64: 0.64}}}, []int{16}, "zipf:1.4,zipf:1.5", []string{
			"skewed 16-16 sms=32 gain=1.250 regret=0.250 [16] [zipf:1.4 zipf:1.5]",
			"all 16-16 sms=32 gain=1.250 regret=0.250 [16] [zipf:1.4 zipf:1.5]",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := exactly(t, c.shares, c.tokens, strings.Split(c.routings, ",")...)
			var got []string
			for _, r := range out.Table.Rows {
				got = append(got, brief(r))
				if e := r.Evidence; !e.Complete || e.Tried != 4 || e.Legal != 4 || e.Clock != "wall" || e.Rounds < 4 || e.Date.IsZero() || e.Median <= 0 || e.P10 > e.Median || e.P90 < e.Median {
					t.Errorf("%+v", e)
				}
				if e := r.Evidence; math.Abs(e.GainLow-e.Gain) > 1e-5 || math.Abs(e.GainHigh-e.Gain) > 1e-5 {
					t.Errorf("the interval of the gain is %v to %v; without noise it must have no width", e.GainLow, e.GainHigh)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			sameRegrets(t, out)
		})
	}
}

// sameRegrets compares the row for all routings with the last row of the regret matrix.
func sameRegrets(t *testing.T, out *Summary) {
	t.Helper()
	for _, r := range out.Run.Regrets {
		for _, row := range out.Table.Rows {
			if row.Key.Routing != ep.AllRoutings || r.Problem.Tokens < row.Lo || row.Hi < r.Problem.Tokens || row.Default {
				continue
			}
			if m := r.Rows[len(r.Rows)-1]; m.Config.Key() != row.Config.Key() || float64(m.Worst) > row.Evidence.Regret+1e-12 {
				t.Errorf("%d tokens: the matrix says %s at %v, the row %s at %v", r.Problem.Tokens, m.Config.Key(), m.Worst, row.Config.Key(), row.Evidence.Regret)
			}
		}
	}
}

func TestRegretsAreRecorded(t *testing.T) {
	out := exactly(t, shares{16: {"uniform": {32: 0.5, 64: 0.75}, "zipf:1.5": {32: 0.8, 64: 0.64}}}, []int{16, 32}, "uniform", "zipf:1.5")
	if len(out.Run.Regrets) != 2 {
		t.Fatalf("%d regret matrices, want 2", len(out.Run.Regrets))
	}
	r := out.Run.Regrets[0]
	var got []string
	for _, row := range r.Rows {
		got = append(got, fmt.Sprintf("%s sms=%d %.3f worst %.3f", row.Routing, row.Config.Int("sms"), row.Loss, row.Worst))
	}
	want := []string{"uniform sms=32 [0.000 0.250] worst 0.250", "zipf:1.5 sms=64 [0.500 0.000] worst 0.500", "all sms=32 [0.000 0.250] worst 0.250"}
	if r.Problem.Tokens != 16 || !slices.Equal(r.Routings, []string{"uniform", "zipf:1.5"}) || !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if one := exactly(t, shares{}, []int{16}, "uniform"); len(one.Run.Regrets) > 0 {
		t.Error("a sweep of one routing has a regret matrix")
	}
}

func TestRowsSkipNoisySearches(t *testing.T) {
	b := exact(shares{8: {"uniform": {32: 0.5}}, 64: {"uniform": {32: 0.5}}, 16: {"uniform": {32: 0.5}}})
	b.OnRun = func(c call, row []float64) error {
		if c.Problem.Tokens == 16 && c.Config.Int("sms") == 8 {
			for i := range row {
				row[i] *= math.Exp(2 * math.Sin(float64(c.Runs*c.Runs)))
			}
		}
		return nil
	}
	out := mustSweep(t, b, exactOptions(t, []int{8, 16, 32, 48, 64}, "uniform"), t.TempDir())
	d := out.Run.Searches[1].Decision
	if d.Cause != record.Noisy || !d.KeepsDefault() || d.Challenger.Int("sms") != 32 || d.Gain != record.One || out.Run.Searches[1].Times != out.Run.Searches[1].DefaultTimes {
		t.Errorf("%+v", d)
	}
	var got []string
	for _, r := range out.Table.Rows {
		got = append(got, fmt.Sprintf("%d-%d", r.Lo, r.Hi))
	}
	if !slices.Equal(got, []string{"8-8", "32-59", "60-64"}) || out.Table.Header.AA > 0.01 {
		t.Errorf("rows %v, spread %v", got, out.Table.Header.AA)
	}
}

func TestForClass(t *testing.T) {
	search := func(class ep.Class, uncrossed bool) *activeSearch {
		c := &activeSearch{routedProblem: routedProblem{class: class}}
		c.crossingMissing = uncrossed
		return c
	}
	even, skewed, skewed2, lacking := search(ep.Even, false), search(ep.Skewed, false), search(ep.Skewed, false), search(ep.Skewed, true)
	for _, c := range []struct {
		name  string
		g     group
		class ep.Class
		want  group
	}{
		{"all routings", group{even, skewed}, ep.AllRoutings, group{even, skewed}},
		{"the searches of the class", group{even, skewed, skewed2}, ep.Skewed, group{skewed, skewed2}},
		{"no search of the class", group{even}, ep.HotRank, nil},
		{"all routings, one search not crossed", group{even, lacking}, ep.AllRoutings, group{even, lacking}},
		{"one search of the class not crossed", group{even, skewed, lacking}, ep.Skewed, group{skewed}},
		{"a search of another class not crossed", group{even, lacking}, ep.Even, group{even}},
		{"the only search, not crossed", group{lacking}, ep.AllRoutings, group{lacking}},
	} {
		if got := c.g.forClass(c.class); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d searches, want %d", c.name, len(got), len(c.want))
		}
	}
}

// TestMinimaxPrefers: the row for all routings has the config with the smallest worst loss. Among losses within the
// band the default wins, then the config at fewer tokens (`before`), then fewer SMs, then fewer threads.
func TestMinimaxPrefers(t *testing.T) {
	s := prepared(t, &scripted{}, options(t, "dispatch", []int{16}, "uniform"))
	c := s.searches[0]
	c.measured = map[string]versusDefault{}
	cfg := func(sms, threads ep.Value) ep.Config {
		return ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"algo": "direct", "sms": sms, "threads": threads}}
	}
	dflt, wide, narrow, thin := cfg("8", "256"), cfg("64", "256"), cfg("32", "512"), cfg("32", "256")
	c.result.Decision.Default, c.result.Decision.Band.Policy = dflt, 0.01
	for cfg, share := range map[*ep.Config]float64{&dflt: 1.009, &wide: 1, &narrow: 1.002, &thin: 1.005} {
		x := versusDefault{}
		x.config.Effect = math.Log(share)
		c.measured[cfg.Key()] = x
	}
	for _, x := range []struct {
		configs []ep.Config
		before  ep.Config
		want    ep.Config
	}{
		{[]ep.Config{wide, narrow, thin, dflt}, wide, dflt},
		{[]ep.Config{thin, narrow, wide}, wide, wide},
		{[]ep.Config{wide, narrow, thin}, ep.Config{}, thin},
		{[]ep.Config{wide, narrow}, ep.Config{}, narrow},
		{[]ep.Config{wide}, ep.Config{}, wide},
	} {
		got, loss := s.rowMaker().leastWorstLoss(group{c}, x.configs, s.rowMaker().tieOrder(group{c}, ep.AllRoutings, x.before))
		if got.Key() != x.want.Key() || loss != float64(stat.Effects(c.effects()).Loss(got.Key())) {
			t.Errorf("of %d configs: %s at %v, want %s", len(x.configs), got.Key(), loss, x.want.Key())
		}
	}
}

// TestFlat: launch parameters hardly matter if at least 90 % of the configs are within the band of the default. This
// needs at least ten configs.
func TestFlat(t *testing.T) {
	for _, c := range []struct {
		configs, apart int // apart: number of configs that take `factor` times the default's time
		factor         float64
		flat           bool
	}{
		{9, 0, 2, true}, {9, 1, 2, true}, {9, 2, 2, false}, {8, 0, 2, false}, {19, 2, 2, true}, {19, 3, 2, false},
		{9, 2, 1.0099, true}, {9, 2, 1.0101, false}, {9, 2, 1 / 1.0101, false}, {9, 2, 1 / 1.0099, true},
	} {
		b := &scripted{SMs: []int{8}, Truth: func(_ ep.Problem, _ string, cfg ep.Config) float64 {
			if n := cfg.Int("sms"); n > 8 && n <= 8+c.apart {
				return c.factor * 100e-6
			}
			return 100e-6
		}}
		for n := range c.configs {
			b.SMs = append(b.SMs, 9+n)
		}
		out := mustSweep(t, b, exactOptions(t, []int{16}, "uniform"), t.TempDir())
		reason := out.Run.Searches[0].Decision.Reason
		want := ""
		if c.flat {
			tied := c.configs + 1
			if c.factor == 2 {
				tied -= c.apart
			}
			want = fmt.Sprintf("%d of %d configs tie with the default: launch parameters hardly matter here", tied, c.configs+1)
		}
		if reason != want || strings.Contains(strings.Join(out.Run.Warnings, ""), "hardly matter") != c.flat {
			t.Errorf("%d of %d configs at %v: %q, want %q", c.apart, c.configs, c.factor, reason, want)
		}
	}
}

func TestFlatCountsWhatRan(t *testing.T) {
	b := &scripted{SMs: []int{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, Truth: func(ep.Problem, string, ep.Config) float64 { return 100e-6 },
		OnRun: func(c call, _ []float64) error {
			if c.Config.Int("sms") == 18 {
				return kernels.Failf(ep.LaunchFailed, "too large")
			}
			return nil
		}}
	out := mustSweep(t, b, exactOptions(t, []int{16}, "uniform"), t.TempDir())
	if got := out.Run.Searches[0].Decision.Reason; !strings.HasPrefix(got, "10 of 10 configs tie") {
		t.Errorf("%q", got)
	}
}

func TestCompromiseIsWorthIt(t *testing.T) {
	for share, want := range map[float64]bool{0.6: true, 0.98: true, 0.9915: false, 1.1: false} {
		b := compromised()
		truth := b.Truth
		b.Truth = func(p ep.Problem, routing string, c ep.Config) float64 {
			if c.Int("sms") == 62 && c.Str("threads") == "256" {
				return share * 100e-6
			}
			return truth(p, routing, c)
		}
		dir := t.TempDir()
		mustSweep(t, b, compromiseOptions(t), dir)
		crossed := slices.ContainsFunc(trials(t, dir), func(r record.Result) bool { return r.Stage == record.StageCross && r.Config.Int("sms") == 62 })
		if crossed != want {
			t.Errorf("at %v of the default's time: measured %v", share, crossed)
		}
	}
}
