package predict

import (
	"fmt"
	"strings"

	"github.com/epbench/epbench/kernels/model"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/workloads"
)

// Row holds one recorded time, and the load of the busiest rank in that call.
type Row struct {
	Run     string
	Design  string // from the function Design
	Problem ep.Problem
	Routing string
	Seconds float64
	Call    model.Call // of the busiest rank
}

// epbench's kernels have two designs. A kernel of another library has its own name as its design.
const (
	Tuned   = "tuned"   // kernels that a search chooses
	Default = "default" // kernels launched with the constants of Modular's MAX
)

// Design returns the design of a config. Configs of one design share coefficients.
func Design(backend string, c ep.Config) string {
	switch {
	case backend != "cuda":
		return c.Kernel
	case c.Kernel == "dispatch" || c.Kernel == "combine" || c.Kernel == "dispatch+combine":
		return Default
	}
	return Tuned
}

// transportOf returns how a design sends a token: once for each selected expert (Select), or once for each distinct
// rank. A combine of full precision uses Select, because it must not round partial sums.
func transportOf(design string, op ep.Op, precision ep.Precision) model.Transport {
	ours := design == Tuned || design == Default
	if strings.HasPrefix(design, "deepep-ll") || ours && op == ep.Combine && precision == ep.Full {
		return model.Select
	}
	return model.PerRank
}

// Reader collects recorded times from runs.
type Reader struct {
	Rows    []Row
	Skipped []string // runs, each with the reason
	seen    map[string]bool
	counted map[string][]model.Traffic
}

// Read adds the time of the config that each search chose. It skips times that r already has, because a run may be a
// copy.
func (r *Reader) Read(dir, name string) error {
	run, err := record.ReadRun(dir)
	if err != nil {
		return err
	}
	if run.Machine.GPUs == 0 {
		r.Skipped = append(r.Skipped, dir+": no GPU")
		return nil
	}
	if r.seen == nil {
		r.seen, r.counted = map[string]bool{}, map[string][]model.Traffic{}
	}
	for i := range run.Searches {
		if err := r.add(name, run, &run.Searches[i]); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

func (r *Reader) add(dir string, run *record.Run, s *record.Search) error {
	p, cfg := s.Problem, s.Decision.Config
	key := fmt.Sprint(p.Key(), s.Routing, run.Seed, cfg.Key(), s.Times.Median)
	moves := p.Op == ep.Dispatch || p.Op == ep.Combine || p.Op == ep.Pair
	if !moves || !(s.Times.Median > 0) || p.SkipA2A || p.SharedExpert || p.Beside != "" || r.seen[key] {
		return nil
	}
	r.seen[key] = true
	traffic, err := r.traffic(p, s.Routing, run.Seed)
	if err != nil {
		return err
	}
	design := Design(run.Machine.Backend, cfg)
	r.Rows = append(r.Rows, Row{Run: dir, Design: design, Problem: p, Routing: s.Routing, Seconds: s.Times.Median,
		Call: busiestCall(design, p, traffic, smsOf(cfg, run.Machine.SMs))})
	return nil
}

func busiestCall(design string, p ep.Problem, traffic []model.Traffic, sms int) model.Call {
	shape := model.Shape{Ranks: p.Ranks, PerHost: p.Ranks / p.Nodes, Experts: p.Experts, TopK: p.TopK, Tokens: p.Tokens}
	call := func(op ep.Op) model.Call {
		t := transportOf(design, op, p.Precision)
		return model.NewCall(op, p, shape, t, traffic[t.Index()], sms)
	}
	if p.Op == ep.Pair {
		return call(ep.Dispatch).Then(call(ep.Combine))
	}
	return call(p.Op)
}

func (r *Reader) traffic(p ep.Problem, routing string, seed uint64) ([]model.Traffic, error) {
	key := fmt.Sprint(p.Ranks, p.Nodes, p.Experts, p.TopK, p.Tokens, routing, seed)
	if t, ok := r.counted[key]; ok {
		return t, nil
	}
	p.Op, p.Precision = ep.Dispatch, ep.Full
	w, err := workloads.Draw(routing, p, seed)
	if err != nil {
		return nil, err
	}
	r.counted[key] = model.Counted(w)
	return r.counted[key], nil
}

// smsOf returns the largest value of the parameters called sms, or `all` if there is no such parameter.
func smsOf(c ep.Config, all int) int {
	most := 0
	for name := range c.Values {
		if name == "sms" || strings.HasSuffix(name, ".sms") {
			most = max(most, c.Int(name))
		}
	}
	if most == 0 {
		return all
	}
	return most
}
