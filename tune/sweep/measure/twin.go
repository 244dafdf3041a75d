package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/search"
)

// placeTwin gives the twin its own session if the backend allows two sessions. The twin is the default, measured a
// second time in the A/A test. If the twin has its own session, the test also shows effects of memory addresses. If
// `live` lacks the twin, placeTwin closes the twin's session, because candidates may need the memory.
func (r *Runner) placeTwin(ctx context.Context, live []int) {
	if !slices.Contains(live, search.Twin) {
		_ = r.closeTwin() // if the worker is lost, the next request fails
		return
	}
	if many, ok := r.Backend.(kernels.MultiSession); r.twin != nil || r.shared != "" || !ok || !many.MultiSession() {
		return
	}
	defer stopwatch(&r.Wall.Opening)()
	var err error
	if r.twin, err = r.Backend.Open(ctx, r.Workload); err != nil {
		r.shareTwin(err)
	}
}

func (r *Runner) shareTwin(why error) {
	_ = r.closeTwin()
	r.shared = fmt.Sprintf("the twin shares the default's memory: %v", why)
}

func (r *Runner) closeTwin() (err error) {
	if r.twin != nil {
		err = r.twin.Close()
	}
	r.twin = nil
	delete(r.ready, search.Twin)
	return err
}

func (r *Runner) sessionOf(line *record.Result) kernels.Session {
	if line.Role == record.Twin && r.twin != nil {
		return r.twin
	}
	return r.session
}

// prepare prepares a line's config. If memory is short, it closes the twin's session and tries again.
func (r *Runner) prepare(ctx context.Context, line *record.Result) error {
	defer stopwatch(&r.Wall.Preparing)()
	err := r.sessionOf(line).Prepare(ctx, line.Config)
	var f *kernels.Failure
	if r.twin == nil || !errors.As(err, &f) || f.Status != ep.LaunchFailed {
		return err
	}
	r.shareTwin(err)
	return r.session.Prepare(ctx, line.Config)
}

func (r *Runner) warnOfTwin(lines []record.Result) {
	for i := range lines {
		if lines[i].Role == record.Twin && r.shared != "" {
			lines[i].Warnings = appendNew(lines[i].Warnings, r.shared)
		}
	}
}

func (r *Runner) sameSession(lines []*record.Result) []*record.Result {
	for i := range lines {
		if r.sessionOf(lines[i]) != r.sessionOf(lines[0]) {
			return lines[:i]
		}
	}
	return lines
}
