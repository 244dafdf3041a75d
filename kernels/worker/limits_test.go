package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// timedSession returns a session of two ranks. Its rows take 2 ranks x 1024 tokens x 8 experts x 2048 values x 2
// bytes = 64 MiB.
func timedSession() *session {
	p := ep.Problem{Op: ep.Dispatch, Ranks: 2, Tokens: 1024, TopK: 8, Hidden: 2048, Experts: 8}
	return &session{
		backend:  &Backend{limits: DefaultLimits(), quarantined: map[string]*kernels.Failure{}},
		workload: &workloads.Workload{Problem: p, Spec: "uniform", Ranks: []workloads.Routing{{Tokens: 1024}, {Tokens: 1024}}},
	}
}

// TestRequestLimits: the limit of run is 15 s, plus 15 s for each 100 calls. The limit of the first verify is 15 s plus
// the time of 64 MiB at 4 MiB/s: 31 s. The limit of a later verify is 15 s plus ten times the longest verify so far:
// 15 + 10 x 0.2 = 17 s.
func TestRequestLimits(t *testing.T) {
	s := timedSession()
	for calls, want := range map[int]time.Duration{1: 15, 99: 15, 100: 30, 1000: 165} {
		if got := s.runLimit(calls); got != want*time.Second {
			t.Errorf("%d calls: %v, want %v s", calls, got, int64(want))
		}
	}
	for verified, want := range map[time.Duration]time.Duration{
		0:                      31 * time.Second,
		200 * time.Millisecond: 17 * time.Second,
		time.Hour:              300 * time.Second,
	} {
		if s.verified = verified; s.verifyLimit() != want {
			t.Errorf("the longest verification took %v: %v, want %v", verified, s.verifyLimit(), want)
		}
	}
}

// TestTimesNeedTheirTime: an answer is refused if the slowest rank's rounds are longer than the wait for the answer.
func TestTimesNeedTheirTime(t *testing.T) {
	s := timedSession()
	r := kernels.Rounds{Fold: 2, Clock: "c", Seconds: [][]float64{{0.25, 0.5}, {0.25, 0.125}}} // 2*0.5 + 2*0.25 s
	spec := kernels.RunSpec{Rounds: 2, Fold: 2}
	if why, left := s.implausible(r, spec, 2*time.Second); why != "" || left != 500*time.Millisecond {
		t.Errorf("%q, %v left, want 0.5 s", why, left)
	}
	if why, _ := s.implausible(r, spec, 1400*time.Millisecond); why != "the rounds took 1.5 s together, but the answer came after 1.4 s" {
		t.Errorf("%q", why)
	}
	r.Seconds[0][0] = 0
	if why, _ := s.implausible(r, spec, time.Hour); why != "round 0, rank 0 took 0 s" {
		t.Errorf("%q", why)
	}
	s.workload.Ranks = []workloads.Routing{{}, {}}
	if why, _ := s.implausible(r, spec, time.Hour); why != "" {
		t.Errorf("no rank has tokens: %q", why)
	}
}

// TestQuarantineOfOneCase: a quarantined config may still run with another problem or routing.
func TestQuarantineOfOneCase(t *testing.T) {
	s, c := timedSession(), ep.Config{Kernel: "k"}.With("p", "1")
	f := s.quarantine(c, kernels.Failf(ep.Hang, "it hung"))
	if err := s.Prepare(t.Context(), c); err != f {
		t.Errorf("%v, want the failure", err)
	}
	other := *s.workload
	other.Spec = "zipf:1.2"
	larger := *s.workload
	larger.Problem.Tokens = 2048
	for what, key := range map[string]string{
		"another value":   quarantineKey(s.workload, c.With("p", "2")),
		"another routing": quarantineKey(&other, c),
		"more tokens":     quarantineKey(&larger, c),
	} {
		if s.backend.quarantined[key] != nil {
			t.Errorf("%s is refused too", what)
		}
	}
}

// TestReportedStatus: status ok or an unknown one becomes a crash.
func TestReportedStatus(t *testing.T) {
	for given, want := range map[ep.Status]ep.Status{ep.OK: ep.Crash, "": ep.Crash, "confused": ep.Crash, ep.Illegal: ep.Illegal, ep.Hang: ep.Hang} {
		if f := reported(given, "why"); f.Status != want || f.Reason != "why" {
			t.Errorf("%q: %+v, want %s", given, f, want)
		}
	}
}

func TestProgressNamesTheSlowestRank(t *testing.T) {
	for want, b := range map[string]Beat{
		"no heartbeat":            {Ranks: []int{1, 2}},
		"last heartbeat: compile": {Doing: "compile"},
		"last heartbeat: run, slowest is rank 2 at round 3": {Doing: "run", Ranks: []int{5, 4, 3, 3}},
	} {
		if got := (&process{last: b}).progress(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPairsOfDeclaredKernels(t *testing.T) {
	dispatch := func(name string) ep.Config { return ep.Config{Kernel: name} }
	k, err := KernelDecl{Name: "c", Op: ep.Combine, Accepts: []string{"a", "b"}}.kernel()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.CheckPair(dispatch("b"), dispatch("c")); err != nil {
		t.Error(err)
	}
	if err := k.CheckPair(dispatch("d"), dispatch("c")); err == nil || err.Error() != "c cannot follow d" {
		t.Errorf("%v", err)
	}
	if k, err = (KernelDecl{Name: "c", Op: ep.Combine}).kernel(); err != nil || k.CheckPair != nil {
		t.Errorf("%v; a combine that names no dispatch refuses some", err)
	}
}

// TestRulesSeeNumbers: in rules, what looks like an integer is a number.
func TestRulesSeeNumbers(t *testing.T) {
	for expr, want := range map[string]bool{
		"chunk % 16 == 0":                    true,
		"chunk > 100":                        false,
		`mode == "push"`:                     true,
		"problem.hidden % chunk == 0":        true,
		"machine.sms - chunk == 68":          true,
		`problem.dispatch == "fp8"`:          false,
		`mode == "pull" || problem.top_k==2`: true,
	} {
		k, err := KernelDecl{Name: "k", Op: ep.Dispatch, Rules: []Rule{{expr, "so it is"}}}.kernel()
		if err != nil {
			t.Fatal(err)
		}
		c := ep.Config{Kernel: "k"}.With("chunk", "64").With("mode", "push")
		err = k.Check(ep.Machine{SMs: 132}, ep.Problem{Hidden: 256, TopK: 2, Dispatch: ep.BF16}, c)
		if (err == nil) != want || err != nil && err.Error() != "so it is ("+expr+")" {
			t.Errorf("%s: %v, want legal %v", expr, err, want)
		}
	}
	_, err := KernelDecl{Name: "k", Op: ep.Dispatch, Params: []kernels.Param{{Name: "machine", Values: []ep.Value{"1"}, Default: "1"}}}.kernel()
	if err == nil || !strings.Contains(err.Error(), `param "machine"`) {
		t.Errorf("%v: a parameter that hides the machine from rules is accepted", err)
	}
}
