package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// session is the client's side of a session in the worker. After a restart of the worker, Prepare opens it again.
type session struct {
	backend  *Backend
	workload *workloads.Workload
	oracle   *ref.Oracle
	id       int
	proc     *process        // worker process in which `id` was opened
	prepared map[string]bool // prepared configs, by key
	verified time.Duration   // duration of the longest successful verification
	separate bool            // see retryOneByOne
}

func (s *session) open(ctx context.Context) error {
	b := s.backend
	params, err := b.openParams(s.workload)
	if err == nil {
		err = b.live(ctx)
	}
	if err != nil {
		return err
	}
	var r SessionID
	err = b.proc.call(ctx, methodOpen, params, &r, b.limits.Open)
	if f := asFailure(err); f != nil {
		return errors.New(f.Reason)
	}
	if err != nil {
		err = explain(ctx, b.proc, methodOpen, err)
		b.giveUp()
		return err
	}
	s.id, s.proc = r.Session, b.proc
	clear(s.prepared)
	return nil
}

func (s *session) Prepare(ctx context.Context, c ep.Config) error {
	if f := s.backend.quarantined[quarantineKey(s.workload, c)]; f != nil {
		return f
	}
	if s.proc != s.backend.proc || s.proc.lost() {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	if s.prepared[c.Key()] {
		return nil
	}
	if err := s.call(ctx, methodPrepare, Candidate{s.id, c}, &struct{}{}, c, s.backend.limits.Prepare); err != nil {
		return err
	}
	s.prepared[c.Key()] = true
	return nil
}

func (s *session) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	if err := s.Prepare(ctx, c); err != nil {
		return kernels.Rounds{}, err
	}
	var r kernels.Rounds
	limit, begin := s.runLimit(spec.Rounds*max(spec.Fold, 1)), time.Now()
	if err := s.call(ctx, methodRun, RunParams{Candidate{s.id, c}, spec.Rounds, spec.Fold}, &r, c, limit); err != nil {
		return kernels.Rounds{}, err
	}
	if why, _ := s.implausible(r, spec, time.Since(begin)); why != "" {
		return kernels.Rounds{}, s.quarantine(c, kernels.Failf(ep.Unstable, "the worker's times cannot be right: %s", why))
	}
	return r, nil
}

func (s *session) runLimit(calls int) time.Duration {
	return s.backend.limits.Round * time.Duration(1+calls/100)
}

func (s *session) Explain(ctx context.Context, c ep.Config, rounds int) ([]kernels.Effect, error) {
	if err := s.Prepare(ctx, c); err != nil {
		return nil, err
	}
	var r ExplainReply
	if err := s.call(ctx, methodExplain, ExplainParams{Candidate{s.id, c}, rounds}, &r, c, s.backend.limits.Verify); err != nil {
		return nil, err
	}
	if err := checkEffects(r.Effects); err != nil {
		return nil, err
	}
	return r.Effects, nil
}

func checkEffects(effects []kernels.Effect) error {
	for _, e := range effects {
		if len(e.Alone) == 0 || len(e.With) != len(e.Alone) {
			return fmt.Errorf("explain: load %q has %d rounds of the product alone and %d with the load; the worker must time both in every round", e.Load, len(e.Alone), len(e.With))
		}
	}
	return nil
}

// implausible returns why an answer's times cannot be true, or "". It also returns the wall time minus these times.
func (s *session) implausible(r kernels.Rounds, spec kernels.RunSpec, wall time.Duration) (why string, left time.Duration) {
	w := s.workload
	idle := !slices.ContainsFunc(w.Ranks, func(r workloads.Routing) bool { return r.Tokens > 0 })
	if why := r.Implausible(spec, w.Problem.Ranks, idle); why != "" {
		return why, 0
	}
	var total float64
	for _, times := range r.Seconds {
		total += slices.Max(times) * float64(r.Fold)
	}
	if total > wall.Seconds() {
		return fmt.Sprintf("the rounds took %.3g s together, but the answer came after %.3g s", total, wall.Seconds()), 0
	}
	return "", wall - time.Duration(total*float64(time.Second))
}

func (s *session) Verify(ctx context.Context, c ep.Config) (kernels.Comparison, error) {
	rest, err := s.StartVerify(ctx, c)
	if err != nil {
		return kernels.Comparison{}, err
	}
	return rest(), nil
}

// StartVerify implements kernels.AsyncVerifier. `rest` compares the probed rows.
func (s *session) StartVerify(ctx context.Context, c ep.Config) (rest func() kernels.Comparison, err error) {
	if err := s.Prepare(ctx, c); err != nil {
		return nil, err
	}
	var probes []Probe
	if !hasEpilogue(c) {
		probes = chooseProbes(s.workload)
	}
	file := ""
	if len(probes) > 0 {
		file = s.proc.rows
	}
	var r VerifyReply
	begin := time.Now()
	if err := s.call(ctx, methodVerify, VerifyParams{Candidate{s.id, c}, probes, file}, &r, c, s.verifyLimit()); err != nil {
		return nil, err
	}
	s.verified = max(s.verified, time.Since(begin))
	if file != "" && len(r.Probed) == 0 {
		r.Probed = readRows(file, 2*s.workload.Problem.Hidden)
	}
	return func() kernels.Comparison { return s.checkProbes(probes, r.Probed, s.summedAs(c), r.Comparison) }, nil
}

// verifyLimit returns the deadline of a verification: 15 s, plus ten times the duration of the session's longest
// successful verification. For the first one, it assumes that the worker compares 4 MiB of rows a second.
func (s *session) verifyLimit() time.Duration {
	const least, slow = 15 * time.Second, 4 << 20
	limit := 10 * s.verified
	if s.verified == 0 {
		p := s.workload.Problem
		bytes := p.Ranks * p.Tokens * p.TopK * p.Hidden * 2
		limit = time.Duration(bytes/slow) * time.Second
	}
	return min(s.backend.limits.Verify, least+limit)
}

// Close prints a failure of the worker and returns nil, because the failure does not make earlier measurements wrong.
func (s *session) Close() error {
	if s.proc != s.backend.proc || s.proc == nil || s.proc.lost() {
		return nil
	}
	ctx := context.Background()
	if err := s.proc.call(ctx, methodClose, SessionID{s.id}, nil, shutLimit); err != nil {
		s.backend.print(fmt.Sprintf("%v; the next session gets a new process", explain(ctx, s.proc, methodClose, err)))
		s.backend.giveUp()
	}
	return nil
}

// call performs a request about candidate c. Its error is a Failure of c, unless the context ended or the worker cannot
// be restarted.
func (s *session) call(ctx context.Context, method string, params, result any, c ep.Config, limit time.Duration) error {
	err := s.proc.call(ctx, method, params, result, limit)
	if err == nil {
		return nil
	}
	if f := asFailure(err); f != nil {
		return s.reportedFailure(c, f)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f := &kernels.Failure{Status: ep.Crash}
	if errors.Is(err, errSilent) {
		f.Status = ep.Hang
		err = fmt.Errorf("no answer to %s within %v (%s)%s", method, limit.Round(time.Second), s.proc.progress(), s.proc.printedLast())
	} else {
		err = explain(ctx, s.proc, method, err)
	}
	f.Reason = err.Error()
	if g := s.proc.group; g != nil && g.firstTrouble() != nil {
		f.Status = g.firstTrouble().Status
	}
	s.quarantine(c, f)
	if err := s.backend.restart(ctx); err != nil {
		return fmt.Errorf("after %v: %w", f, err)
	}
	return f
}

// reportedFailure quarantines a candidate that hung or crashed.
func (s *session) reportedFailure(c ep.Config, f *kernels.Failure) *kernels.Failure {
	if f.Status == ep.Hang || f.Status == ep.Crash {
		return s.quarantine(c, f)
	}
	return f
}

func (s *session) quarantine(c ep.Config, f *kernels.Failure) *kernels.Failure {
	s.backend.quarantined[quarantineKey(s.workload, c)] = f
	return f
}

func asFailure(err error) *kernels.Failure {
	var rpc *jrpc2.Error
	if !errors.As(err, &rpc) || rpc.Code != codeFailure {
		return nil
	}
	var d failureData
	_ = json.Unmarshal(rpc.Data, &d) // after an error the status is "", and becomes a crash
	return reported(d.Status, rpc.Message)
}

// reported makes a Failure. An unknown status, or ok, becomes a crash.
func reported(status ep.Status, reason string) *kernels.Failure {
	if status == ep.OK || !slices.Contains(ep.Statuses(), status) {
		status = ep.Crash
	}
	return &kernels.Failure{Status: status, Reason: reason}
}
