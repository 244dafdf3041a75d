package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/workloads"
)

type kept struct {
	lines []record.Result
	err   error
}

func (k *kept) Append(block []record.Result, wall float64) error {
	for i := range block {
		block[i].Seq, block[i].Wall, block[i].End = len(k.lines)+i, wall, i == len(block)-1
		block[i].Time = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	}
	k.lines = append(k.lines, block...)
	return k.err
}

// runner returns a Runner for five configs. Config 2 is the default.
func runner(t *testing.T, b *fake, spec string, seed uint64) (*Runner, *kept) {
	t.Helper()
	p := ep.Problem{Op: ep.Dispatch, Mode: ep.Eager, Ranks: 4, Nodes: 1, Hidden: 64, Experts: 16, TopK: 2, Tokens: 16, MaxTokens: 16, Dispatch: ep.BF16, Combine: ep.BF16}
	w, err := workloads.Draw(spec, p, seed)
	if err != nil {
		t.Fatal(err)
	}
	space, _, err := search.NewSpace(search.Grid{Kernel: "dispatch", Axes: []search.Axis{
		{Name: "algo", Values: []ep.Value{"direct"}}, {Name: "sms", Values: []ep.Value{"4", "8", "16", "32", "64"}}, {Name: "threads", Values: []ep.Value{"256"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	log := &kept{}
	return New(Setup{
		Backend: b, Workload: w, Space: space, Default: 2, Roles: map[int]record.Role{3: record.Incumbent}, Policy: PolicyFor(b.Machine()),
		Log: log, Wall: &record.Wall{}, Cost: func(c ep.Config) ep.Cost { return ep.Cost{SMs: c.Int("sms")} },
	}), log
}

var live = []int{2, 0, 1, 3, 4}

// orders returns the order of the configs in each round of a block.
func orders(t *testing.T, spec string, seed uint64, stage record.Stage, rounds int) [][]int {
	t.Helper()
	var ran []int
	b := &fake{onRun: func(c ep.Config) error {
		ran = append(ran, c.Int("sms"))
		return nil
	}}
	r, _ := runner(t, b, spec, seed)
	if _, err := r.Measure(context.Background(), stage, live, rounds); err != nil {
		t.Fatal(err)
	}
	ran = ran[len(ran)-rounds*len(live):]
	return slices.Collect(slices.Chunk(ran, len(live)))
}

func TestCoarser(t *testing.T) {
	p := PolicyFor(ep.Machine{GPUs: 2})
	if p.Coarser(0) != p || p.Coarser(p.Band/2) != p {
		t.Error("a band below the policy's changed the policy")
	}
	if wide := p.Coarser(0.03); wide.Band != 0.03 || !strings.Contains(wide.String(), "band=0.03") {
		t.Errorf("%s", wide)
	}
}

// TestEveryRoundIsBalanced: every second round reverses the order of the round before it.
func TestEveryRoundIsBalanced(t *testing.T) {
	const rounds = 40
	got := orders(t, "uniform", 1, record.StageScreen, rounds)
	first := map[[2]int]int{}
	seen := map[string]bool{}
	for k, order := range got {
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{4, 8, 16, 32, 64}) {
			t.Fatalf("round %d ran %v", k, order)
		}
		if k%2 == 1 {
			back := slices.Clone(order)
			slices.Reverse(back)
			if !slices.Equal(back, got[k-1]) {
				t.Errorf("round %d ran %v, after %v", k, order, got[k-1])
			}
		} else {
			seen[fmt.Sprint(order)] = true
		}
		for i, a := range order {
			for _, b := range order[i+1:] {
				first[[2]int{a, b}]++
			}
		}
	}
	for pair, n := range first {
		if n != rounds/2 {
			t.Errorf("%d came before %d in %d of %d rounds", pair[0], pair[1], n, rounds)
		}
	}
	if len(first) != 20 || len(seen) < 15 {
		t.Errorf("%d ordered pairs, %d of 20 orders differ", len(first), len(seen))
	}
}

func TestOrdersAreReproducible(t *testing.T) {
	base := fmt.Sprint(orders(t, "uniform", 1, record.StageScreen, 6))
	if again := fmt.Sprint(orders(t, "uniform", 1, record.StageScreen, 6)); again != base {
		t.Errorf("%s, then %s", base, again)
	}
	for name, other := range map[string][][]int{
		"stage":   orders(t, "uniform", 1, record.StageFinals, 6),
		"routing": orders(t, "zipf:1.0", 1, record.StageScreen, 6),
		"seed":    orders(t, "uniform", 2, record.StageScreen, 6),
	} {
		if fmt.Sprint(other) == base {
			t.Errorf("another %s has the same orders", name)
		}
	}
}

func TestLines(t *testing.T) {
	r, log := runner(t, &fake{}, "uniform", 1)
	ctx := context.Background()
	samples, err := r.Measure(ctx, record.StageScreen, []int{2, 0, 3, search.Twin}, 3)
	if err != nil || len(samples) != 12 || len(log.lines) != 4 {
		t.Fatal(samples, err)
	}
	for i, want := range []struct {
		role record.Role
		sms  int
	}{{record.Default, 16}, {record.Candidate, 4}, {record.Incumbent, 32}, {record.Twin, 16}} {
		l := log.lines[i]
		if l.Role != want.role || l.Config.Int("sms") != want.sms || l.Cost.SMs != want.sms || l.Stage != record.StageScreen || l.Block != 0 || l.Round0 != 0 {
			t.Errorf("line %d: %+v", i, l)
		}
		if len(l.Seconds) != 3 || len(l.Seconds[0]) != 4 || l.Clock != "wall" || l.Status != ep.OK || (l.Checked > 0) != (want.role != record.Twin) {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	if _, err := r.Measure(ctx, record.StageScreen, []int{2, 0}, 5); err != nil {
		t.Fatal(err)
	}
	if l := log.lines[4]; l.Block != 1 || l.Round0 != 3 || l.Checked != 0 {
		t.Errorf("the second block: %+v", l)
	}
	if _, err := r.Measure(ctx, record.StageFinals, []int{2}, 1); err != nil || log.lines[6].Block != 0 || log.lines[6].Round0 != 8 {
		t.Errorf("another stage: %+v, %v", log.lines[6], err)
	}
	if r.Clock() != "wall" || r.Latest().Nanosecond() != 0 || r.Latest().IsZero() || r.fold < 1 {
		t.Errorf("clock %q, latest %v, fold %d", r.Clock(), r.Latest(), r.fold)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		fold    int
	}{{50.1e-6, 1}, {49.9e-6, 2}, {2.1e-6, 24}, {1e-8, 100}, {1, 1}} {
		b := &fake{seconds: c.seconds}
		r, log := runner(t, b, "uniform", 1)
		if _, err := r.Measure(context.Background(), record.StageAA, []int{2, 0}, 2); err != nil || log.lines[1].Fold != c.fold {
			t.Errorf("a call of %v s is folded %d times, want %d, %v", c.seconds, log.lines[1].Fold, c.fold, err)
		}
	}
}

func TestFailures(t *testing.T) {
	runs := 0
	b := &fake{onRun: func(c ep.Config) error {
		if c.Int("sms") == 4 {
			if runs++; runs == 4 {
				return kernels.Failf(ep.Hang, "rank 1 waited for rank 2")
			}
		}
		return nil
	}}
	r, log := runner(t, b, "uniform", 1)
	samples, err := r.Measure(context.Background(), record.StageScreen, live, 6)
	if err != nil || len(samples) != 4*6 || runs != 4 {
		t.Fatalf("%d samples, %d runs, %v", len(samples), runs, err)
	}
	l := log.lines[1]
	if l.Status != ep.Hang || l.Reason != "rank 1 waited for rank 2" || l.Seconds != nil || r.Failures()[0] == nil || len(r.Failures()) != 1 {
		t.Errorf("%+v, failures %v", l, r.Failures())
	}
	r, log = runner(t, &fake{wrong: func(c ep.Config) int {
		if c.Int("sms") == 64 {
			return 3
		}
		return 0
	}}, "uniform", 1)
	if _, err := r.Measure(context.Background(), record.StageScreen, live, 2); err != nil || log.lines[4].Status != ep.Mismatch || !strings.Contains(log.lines[4].Reason, "3 of 16 rows") {
		t.Errorf("%+v, %v", log.lines[4], err)
	}
}

func TestUnbelievableTimes(t *testing.T) {
	for name, rounds := range map[string][][]float64{
		"none": {}, "two": {{1}, {1}}, "of no rank": {{}}, "zero": {{1, 0}}, "negative": {{-1}}, "endless": {{math.Inf(1)}}, "no number": {{math.NaN()}},
	} {
		var f *kernels.Failure
		if err := appendRound(&record.Result{}, kernels.Rounds{Seconds: rounds}); !errors.As(err, &f) || f.Status != ep.Unstable {
			t.Errorf("%s: %v", name, err)
		}
	}
	var l record.Result
	if err := appendRound(&l, kernels.Rounds{Seconds: [][]float64{{1.23456789e-5, 2}}, Notes: []string{"n", "n"}}); err != nil || l.Seconds[0][0] != 1.234568e-5 || len(l.Warnings) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLostSession(t *testing.T) {
	gone := errors.New("the worker died")
	for _, c := range []struct {
		name   string
		losses int
		want   error
	}{{"once", 1, nil}, {"twice", 2, ErrLost}} {
		runs, losses := 0, 0
		b := &fake{onRun: func(ep.Config) error {
			if runs++; runs >= 20 && losses < c.losses {
				losses++
				return gone
			}
			return nil
		}}
		r, log := runner(t, b, "uniform", 1)
		samples, err := r.Measure(context.Background(), record.StageScreen, live, 4)
		if !errors.Is(err, c.want) || c.want == nil && (err != nil || len(samples) != 20 || len(log.lines) != 5 || b.opened != 2) {
			t.Errorf("%s: %d samples, %d lines, %d sessions, %v", c.name, len(samples), len(log.lines), b.opened, err)
		}
	}
	b := &fake{onOpen: func() error { return gone }}
	r, _ := runner(t, b, "uniform", 1)
	if _, err := r.Measure(context.Background(), record.StageScreen, live, 4); !errors.Is(err, ErrOpen) || errors.Is(err, ErrLost) {
		t.Errorf("refused at first: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, log := runner(t, &fake{}, "uniform", 1)
	if _, err := r.Measure(ctx, record.StageScreen, live, 4); !errors.Is(err, context.Canceled) || len(log.lines) > 0 {
		t.Errorf("interrupted: %v, %d lines", err, len(log.lines))
	}
}

// TestRecordedBlocks: recorded blocks are not measured again. A block with other candidates is an error.
func TestRecordedBlocks(t *testing.T) {
	b := &fake{sigma: 0.1, wrong: func(c ep.Config) int {
		if c.Int("sms") == 64 {
			return 1
		}
		return 0
	}}
	r, log := runner(t, b, "uniform", 1)
	ctx := context.Background()
	want, err := r.Measure(ctx, record.StageScreen, live, 4)
	if err != nil {
		t.Fatal(err)
	}
	right, err := r.Recheck(ctx, record.StageRecheck, []int{2, 4})
	if err != nil || !right[2] || right[4] {
		t.Fatal(right, err)
	}
	known, err := IndexBlocks(log.lines)
	if err != nil {
		t.Fatal(err)
	}
	again := &fake{}
	s, _ := runner(t, again, "uniform", 1)
	s.Recorded = known
	got, err := s.Measure(ctx, record.StageScreen, live, 4)
	if err != nil || !slices.Equal(got, want) || again.opened > 0 {
		t.Errorf("%d samples in %d sessions, %v", len(got), again.opened, err)
	}
	if right, err := s.Recheck(ctx, record.StageRecheck, []int{2, 4}); err != nil || !right[2] || right[4] || again.opened > 0 {
		t.Errorf("rechecked in %d sessions: %v, %v", again.opened, right, err)
	}
	if s.Spent() != r.Spent() || s.Spent() == 0 || s.fold != r.fold || s.Clock() != "wall" || s.Failures()[4] == nil {
		t.Errorf("spent %v of %v, fold %d, clock %q, failures %v", s.Spent(), r.Spent(), s.fold, s.Clock(), s.Failures())
	}
	for name, other := range map[string][]int{"fewer": {2, 0}, "another": {2, 0, 1, 4, 3}} {
		s, _ := runner(t, again, "uniform", 1)
		s.Recorded = known
		if _, err := s.Measure(ctx, record.StageScreen, other, 4); !errors.Is(err, ErrDiverged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, _ = runner(t, again, "uniform", 1)
	s.Recorded, s.Generation = known, 1
	if _, err := s.Measure(ctx, record.StageScreen, []int{2, 0}, 4); err != nil || again.opened != 1 {
		t.Errorf("after a retry: %d sessions, %v", again.opened, err)
	}
	if _, err := IndexBlocks(append(log.lines, log.lines...)); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a block twice: %v", err)
	}
}

func TestHostBound(t *testing.T) {
	empty := map[string]float64{"span": 10e-6}
	for _, c := range []struct {
		seconds float64
		clock   string
		want    bool
	}{{11.9e-6, "span", true}, {12.1e-6, "span", false}, {1e-6, "chain", false}} {
		if got := HostBound(c.seconds, c.clock, empty); got != c.want {
			t.Errorf("%v s by %s: %v", c.seconds, c.clock, got)
		}
	}
}

func TestAALimit(t *testing.T) {
	r, _ := runner(t, &fake{sigma: 0.5, onRun: func(ep.Config) error { time.Sleep(20 * time.Microsecond); return nil }}, "uniform", 1)
	r.Policy.MaxAA = 1000
	aa, err := r.Policy.MeasureAA(context.Background(), r, r.Default, time.Microsecond)
	if err != nil || aa.Rounds != 2*r.Policy.AARounds {
		t.Errorf("%+v, %v", aa, err)
	}
}

func TestPolicy(t *testing.T) {
	gpu, host := PolicyFor(ep.Machine{GPUs: 4}), PolicyFor(ep.Machine{})
	if gpu.Band != 0.01 || host.Band != 0.1 {
		t.Errorf("%+v, %+v", gpu, host)
	}
	const want = "max over ranks, median over rounds, interleaved; band=0.01 sample>=5e-05s fold<=100 aa=20..200 finals=24 rounds=10..50 confirm=25 interval=95% sessions=3"
	if gpu.String() != want {
		t.Errorf("the spelling changed, so that older runs cannot be resumed: %s", gpu)
	}
}

func TestWarnings(t *testing.T) {
	l := record.Result{}
	for k := range 10 {
		row := []float64{1, 1, 1}
		if k == 4 {
			row[2] = 5.1
		}
		l.Seconds = append(l.Seconds, row)
	}
	if got := stragglerWarnings(&l); len(got) != 1 || !strings.Contains(got[0], "rank 2 held up 1 of 10 rounds") {
		t.Errorf("warnings %q", got)
	}
	l.Seconds[4][2] = 5
	if got := stragglerWarnings(&l); got != nil {
		t.Errorf("exactly five times the median is not late: %q", got)
	}
	l.Seconds = l.Seconds[3:5]
	if got := stragglerWarnings(&l); got != nil {
		t.Errorf("of two rounds: %q", got)
	}
	r := &Runner{mhz: [][]float64{{1980, 1980}, {1980, 1500}}}
	if got := r.ThrottleWarning(); !strings.HasPrefix(got, "rank 1: ") {
		t.Errorf("throttled: %q", got)
	}
	r.mhz[1][1] = 1980
	if got := r.ThrottleWarning(); got != "" {
		t.Errorf("throttled: %q", got)
	}
}
