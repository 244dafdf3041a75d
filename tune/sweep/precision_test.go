package sweep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
	"github.com/epbench/epbench/workloads"
)

func TestBothWinners(t *testing.T) {
	dir := t.TempDir()
	b := &scripted{Sigma: 0.01, Truth: func(p ep.Problem, routing string, c ep.Config) float64 {
		s := landscape(p, routing, c)
		if c.Str("algo") == "dedup" || c.Str("combine.algo") == "dedup" {
			s /= 2
		}
		return s
	}}
	o := options(t, "combine,pair", []int{16}, "uniform")
	o.Precision = ep.Reduced
	// This config reduces precision. Searches at full precision ignore it.
	o.Space = spaceFile(t, `required: ["combine:algo=dedup,sms=8,threads=256"]`)
	out := mustSweep(t, b, o, dir)
	if out.Table == nil {
		t.Fatal(out.NoTable)
	}
	for _, r := range out.Table.Rows {
		changed := strings.Contains(r.Config.Key(), "algo=dedup")
		if r.Default || changed != (r.Key.Precision == ep.Reduced) {
			t.Errorf("the row %s has %s", r.Key, r.Config.Key())
		}
	}
	seen := map[ep.Precision]int{}
	for _, r := range trials(t, dir) {
		seen[r.Problem.Precision]++
		if r.Problem.Precision == ep.Full && strings.Contains(r.Config.Key(), "dedup") {
			t.Fatalf("%s was tried at full precision", r.Config.Key())
		}
	}
	if seen[ep.Full] == 0 || seen[ep.Reduced] == 0 {
		t.Errorf("trials by precision: %v", seen)
	}
}

// TestShortSearches: a short search still tries an algorithm that reduces precision.
func TestShortSearches(t *testing.T) {
	b := &scripted{Sigma: 0.005, Truth: func(p ep.Problem, routing string, c ep.Config) float64 {
		s := landscape(p, routing, c)
		if c.Str("algo") == "dedup" {
			s /= 2
		}
		return s
	}}
	o := options(t, "combine", []int{16}, "uniform")
	o.Precision, o.Evaluations = ep.Reduced, 1
	out := mustSweep(t, b, o, t.TempDir())
	for _, x := range out.Run.Searches {
		if any := x.Problem.Precision == ep.Reduced; any != (x.Decision.Config.Str("algo") == "dedup") {
			t.Errorf("the search %s chose %s", x.Problem.Key(), x.Decision.Config.Key())
		}
	}
}

func TestShortPairs(t *testing.T) {
	o := options(t, "pair", []int{16}, "uniform")
	o.Evaluations, o.Strategy = 1, "bayes"
	o.Space = spaceFile(t, `required: ["dispatch:algo=direct,sms=32,threads=512", "combine:algo=direct,sms=32,threads=512"]`)
	out := mustSweep(t, &scripted{Sigma: 0.005}, o, t.TempDir())
	pair := out.Run.Searches[len(out.Run.Searches)-1].Decision
	for _, name := range []string{"dispatch.sms", "combine.sms"} {
		if out.Run.Searches[len(out.Run.Searches)-1].Problem.Op != ep.Pair || pair.Config.Int(name) != 32 {
			t.Errorf("%s chose %s", out.Run.Searches[len(out.Run.Searches)-1].Problem.Key(), pair.Config.Key())
		}
	}
}

// overlapping is a backend whose pairs use 256 threads with overlapped launches.
type overlapping struct{ scripted }

func (b *overlapping) Kernels() []kernels.Kernel {
	ks := b.scripted.Kernels()
	for i := range ks {
		ks[i].Overlapped = func(c ep.Config) ep.Config { return c.With("threads", "256") }
	}
	return ks
}

func TestOverlappedPairs(t *testing.T) {
	o := options(t, "pair", []int{16}, "uniform")
	o.Evaluations, o.Strategy = 1, "bayes"
	b := &overlapping{scripted{Sigma: 0.005, Truth: func(p ep.Problem, _ string, c ep.Config) float64 {
		s := 100e-6
		for name, factor := range map[string]float64{"threads": 1.2, "dispatch.threads": 0.8, "combine.threads": 0.8} {
			if c.Str(name) == "256" && c.Str(strings.Replace(name, "threads", "sms", 1)) != "8" {
				s *= factor
			}
		}
		return s
	}}}
	o.Space = spaceFile(t, `required: ["dispatch:algo=direct,sms=32,threads=512", "combine:algo=direct,sms=32,threads=512"]`)
	out := mustSweep(t, b, o, t.TempDir())
	pair := out.Run.Searches[len(out.Run.Searches)-1].Decision
	if out.Run.Searches[len(out.Run.Searches)-1].Problem.Op != ep.Pair || pair.Config.Str("dispatch.threads") != "256" || pair.Config.Str("combine.threads") != "256" || pair.Gain.Mid < 1.3 {
		t.Errorf("%s chose %s, gain %g", out.Run.Searches[len(out.Run.Searches)-1].Problem.Key(), pair.Config.Key(), pair.Gain.Mid)
	}
}

// TestBoundedDefaults: a search tries the config that a kernel chooses within the bound on SMs.
func TestBoundedDefaults(t *testing.T) {
	o := options(t, "dispatch", []int{16}, "uniform")
	o.Evaluations, o.MaxSMs = 1, 20
	b := &greedy{scripted{Sigma: 0.005, SMs: []int{8, 16, 20, 64}}}
	out := mustSweep(t, b, o, t.TempDir())
	if got := out.Run.Searches[0].Decision.Config; got.Int("sms") != 20 {
		t.Errorf("with 20 SMs the choice is %s", got.Key())
	}
}

func TestBoundHoldsForAll(t *testing.T) {
	for name, truth := range map[string]func(ep.Problem, string, ep.Config) float64{
		"the default stays":   func(ep.Problem, string, ep.Config) float64 { return 50e-6 },
		"another config wins": nil,
	} {
		o := options(t, "dispatch,combine,pair", []int{16, 64}, "uniform", "zipf:1.0")
		o.MaxSMs = 6
		out := mustSweep(t, &scripted{Sigma: 0.005, SMs: []int{2, 4, 8, 16}, Truth: truth}, o, t.TempDir())
		if h := out.Table.Header; h.MaxSMs != 6 || len(out.Table.Rows) == 0 {
			t.Fatalf("%s: %d rows, a bound of %d SMs", name, len(out.Table.Rows), h.MaxSMs)
		}
		for _, r := range out.Table.Rows {
			kept := r.Evidence.Gain == 1
			if r.Default || kept != (truth != nil) || out.Table.Header.IsDefault(r) != kept {
				t.Errorf("%s: row %v: default %v, gain %g", name, r.Config.Key(), r.Default, r.Evidence.Gain)
			}
			for _, n := range r.Config.Names() {
				if strings.HasSuffix(n, "sms") && r.Config.Int(n) > 6 {
					t.Errorf("%s: row takes %s=%d", name, n, r.Config.Int(n))
				}
			}
		}
		for _, x := range out.Run.Searches {
			if x.Problem.Op != ep.Pair && x.Decision.Default.Int("sms") != 4 {
				t.Errorf("%s: the default is %s", name, x.Decision.Default.Key())
			}
		}
	}
}

// TestIncumbentsAreMeasured: a search measures the old table's configs, even if the search runs beside a matrix product
// and the table does not.
func TestIncumbentsAreMeasured(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside=%v", beside), func(t *testing.T) { incumbentsAreMeasured(t, beside) })
	}
}

func incumbentsAreMeasured(t *testing.T, beside bool) {
	o := options(t, "dispatch", []int{16}, "uniform")
	alone := o.Problems[0]
	if beside {
		o.Problems[0] = alone.WithProduct(ep.Product{Kind: ep.Gemm}, 64, ep.BesideProduct)
	}
	o.Strategy, o.Evaluations = "bayes", 1
	row := func(c ep.Class, sms string) table.Row {
		cfg := ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"algo": "direct", "sms": ep.Value(sms), "threads": "1024"}}
		return table.Row{Key: table.KeyOf(alone, c), Lo: 1, Hi: 64, Config: cfg}
	}
	b := &scripted{Sigma: 0.005}
	w, err := workloads.New(o.Distributions[0], o.Problems[0], o.Seed)
	if err != nil {
		t.Fatal(err)
	}
	class := w.Class
	shipped := &table.Table{Schema: table.Schema, Header: table.Header{Machine: b.Machine()}, Rows: []table.Row{row(class, "16"), row(ep.AllRoutings, "32")}}
	if err := shipped.Seal(); err != nil {
		t.Fatal(err)
	}
	o.Incumbent = shipped
	dir := t.TempDir()
	mustSweep(t, b, o, dir)
	l, err := reports.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range shipped.Rows {
		r.Key.Objective = o.Problems[0].Objective
		if _, ok := l.Seconds(r.Key, 16, "uniform", r.Config); !ok {
			t.Errorf("%s was not measured", r.Config.Key())
		}
	}
}

// fed is a backend whose dispatch has the parameter input. With input=fp8, the caller must convert the tokens to FP8.
type fed struct{ scripted }

func (f *fed) Kernels() []kernels.Kernel {
	ks := f.scripted.Kernels()
	input := kernels.Param{Name: "input", Values: []ep.Value{"bf16", "fp8"}, Default: "bf16", Class: kernels.Hook, Outside: map[ep.Value]string{"fp8": "cast"}}
	ks[0].Params = append(ks[0].Params, input)
	return ks
}

// TestOtherWorkIsNoCandidate: a row in which the caller must convert the tokens is no candidate.
func TestOtherWorkIsNoCandidate(t *testing.T) {
	o := options(t, "dispatch", []int{16}, "uniform")
	o.Strategy = "grid"
	cast := ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"algo": "direct", "sms": "16", "threads": "512", "input": "fp8"}}
	o.Incumbent = &table.Table{Schema: table.Schema, Rows: []table.Row{{Key: table.KeyOf(o.Problems[0], ep.AllRoutings), Lo: 1, Hi: 64, Config: cast}}}
	b := &fed{scripted{Sigma: 0.005, Truth: func(_ ep.Problem, _ string, c ep.Config) float64 {
		if c.Str("input") == "fp8" {
			return 50e-6
		}
		return 100e-6
	}}}
	o.Incumbent.Header.Machine = b.Machine()
	if err := o.Incumbent.Seal(); err != nil {
		t.Fatal(err)
	}
	out := mustSweep(t, b, o, t.TempDir())
	if d := out.Run.Searches[0].Decision; d.Config.Str("input") != "bf16" || out.Table.Header.Hooks != "" {
		t.Errorf("%s won over %s, hooks %q", d.Config.Key(), d.Default.Key(), out.Table.Header.Hooks)
	}
	o = options(t, "dispatch", []int{16}, "uniform")
	o.Params = map[string][]ep.Value{"input": {"fp8"}}
	out = mustSweep(t, b, o, t.TempDir())
	if d := out.Run.Searches[0].Decision; d.Config.Str("input") != "fp8" || out.Table.Header.Hooks != "input=fp8" {
		t.Errorf("%s, hooks %q", d.Config.Key(), out.Table.Header.Hooks)
	}
}

// greedy is a backend with a second dispatch whose default takes all SMs.
type greedy struct{ scripted }

func (g *greedy) Kernels() []kernels.Kernel {
	ks := g.scripted.Kernels()
	whole := ks[0]
	whole.Name = "dispatch_whole"
	whole.Default = func(m ep.Machine, _ ep.Problem) ep.Config {
		c := ep.Config{Kernel: whole.Name, Values: map[string]ep.Value{"threads": "512", "algo": "direct"}}
		return c.With("sms", ep.Value(fmt.Sprint(m.SMs)))
	}
	return append(ks, whole)
}

func TestDTypesTellEachOther(t *testing.T) {
	o := options(t, "dispatch", []int{16}, "uniform")
	o.Problems[0].Hidden = 128
	fp8 := o.Problems[0]
	fp8.Dispatch = ep.FP8
	o.Problems = append(o.Problems, fp8)
	p, err := MakePlan(&scripted{}, o)
	if err != nil || len(p.Searches) != 2 {
		t.Fatal(err)
	}
	s := &sweeper{opts: o}
	for _, planned := range p.Searches {
		s.searches = append(s.searches, &activeSearch{routedProblem: planned.routedProblem})
	}
	s.searches[0].result.Decision.Config = parse(t, best)
	s.done = 1
	if got := s.neighbours(s.searches[1]); len(got) != 1 || got[0].Key() != best {
		t.Errorf("the search of the second dtype begins with %v", got)
	}
}

func TestKernelsOwnStarts(t *testing.T) {
	hidden := ep.Config{Kernel: "dispatch", Values: map[string]ep.Value{"sms": "16", "threads": "512", "algo": "direct"}}
	b := &scripted{Sigma: 0.005,
		Truth: func(p ep.Problem, routing string, c ep.Config) float64 {
			s := landscape(p, routing, c)
			if c.Key() == hidden.Key() {
				s /= 4
			}
			return s
		},
		Starts: func(ep.Machine, ep.Problem) []ep.Config { return []ep.Config{hidden} },
	}
	o := options(t, "dispatch", []int{16}, "uniform")
	o.Evaluations = 1
	out := mustSweep(t, b, o, t.TempDir())
	if got := out.Run.Searches[0].Decision.Config; got.Key() != hidden.Key() {
		t.Errorf("chose %s", got.Key())
	}
	if hurried := "1 of 1 searches measured only the required configs"; !strings.Contains(strings.Join(out.Run.Warnings, "\n"), hurried) {
		t.Errorf("warnings: %q", out.Run.Warnings)
	}
	o.Evaluations = 0
	if out := mustSweep(t, b, o, t.TempDir()); strings.Contains(strings.Join(out.Run.Warnings, "\n"), "measured only the required configs") {
		t.Errorf("with time enough: %q", out.Run.Warnings)
	}
}
