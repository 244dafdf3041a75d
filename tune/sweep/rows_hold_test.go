package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/tune/table/curate"
)

func briefs(out *Summary, class ep.Class) (lines []string) {
	for _, r := range out.Table.Rows {
		if r.Key.Routing == class {
			lines = append(lines, brief(r))
		}
	}
	return lines
}

type cramped struct{ *scripted }

func (n cramped) Kernels() []kernels.Kernel {
	all := n.scripted.Kernels()
	for i := range all {
		check := all[i].Check
		all[i].Check = func(m ep.Machine, p ep.Problem, c ep.Config) error {
			if c.Int("sms") == 16 && p.Tokens > 40 {
				return fmt.Errorf("tokens: %d is above 40, with sms=16", p.Tokens)
			}
			return check(m, p, c)
		}
	}
	return all
}

func TestRowsEndWhereConfigsDo(t *testing.T) {
	b := exact(shares{16: {"uniform": {16: 0.5}}, 1024: {"uniform": {32: 0.5}}, 128: {"uniform": {32: 0.5}}})
	b.OnRun = func(c call, _ []float64) error {
		if c.Config.Int("sms") == 16 && c.Problem.Tokens > 40 {
			return kernels.Failf(ep.Illegal, "tokens")
		}
		return nil
	}
	out := mustSweep(t, cramped{b}, exactOptions(t, []int{16, 1024}, "uniform"), t.TempDir())
	want := []string{"even 16-40 sms=16 gain=2.000 regret=0.000 [16] [uniform]", "even 46-1024 sms=32 gain=2.000 regret=0.000 [128 1024] [uniform]"}
	if got := briefs(out, ep.Even); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNoisyRoutingBlocksTheRow: at 16 tokens, the config may be slow under the noisy routing. So no row with
// AllRoutings contains 16 tokens.
func TestNoisyRoutingBlocksTheRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	b := exact(shares{16: {"uniform": {32: 0.5}, "zipf:1.5": {32: 3}}, 64: {"uniform": {32: 0.5}, "zipf:1.5": {32: 3}}})
	quiet := b.Truth
	b.Truth = func(p ep.Problem, routing string, c ep.Config) float64 {
		s := quiet(p, routing, c)
		if routing != "uniform" && p.Tokens == 16 {
			s *= math.Exp(0.3 * rng.NormFloat64())
		}
		return s
	}
	out := mustSweep(t, b, exactOptions(t, []int{16, 64}, "uniform", "zipf:1.5"), t.TempDir())
	noisy := slices.ContainsFunc(out.Run.Searches, func(s record.Search) bool { return s.Decision.Cause == record.Noisy })
	if !noisy || out.Table == nil {
		t.Fatalf("noisy %v, table %v: the test shows nothing", noisy, out.Table != nil)
	}
	for _, r := range out.Table.Rows {
		if r.Key.Routing == ep.AllRoutings && r.Lo <= 16 {
			t.Error(brief(r))
		}
	}
}

func TestOneRowForEachTokenCount(t *testing.T) {
	o := options(t, "dispatch", []int{16, 64, 256}, "uniform")
	o.Strategy = "grid"
	q, err := ep.ParseProduct("gemm:32,128,64,bf16,4") // 4 ranks x 64 tokens x 2 / 16 experts = 32 rows
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.Problems {
		o.Problems[i] = o.Problems[i].WithProduct(q, 64, ep.BesideProduct)
	}
	out := mustSweep(t, &scripted{Sigma: 0.002}, o, t.TempDir())
	if err := out.Table.Seal(); err != nil {
		t.Error(err)
	}
}

// TestBetweenIsNoSearch: between the token counts of two winners, only three configs were compared. The default's row
// there does not claim that every config was measured.
func TestBetweenIsNoSearch(t *testing.T) {
	out := exactly(t, shares{16: {"uniform": {16: 0.5}}, 128: {"uniform": {16: 1.1, 32: 1.1}}, 1024: {"uniform": {32: 0.5}}}, []int{16, 1024}, "uniform")
	for _, r := range out.Table.Rows {
		e := r.Evidence
		if between := slices.Equal(e.Tokens, []int{128}); between != !e.Complete || between && (!r.Default || e.Tried != 3) {
			t.Errorf("%s: tried %d of %d, complete %v", brief(r), e.Tried, e.Legal, e.Complete)
		}
		if slices.Contains(e.Tokens, 128) != slices.Equal(e.Between, []int{128}) {
			t.Errorf("%s: measured at %v tokens, between searches at %v", brief(r), e.Tokens, e.Between)
		}
	}
}

func TestRefinedRowsPassLint(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 4))
		b := exact(shares{16: {"uniform": {16: 0.5}}, 1024: {"uniform": {32: 0.5}}})
		b.OnRun = func(c call, row []float64) error {
			f := math.Exp(0.15 * rng.NormFloat64())
			for i := range row {
				if c.Problem.Tokens == 128 {
					row[i] *= f
				}
			}
			return nil
		}
		out := mustSweep(t, b, exactOptions(t, []int{16, 1024}, "uniform"), t.TempDir())
		lintless(t, out.Table)
	}
}

func TestClassRowsPassLint(t *testing.T) {
	out := exactly(t, shares{16: {"zipf:1.4": {32: 0.5}, "zipf:1.5": {32: 1.05}}}, []int{16}, "zipf:1.4", "zipf:1.5")
	lintless(t, out.Table)
	want := []string{"skewed 16-16 sms=8 gain=1.000 regret=1.000 [16] [zipf:1.4 zipf:1.5]"}
	if got := briefs(out, ep.Skewed); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func lintless(t *testing.T, tab *table.Table) {
	t.Helper()
	if err := tab.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, f := range curate.Lint(tab, nil, 0.01) {
		if f.Severity == curate.Bad {
			t.Errorf("%s: %s", brief(tab.Rows[f.Row]), f.Text)
		}
	}
}
