package receipt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cpu"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
	"github.com/epbench/epbench/tune/sweep"
	"github.com/epbench/epbench/tune/sweep/measure"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		aa, mid, lo, hi float64
		want            Claim
	}{
		{0.005, 1.2, 1.15, 1.25, Holds},
		{0.005, 1.05, 1.01, 1.0999, Shrunk},
		{0.005, 1.1, 1.05, 1.15, Holds},
		{0.005, 1.02, 1, 1.04, Undecided},
		{0.005, 0.99, 0.97, 1, Undecided},
		{0.005, 0.98, 0.97, 0.999, Slower},
		{0.02, 1.2, 1.15, 1.25, Holds},
		{0.04, 1.2, 1.15, 1.25, Undecided},
	} {
		d := stat.Compare(stat.Comparison{Gain: stat.Estimate{Interval: record.Interval{Mid: c.mid, Low: c.lo, High: c.hi}}, Band: record.Band{Policy: 0.01, AA: c.aa}})
		got, reason := claim(d, record.Interval{Mid: 1.15, Low: 1.1, High: 1.2})
		if got != c.want || (reason == "") != (c.want == Holds) {
			t.Errorf("%+v: %s, %q", c, got, reason)
		}
	}
}

func TestPickSpreadsOverRowsThatLeaveTheDefault(t *testing.T) {
	tab := &table.Table{}
	for i := range 12 {
		tab.Rows = append(tab.Rows, table.Row{Lo: i, Default: i%4 == 0})
	}
	for k, want := range map[int]string{0: "[1 2 3 5 6 7 9 10 11]", 1: "[6]", 3: "[2 6 10]", 99: "[1 2 3 5 6 7 9 10 11]"} {
		var got []int
		for _, r := range Pick(tab, k) {
			got = append(got, r.Lo)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%d: %v, want %s", k, got, want)
		}
	}
}

// TestPickOfBounded: in a table with MaxSMs, a row that spells out the default's config is not picked. A compromise of
// several routings is picked, although its gain is 1 too.
func TestPickOfBounded(t *testing.T) {
	same := table.Evidence{Gain: 1, GainLow: 1, GainHigh: 1}
	kept, compromise := same, same
	kept.Reason, compromise.Reason = "kept", table.Compromise(2)
	tab := &table.Table{Header: table.Header{MaxSMs: 24}, Rows: []table.Row{
		{Lo: 1, Evidence: same}, {Lo: 2}, {Lo: 3, Evidence: kept}, {Lo: 4, Evidence: compromise},
	}}
	if got := Pick(tab, 0); len(got) != 2 || got[0].Lo != 2 || got[1].Lo != 4 {
		t.Errorf("picked %d rows, want only rows 2 and 4", len(got))
	}
}

func TestWorstAndWriting(t *testing.T) {
	r := Receipt{Checks: []Check{{Claim: Holds}, {Claim: Slower}, {Claim: Undecided}}}
	if r.Worst() != Slower || (&Receipt{}).Worst() != Holds {
		t.Errorf("worst is %s", r.Worst())
	}
	var a, b bytes.Buffer
	for _, w := range []*bytes.Buffer{&a, &b} {
		if _, err := r.WriteTo(w); err != nil {
			t.Fatal(err)
		}
	}
	var back Receipt
	if err := json.Unmarshal(a.Bytes(), &back); err != nil || back.ID == "" || a.String() != b.String() {
		t.Errorf("the receipt, written twice:\n%s\n%s\n%v", a.String(), b.String(), err)
	}
}

func policy() measure.Policy {
	p := measure.PolicyFor(ep.Machine{Backend: "cpu"})
	p.Band, p.AARounds, p.MaxAA, p.MinSample, p.MaxRounds = 1, 2, 2, 0, 4
	return p
}

var problem = ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 2, Nodes: 1, Hidden: 128, Experts: 8, TopK: 2,
	Tokens: 8, MaxTokens: 8, Dispatch: ep.BF16, Combine: ep.BF16}

func TestRowsAreMeasuredOnTheBackend(t *testing.T) {
	b, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	config := kernels.Of(b.Kernels(), ep.Dispatch)[0].DefaultConfig(b.Machine(), problem).With("tile_tokens", "32")
	row := func(c ep.Class, cfg ep.Config, specs ...string) *table.Row {
		return &table.Row{Key: table.KeyOf(problem, c), Lo: 4, Hi: 8, Config: cfg,
			Evidence: table.Evidence{Gain: 1.5, GainLow: 1.4, GainHigh: 1.6, Routings: specs, Tokens: []int{4, 6, 12}}}
	}
	verifier := sweep.NewRowVerifier(b, policy(), table.Header{}, 1)
	for _, c := range []struct {
		name   string
		row    *table.Row
		checks int
		reason string
	}{
		{"class", row(ep.Even, config, "uniform", "balanced"), 1, ""},
		{"minimax", row(ep.AllRoutings, config, "uniform", "zipf:1.0"), 2, ""},
		{"illegal", row(ep.Even, config.With("blocks", "99"), "uniform"), 1, "blocks: 99 is outside"},
		{"unknown kernel", row(ep.Even, ep.Config{Kernel: "warp"}, "uniform"), 1, `no dispatch kernel called "warp"`},
		{"lost trace", row(ep.Even, config, "trace:gone.ept"), 1, "routing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checks, err := Row(context.Background(), verifier, c.row)
			if err != nil || len(checks) != c.checks {
				t.Fatalf("%d checks, %v", len(checks), err)
			}
			for _, k := range checks {
				failed := k.Claim == Failed
				if failed != (c.reason != "") || !strings.Contains(k.Reason, c.reason) {
					t.Errorf("%s: %q", k.Claim, k.Reason)
				}
				if !failed && (k.Rounds < 4 || k.Gain.Mid <= 0 || k.Clock == "" || k.Tokens != 6) {
					t.Errorf("nothing was measured: %+v", k)
				}
			}
		})
	}
}

type liar struct {
	kernels.Backend
	wrong string
}

type liarSession struct {
	kernels.Session
	wrong string
}

func (l liar) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	s, err := l.Backend.Open(ctx, w)
	return liarSession{s, l.wrong}, err
}

func (l liarSession) Verify(ctx context.Context, c ep.Config) (kernels.Comparison, error) {
	v, err := l.Session.Verify(ctx, c)
	if c.Key() == l.wrong {
		v.Wrong, v.Detail = 1, "rank 0 row 0"
	}
	return v, err
}

func TestWrongAnswerFails(t *testing.T) {
	b, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	config := kernels.Of(b.Kernels(), ep.Dispatch)[0].DefaultConfig(b.Machine(), problem).With("tile_tokens", "32")
	row := &table.Row{Key: table.KeyOf(problem, ep.Even), Lo: 8, Hi: 8, Config: config, Evidence: table.Evidence{Routings: []string{"uniform"}}}
	checks, err := Row(context.Background(), sweep.NewRowVerifier(liar{b, config.Key()}, policy(), table.Header{}, 1), row)
	if err != nil || len(checks) != 1 || checks[0].Claim != Failed || !strings.Contains(checks[0].Reason, "mismatch: 1 of") {
		t.Errorf("%+v, %v", checks, err)
	}
}

type opens struct {
	kernels.Backend
	problems *[]ep.Problem
}

func (o opens) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	*o.problems = append(*o.problems, w.Problem)
	return o.Backend.Open(ctx, w)
}

func TestRowBesideAProduct(t *testing.T) {
	b, err := cpu.Open()
	if err != nil {
		t.Fatal(err)
	}
	at := problem.AtTokens(4, 8).WithProduct(ep.Product{Kind: ep.Gemm}, 64, ep.BesideProduct)
	config := kernels.Of(b.Kernels(), ep.Dispatch)[0].DefaultConfig(b.Machine(), at).With("tile_tokens", "32")
	row := &table.Row{Key: table.KeyOf(at, ep.Even), Lo: 4, Hi: 8, Config: config, Evidence: table.Evidence{Gain: 1.5, GainLow: 1.4, GainHigh: 1.6,
		Routings: []string{"uniform"}, Tokens: []int{4, 8}, TimedAt: 4, Beside: at.Beside}}
	var opened []ep.Problem
	if _, err := Row(context.Background(), sweep.NewRowVerifier(opens{b, &opened}, policy(), table.Header{}, 1), row); err != nil {
		t.Fatal(err)
	}
	want := at.AtTokens(8, 8)
	if len(opened) == 0 || want.Beside == at.Beside {
		t.Fatalf("%d sessions, %s: the test shows nothing", len(opened), want.Beside)
	}
	for _, p := range opened {
		if p.Tokens != 8 || p.Beside != want.Beside {
			t.Errorf("%d tokens beside %q, want 8 beside %q", p.Tokens, p.Beside, want.Beside)
		}
	}
}
