// Package kernelstest runs the conformance suite as a test for backends.
package kernelstest

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/conform"
	"github.com/epbench/epbench/tune/ep"
)

// LevelVariable is the environment variable of the suite's level: quick, default or stress.
const LevelVariable = "EPBENCH_CONFORM"

// PartVariable is the environment variable that selects part I of N, as "I/N".
const PartVariable = "EPBENCH_PART"

// Options selects how much of a backend is tested.
type Options struct {
	Mode ep.Mode
	Axes *conform.Axes // nil: conform.AxesFor

	Configs int // largest number of configs of a kernel; 0: the level decides
}

// TestBackend checks a backend's declarations, refusals, cancellation and outputs.
func TestBackend(t *testing.T, open func() (kernels.Backend, error), o Options) {
	b, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	axes := conform.AxesFor(b.Machine(), b.Kernels())
	if testing.Short() {
		axes = short(axes)
	}
	if o.Axes != nil {
		axes = *o.Axes
	}
	cases := Part(t, conform.Matrix(level(t), axes, o.Mode))
	for i := range cases {
		if o.Configs > 0 {
			cases[i].Configs = o.Configs
		}
	}
	t.Run("declarations", func(t *testing.T) { declarations(t, b, cases[0].Problem) })
	t.Run("refusals", func(t *testing.T) { refusals(t, b, cases) })
	t.Run("cancelled", func(t *testing.T) { cancelled(t, b, cases) })
	t.Run("matrix", func(t *testing.T) { matrix(t, b, cases) })
}

func level(t *testing.T) conform.Level {
	switch l := conform.Level(os.Getenv(LevelVariable)); l {
	case "":
		return conform.Quick
	case conform.Quick, conform.Default, conform.Stress:
		return l
	default:
		t.Fatalf("%s=%s: use quick, default or stress", LevelVariable, l)
		return ""
	}
}

// Part returns the cases that PartVariable selects.
func Part[T any](t *testing.T, cases []T) []T {
	t.Helper()
	part := os.Getenv(PartVariable)
	if part == "" {
		return cases
	}
	mine, err := conform.Part(cases, part)
	if err != nil {
		t.Fatalf("%s: %v", PartVariable, err)
	}
	return mine
}

func short(a conform.Axes) conform.Axes {
	small := func(values []int, most int) []int {
		return slices.DeleteFunc(slices.Clone(values), func(v int) bool { return v > most })
	}
	a.Ranks, a.Local, a.TopK, a.Hidden = small(a.Ranks, 4), small(a.Local, 7), small(a.TopK, 4), small(a.Hidden, 512)
	a.Tokens, a.Capacity = []int{1, 9}, 9
	return a
}

func matrix(t *testing.T, b kernels.Backend, cases []conform.Case) {
	rows, configs, begin := 0, 0, time.Now()
	err := conform.Run(t.Context(), b, cases, func(r conform.Result) {
		t.Logf("%s: %d configs, %.0f s since the start %s", r.Case.Name, len(r.Trials), time.Since(begin).Seconds(), r.Skipped)
		for _, o := range r.Failed() {
			t.Errorf("%s\n%s: %s: %s", r.Case.Name, o.Config.Key(), o.Status, o.Reason)
		}
		for _, o := range r.Trials {
			configs++
			rows += o.Compared.Rows
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows == 0 {
		t.Error("no row was compared with the oracle")
	}
	t.Logf("%d cases, %d configs, %d rows compared", len(cases), configs, rows)
}

func declarations(t *testing.T, b kernels.Backend, p ep.Problem) {
	m := b.Machine()
	if m.Backend == "" || m.Key() != b.Machine().Key() {
		t.Errorf("machine: %+v has no backend, or its key changes between calls", m)
	}
	for _, op := range ep.Ops() {
		p.Op = op
		for _, k := range kernels.Of(b.Kernels(), op) {
			seen := map[string]bool{}
			for _, q := range k.Params {
				if seen[q.Name] || q.Doc == "" || q.Binding == "" || q.Class == "" || len(q.Values) == 0 {
					t.Errorf("%s: parameter %q is named twice or not fully declared: %+v", k.Name, q.Name, q)
				}
				seen[q.Name] = true
			}
			c := k.DefaultConfig(m, p)
			if len(c.Values) != len(k.Params) || c.Kernel != k.Name {
				t.Errorf("%s: default %s does not set each of its %d parameters", k.Name, c.Key(), len(k.Params))
			}
			back, err := ep.ParseConfig(c.Key())
			if err != nil || back.Key() != c.Key() {
				t.Errorf("%s: parsing the key of the default gives another config: %s, %v", k.Name, c.Key(), err)
			}
			if err := k.Check(m, p, ep.Config{Kernel: k.Name}); err == nil {
				t.Errorf("%s: a config without values is legal", k.Name)
			}
		}
	}
}

// refusals checks that an illegal candidate leaves the session usable.
func refusals(t *testing.T, b kernels.Backend, cases []conform.Case) {
	s, c := openFirst(t, b, cases)
	defer closeSession(t, s)
	for _, bad := range []ep.Config{
		{Kernel: "no-such-kernel", Values: map[string]ep.Value{}},
		{Kernel: c.Kernel, Values: map[string]ep.Value{}},
		c.With("no-such-parameter", "1"),
	} {
		var f *kernels.Failure
		if err := s.Prepare(t.Context(), bad); !errors.As(err, &f) {
			t.Errorf("preparing %s: %v, want a Failure", bad.Key(), err)
		}
	}
	if _, err := s.Run(t.Context(), c, kernels.RunSpec{Rounds: 1, Fold: 1}); err == nil {
		t.Error("a candidate ran without having been prepared")
	}
	if err := errors.Join(s.Prepare(t.Context(), c), s.Prepare(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Verify(t.Context(), c); err != nil || !v.OK() {
		t.Errorf("after refusals: %+v, %v", v, err)
	}
}

func cancelled(t *testing.T, b kernels.Backend, cases []conform.Case) {
	s, c := openFirst(t, b, cases)
	defer closeSession(t, s)
	if err := s.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx, c, kernels.RunSpec{Rounds: 1 << 20, Fold: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run returned %v", err)
	}
}

func openFirst(t *testing.T, b kernels.Backend, cases []conform.Case) (kernels.Session, ep.Config) {
	t.Helper()
	for _, c := range cases {
		all := kernels.For(b.Kernels(), c.Problem)
		if len(all) == 0 {
			continue
		}
		k := all[0]
		cfg := k.DefaultConfig(b.Machine(), c.Problem)
		if c.Problem.Tokens == 0 || k.Check(b.Machine(), c.Problem, cfg) != nil {
			continue
		}
		w, err := c.Workload()
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Open(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return s, cfg
	}
	t.Fatal("no case is legal here")
	return nil, ep.Config{}
}

func closeSession(t *testing.T, s kernels.Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
