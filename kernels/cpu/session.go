package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// Session holds the memory and workers of one workload.
type Session struct {
	shape
	backend  *Backend
	workload *workloads.Workload
	oracle   *ref.Oracle
	arena    arena
	ranks    []*rank
	workers  [][]*worker     // [rank][id]
	ready    map[string]bool // prepared configs, by key
	returned bool            // setUp has run
	beside   *beside         // or nil
}

func open(b *Backend, w *workloads.Workload) (*Session, error) {
	if err := checkWorkload(b.machine, w); err != nil {
		return nil, err
	}
	s := &Session{shape: shapeOf(w.Problem), backend: b, workload: w, oracle: ref.New(w, inputScale), ready: map[string]bool{}}
	for id := range s.Ranks {
		r, err := newRank(w, s.shape, id, &s.arena)
		if err == nil && w.Problem.Op == ep.Activation {
			err = s.makeGates(r)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cpu: %w; lower --tokens or --ranks", err), s.arena.free())
		}
		s.ranks = append(s.ranks, r)
	}
	s.workers, s.beside = make([][]*worker, s.Ranks), newBeside(w.Problem)
	return s, nil
}

func (s *Session) Close() error {
	for _, team := range s.workers {
		for _, w := range team {
			close(w.work)
		}
	}
	s.workers = nil
	return s.arena.free()
}

// Prepare allocates a candidate's buffers. It runs the candidate once on each set of receive buffers, to bring all
// pages into memory.
func (s *Session) Prepare(ctx context.Context, c ep.Config) error {
	if s.ready[c.Key()] {
		return nil
	}
	if err := kernels.CheckConfig(Kernels(), s.backend.machine, s.Problem, c); err != nil {
		return err
	}
	program, err := s.program(ctx, c)
	if err != nil {
		return err
	}
	if _, err := s.start(ctx, program, kernels.RunSpec{Rounds: 1, Fold: sets}, noFault); err != nil {
		return err
	}
	s.ready[c.Key()] = true
	return nil
}

func (s *Session) program(ctx context.Context, c ep.Config) ([]stage, error) {
	if s.Op == ep.Activation {
		return activationStages(c), nil
	}
	d, k, err := s.halves(c)
	if err != nil {
		return nil, err
	}
	for _, r := range s.ranks {
		if d != nil {
			err = errors.Join(err, r.ensureInbox(s.shape, d.dedup, &s.arena))
		}
		if k != nil {
			err = errors.Join(err, r.ensureReturns(s.shape, k.dedup, &s.arena))
		}
	}
	if err != nil {
		return nil, err
	}
	var out []stage
	if d != nil {
		out = dispatchStages(*d)
	} else if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	if k != nil {
		out = append(out, combineStages(*k)...)
	}
	return out, nil
}

// halves decodes the dispatch and the combine of a config. If the config has only one of them, the other result is nil.
func (s *Session) halves(c ep.Config) (dispatch, combine *launch, err error) {
	if s.Op != ep.Pair {
		l := decode(c)
		if s.Op == ep.Dispatch {
			return &l, nil, nil
		}
		return nil, &l, nil
	}
	dc, cc, err := ep.Split(c)
	if err != nil {
		return nil, nil, err
	}
	d, k := decode(dc), decode(cc)
	return &d, &k, nil
}

// setUp runs dispatch and experts before op combine. It dispatches with algo=dedup, which every combine can follow.
func (s *Session) setUp(ctx context.Context) error {
	if s.returned {
		return nil
	}
	l := launch{blocks: 1, chunk: maxChunk, tile: 4, dedup: true}
	for _, r := range s.ranks {
		if err := r.ensureInbox(s.shape, true, &s.arena); err != nil {
			return err
		}
	}
	program := append(dispatchStages(l), stage{l, (*worker).actAsExperts})
	_, err := s.start(ctx, program, kernels.RunSpec{Rounds: 1, Fold: 1}, noFault)
	s.returned = err == nil
	return err
}

// Run measures rounds of a prepared config.
func (s *Session) Run(ctx context.Context, c ep.Config, spec kernels.RunSpec) (kernels.Rounds, error) {
	if !s.ready[c.Key()] {
		return kernels.Rounds{}, fmt.Errorf("cpu: config %s is not prepared", c.Key())
	}
	if spec.Rounds < 1 || spec.Fold < 1 {
		return kernels.Rounds{}, fmt.Errorf("cpu: %d rounds of %d calls, both must be at least 1", spec.Rounds, spec.Fold)
	}
	if s.beside != nil {
		return s.runBeside(ctx, c, spec)
	}
	program, err := s.program(ctx, c)
	if err != nil {
		return kernels.Rounds{}, err
	}
	j, err := s.start(ctx, program, spec, s.backend.faulty(c))
	if err != nil {
		return kernels.Rounds{}, err
	}
	return kernels.Rounds{Clock: "wall", Fold: spec.Fold, Seconds: j.seconds()}, nil
}

// start runs a list of kernel launches. The session stays usable after an error.
func (s *Session) start(ctx context.Context, program []stage, spec kernels.RunSpec, f fault) (*job, error) {
	return s.startWith(ctx, program, spec, f, func(*job) {}, func() {})
}

func (s *Session) startWith(ctx context.Context, program []stage, spec kernels.RunSpec, f fault, before func(*job), after func()) (*job, error) {
	j := newJob(program, s.Ranks, spec, s.backend.deadline)
	j.fault = f
	before(j)
	s.startWorkers(j.blocks)
	j.done.Add(s.Ranks * j.blocks)
	defer context.AfterFunc(ctx, j.end)()
	defer j.notifier.notifyEvery(j.deadline / 8)()
	for _, team := range s.workers {
		for _, w := range team[:j.blocks] {
			w.work <- j
		}
	}
	j.done.Wait()
	after()
	j.begin()
	left := 0
	for _, r := range s.ranks {
		left += r.rearm()
	}
	if f := j.failed.Load(); f != nil {
		s.returned = false
		return nil, f
	}
	if err := ctx.Err(); err != nil {
		s.returned = false
		return nil, err
	}
	if left > 0 {
		return nil, kernels.Failf(ep.Mismatch, "%d count words still held a count after the last call", left)
	}
	return j, nil
}

func (s *Session) startWorkers(blocks int) {
	for i, r := range s.ranks {
		for len(s.workers[i]) < blocks {
			w := &worker{s: s, r: r, id: len(s.workers[i]), work: make(chan *job, 1), message: make([]byte, s.header.Dedup)}
			s.workers[i] = append(s.workers[i], w)
			go w.loop()
		}
	}
}

func (w *worker) actAsExperts(l launch, _ int) bool {
	s, r := &w.s.shape, w.r
	scales := make([]byte, s.encoding.Scales*s.encoding.ScaleBytes)
	switch {
	case s.byRank:
		w.actByRank(l, scales)
		return true
	case s.room > 0:
		w.actMasked(l, scales)
		return true
	}
	for row := range l.claimRows(&r.move, int(r.offsets[s.groups])) {
		g, _ := slices.BinarySearch(r.offsets, uint32(row)+1)
		gain := workloads.SharedGain
		if e := g - 1 - (s.groups - s.local); e >= 0 {
			gain = workloads.ExpertGain(r.id*s.local + e)
		}
		r.scalesOf(s, g-1, row, scales)
		applyGain(s.encoding, r.out[row*s.encoding.Payload:][:s.encoding.Payload], scales, gain, r.y[row*s.Hidden:][:s.Hidden])
	}
	return true
}
