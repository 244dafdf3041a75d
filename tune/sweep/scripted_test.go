package sweep

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// call is one Run or Verify call, with counts of the calls before it.
type call struct {
	Config  ep.Config
	Problem ep.Problem
	Runs    int // of this config on this workload
	Verify  int // of this config on this workload
	All     int // of any config
}

// scripted is a backend whose times and faults a test chooses.
type scripted struct {
	SMs   []int   // default 8, 16, 32, 64
	Sigma float64 // relative noise
	// Truth returns the seconds of a config; nil means landscape.
	Truth    func(ep.Problem, string, ep.Config) float64
	Starts   func(ep.Machine, ep.Problem) []ep.Config
	OnRun    func(c call, seconds []float64) error
	OnVerify func(call) (wrong int, err error)
	OnOpen   func(opened int) error
	// MHz returns the clock rate after `all` Run calls.
	MHz func(all int) float64

	Runs   int
	Opened int
	rng    *rand.Rand
	runs   map[string]int
	checks map[string]int
}

// landscape returns the seconds of a config. The best config has sms=32 and threads=512.
func landscape(p ep.Problem, _ string, c ep.Config) float64 {
	if p.Op == ep.Pair {
		d, k, err := ep.Split(c)
		if err != nil {
			return math.NaN()
		}
		p.Op = ep.Dispatch
		return landscape(p, "", d) + landscape(p, "", k)
	}
	t := 1 + 0.25*math.Abs(math.Log2(float64(c.Int("sms"))/32))
	if c.Int("threads") != 512 {
		t *= 1.05
	}
	return 1e-5 * t * (1 + float64(p.Tokens)/16)
}

func (b *scripted) Machine() ep.Machine {
	return ep.Machine{Backend: "scripted", Name: "scripted", Arch: "none", SMs: 64, Memory: 1 << 30, GPUs: 4, Link: "none"}
}

func (b *scripted) ABI() ep.ABI { return "scripted-1" }

func (b *scripted) Kernels() []kernels.Kernel {
	var out []kernels.Kernel
	for _, op := range []ep.Op{ep.Dispatch, ep.Combine} {
		out = append(out, kernels.Kernel{
			Name: string(op), Op: op, Doc: "Follows a script.", Params: b.params(),
			Check: func(m ep.Machine, _ ep.Problem, c ep.Config) error {
				if n := c.Int("sms"); n < 1 || n > m.SMs {
					return fmt.Errorf("sms: %d is outside 1 to %d", n, m.SMs)
				}
				if n := c.Int("threads"); n > 1024 {
					return fmt.Errorf("threads: %d is above 1024", n)
				}
				if c.Int("threads") == 1024 && c.Int("sms") == 64 {
					return fmt.Errorf("threads: 1024 does not fit together with sms=64")
				}
				return nil
			},
		})
	}
	out[0].Starts = b.Starts
	return out
}

func (b *scripted) params() []kernels.Param {
	sms := kernels.Param{Name: "sms", Unit: "SMs", Default: "8", Binding: kernels.Launch, Class: kernels.Speed, Cost: kernels.SMCost,
		Values: []ep.Value{"8", "16", "32", "64"}}
	if b.SMs != nil {
		sms.Values = nil
		for _, n := range b.SMs {
			sms.Values = append(sms.Values, ep.Value(fmt.Sprint(n)))
		}
	}
	return []kernels.Param{
		sms,
		{Name: "threads", Unit: "threads", Values: []ep.Value{"256", "512", "1024"}, Default: "256",
			Binding: kernels.Compile, Class: kernels.Speed, Cost: kernels.ThreadCost},
		{Name: "algo", Values: []ep.Value{"direct", "dedup"}, Default: "direct", Before: "direct",
			Binding: kernels.Compile, Class: kernels.Precision},
	}
}

func (b *scripted) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	b.Opened++
	if b.OnOpen != nil {
		if err := b.OnOpen(b.Opened); err != nil {
			return nil, err
		}
	}
	if b.rng == nil {
		b.rng = rand.New(rand.NewPCG(1, 2))
		b.runs, b.checks = map[string]int{}, map[string]int{}
	}
	return &session{b, w}, ctx.Err()
}

func (b *scripted) Close() error { return nil }

type session struct {
	*scripted
	w *workloads.Workload
}

func (s *session) Close() error                             { return nil }
func (s *session) Prepare(context.Context, ep.Config) error { return nil }

func (s *session) call(c ep.Config) (call, string) {
	key := s.w.Problem.Key() + " " + s.w.Spec + " " + c.Key()
	return call{c, s.w.Problem, s.runs[key], s.checks[key], s.Runs}, key
}

func (s *session) Verify(_ context.Context, c ep.Config) (kernels.Comparison, error) {
	now, key := s.call(c)
	s.checks[key]++
	v := kernels.Comparison{Rows: 16}
	var err error
	if s.OnVerify != nil {
		v.Wrong, err = s.OnVerify(now)
	}
	if v.Wrong > 0 {
		v.Detail = "rank 0, row 3, column 1: want 1, got 2"
	}
	return v, err
}

func (s *session) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	out := kernels.Rounds{Clock: "wall", Fold: spec.Fold}
	for range spec.Rounds {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		row, err := s.round(c)
		if err != nil {
			return out, err
		}
		out.Seconds = append(out.Seconds, row)
	}
	if s.w.Problem.Beside != "" {
		out.Beside = besideOf(out.Seconds)
		out.Seconds = out.Beside.Seconds(s.w.Problem.Objective)
	}
	if s.MHz != nil {
		out.MHz = []float64{s.MHz(s.Runs)}
	}
	return out, nil
}

// besideOf returns rounds in which a call takes 20 us, a product takes 100 us, and both at the same time take 100 us
// plus the cost.
func besideOf(costs [][]float64) *ep.BesideRounds {
	t := &ep.BesideRounds{Amount: "scripted"}
	for _, ranks := range costs {
		var call, product, both, done []float64
		for _, cost := range ranks {
			call, product, both, done = append(call, 20e-6), append(product, 100e-6), append(both, 100e-6+cost), append(done, 0.5)
		}
		t.Append(&ep.BesideRounds{Call: [][]float64{call}, Product: [][]float64{product}, Both: [][]float64{both}, CallIn: [][]float64{call},
			ProductIn: [][]float64{both}, Done: [][]float64{done}, Amount: t.Amount})
	}
	return t
}

func (s *session) round(c ep.Config) ([]float64, error) {
	now, key := s.call(c)
	s.runs[key]++
	s.Runs++
	truth := s.Truth
	if truth == nil {
		truth = landscape
	}
	row := make([]float64, s.w.Problem.Ranks)
	for i := range row {
		row[i] = truth(s.w.Problem, s.w.Spec, c) * 0.9
	}
	row[s.rng.IntN(len(row))] /= 0.9
	noise := math.Exp(s.Sigma * s.rng.NormFloat64())
	for i := range row {
		row[i] *= noise
	}
	if s.OnRun != nil {
		return row, s.OnRun(now, row)
	}
	return row, nil
}

func planOf(t *testing.T, b kernels.Backend, o *Options) *Plan {
	t.Helper()
	p, err := MakePlan(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
