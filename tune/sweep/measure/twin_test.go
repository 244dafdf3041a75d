package measure

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/workloads"
)

// placed is a fake backend with up to two sessions. The second session is 3 % slower.
type placed struct {
	*fake
	refuse error
	large  func(string) bool // whether a config does not fit beside a second session
	open   []*placedSession
}

type placedSession struct {
	*fake
	of   *placed
	slow bool
	ran  []string
}

func (p *placed) MultiSession() bool { return true }

func (p *placed) Open(ctx context.Context, w *workloads.Workload) (kernels.Session, error) {
	if len(p.open) > 0 && p.refuse != nil {
		return nil, p.refuse
	}
	_, err := p.fake.Open(ctx, w)
	s := &placedSession{fake: p.fake, of: p, slow: len(p.open) > 0}
	p.open = append(p.open, s)
	return s, err
}

func (s *placedSession) Prepare(_ context.Context, c ep.Config) error {
	if len(s.of.open) > 1 && s.of.large != nil && s.of.large(c.Key()) {
		return kernels.Failf(ep.LaunchFailed, "no memory")
	}
	return nil
}

func (s *placedSession) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	s.ran = append(s.ran, c.Key())
	r, err := s.fake.Run(ctx, c, spec)
	for _, ranks := range r.Seconds {
		for i := range ranks {
			if s.slow {
				ranks[i] *= 1.03
			}
		}
	}
	return r, err
}

func (s *placedSession) Close() error {
	s.of.open = slices.DeleteFunc(s.of.open, func(o *placedSession) bool { return o == s })
	return nil
}

func placedRunner(t *testing.T, p *placed) (*Runner, *kept) {
	p.fake = &fake{}
	r, log := runner(t, p.fake, "uniform", 1)
	r.Backend = p
	return r, log
}

// TestTwinHasItsOwnMemory: the A/A ratio includes the difference between two sessions.
func TestTwinHasItsOwnMemory(t *testing.T) {
	p := &placed{}
	r, log := placedRunner(t, p)
	aa, err := r.Policy.MeasureAA(t.Context(), r, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if aa.Ratio < 1.029 || aa.Ratio > 1.031 || len(p.open) != 2 {
		t.Errorf("A/A ratio %.4f, %d sessions open", aa.Ratio, len(p.open))
	}
	for _, line := range log.lines {
		if line.Checked == 0 && line.Block == 0 {
			t.Errorf("%s was not compared with the oracle in the session in which it runs", line.Role)
		}
	}
	if _, err := r.Measure(t.Context(), record.StageScreen, live, 2); err != nil || len(p.open) != 1 {
		t.Errorf("%d sessions open in rounds without the twin, %v", len(p.open), err)
	}
	if err := r.Close(); err != nil || len(p.open) != 0 {
		t.Errorf("%d sessions left open, %v", len(p.open), err)
	}
}

// TestTwinSharesMemory: if a second session does not fit, the twin's lines have a warning and no candidate
// fails.
func TestTwinSharesMemory(t *testing.T) {
	for name, p := range map[string]*placed{
		"the second session is refused": {refuse: errors.New("no memory")},
		"the twin does not fit":         {large: func(key string) bool { return strings.Contains(key, "sms=16") }},
		"a candidate does not fit":      {large: func(key string) bool { return strings.Contains(key, "sms=64") }},
	} {
		t.Run(name, func(t *testing.T) {
			r, log := placedRunner(t, p)
			if _, err := r.Measure(t.Context(), record.StageSession, append([]int{search.Twin}, live...), 3); err != nil {
				t.Fatal(err)
			}
			for _, line := range log.lines {
				shares := slices.ContainsFunc(line.Warnings, func(w string) bool { return strings.HasPrefix(w, "the twin shares the default's memory: ") })
				if line.Status != ep.OK || len(line.Seconds) != 3 || shares != (line.Role == record.Twin) {
					t.Errorf("%s: %s, %d rounds, %q", line.Role, line.Status, len(line.Seconds), line.Warnings)
				}
			}
			if len(p.open) != 1 {
				t.Errorf("%d sessions are open", len(p.open))
			}
		})
	}
}
