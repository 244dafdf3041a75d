package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

const beatEvery = 500 * time.Millisecond

// Prober is a session that returns output rows after Verify, as BF16 values. k is -1 for a combined row. Otherwise it
// is the top-k position of the expert that received the row.
type Prober interface {
	Probe(rank, token, k int) ([]uint16, error)
}

// Progresser is a session that counts the rounds each rank has finished. Progress must be safe to call during a round.
type Progresser interface{ Progress() []int }

// Serve answers one request at a time, until shutdown or the end of `in`.
func Serve(ctx context.Context, name string, b kernels.Backend, in io.Reader, out io.WriteCloser) error {
	s := &server{ctx: ctx, name: name, backend: b, sessions: map[int]opened{}}
	methods := handler.Map{
		methodHello:    handler.New(s.hello),
		methodOpen:     s.beating("open", handler.New(s.open)),
		methodPrepare:  s.beating("prepare", handler.New(s.prepare)),
		methodRun:      s.beating("run", handler.New(s.run)),
		methodTurns:    s.beating("run", handler.New(s.turns)),
		methodVerify:   s.beating("verify", handler.New(s.verify)),
		methodEmpty:    s.beating("empty", handler.New(s.empty)),
		methodExplain:  s.beating("explain", handler.New(s.explain)),
		notifyAhead:    handler.New(s.ahead),
		methodClose:    handler.New(s.close),
		methodShutdown: handler.New(s.shutdown),
	}
	s.rpc = jrpc2.NewServer(methods, &jrpc2.ServerOptions{AllowPush: true, Concurrency: 1})
	s.rpc.Start(channel.Line(in, out))
	defer s.closeAll()
	return s.rpc.Wait()
}

type server struct {
	ctx      context.Context
	name     string
	backend  kernels.Backend
	rpc      *jrpc2.Server
	sessions map[int]opened
	next     int

	mu     sync.Mutex
	active kernels.Session // heartbeats report its progress
}

type opened struct {
	kernels.Session
	problem ep.Problem
}

func (s *server) beating(doing string, h jrpc2.Handler) jrpc2.Handler {
	return func(ctx context.Context, r *jrpc2.Request) (any, error) {
		stop := make(chan struct{})
		defer close(stop)
		go s.beat(doing, stop)
		result, err := h(ctx, r)
		return result, wireError(err)
	}
}

func (s *server) beat(doing string, stop <-chan struct{}) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			b := Beat{Doing: doing}
			s.mu.Lock()
			p, ok := s.active.(Progresser)
			s.mu.Unlock()
			if ok {
				b.Ranks = p.Progress()
			}
			_ = s.rpc.Notify(s.ctx, notifyBeat, b) // fails only if the pipe is closed, and then Serve ends
		}
	}
}

func (s *server) hello(_ context.Context, h Hello) (Welcome, error) {
	if h.Protocol != Protocol {
		return Welcome{}, fmt.Errorf("client speaks protocol %d, but this worker speaks %d", h.Protocol, Protocol)
	}
	w := Welcome{Protocol: Protocol, Worker: s.name, Machine: s.backend.Machine(), Turns: true}
	if v, ok := s.backend.(kernels.Versioned); ok {
		w.ABI = v.ABI()
	}
	_, w.Ahead = s.backend.(kernels.Precompiler)
	if m, ok := s.backend.(kernels.MultiSession); ok {
		w.Sessions = m.MultiSession()
	}
	if a, ok := s.backend.(kernels.ProductRunner); ok {
		w.Beside = a.Products()
	}
	all := s.backend.Kernels()
	for _, k := range all {
		w.Kernels = append(w.Kernels, KernelDecl{Name: k.Name, Op: k.Op, Doc: k.Doc, Params: k.Params, Work: k.Work,
			Layouts: k.Layouts, Rules: s.rules(k.Name), Accepts: accepts(all, k)})
	}
	return w, nil
}

// accepts lists the dispatches that the combine k can follow. It returns nil if k can follow all of them.
func accepts(all []kernels.Kernel, k kernels.Kernel) (names []string) {
	if k.CheckPair == nil {
		return nil
	}
	for _, d := range kernels.Of(all, ep.Dispatch) {
		if slices.ContainsFunc(designs(d), func(d ep.Config) bool {
			return slices.ContainsFunc(designs(k), func(c ep.Config) bool { return k.CheckPair(d, c) == nil })
		}) {
			names = append(names, d.Name)
		}
	}
	return names
}

// designs returns an empty config, and a config for each value of a Design parameter.
func designs(k kernels.Kernel) []ep.Config {
	out := []ep.Config{{Kernel: k.Name}}
	for _, q := range k.Params {
		for _, v := range q.Values {
			if q.Design {
				out = append(out, out[0].With(q.Name, v))
			}
		}
	}
	return out
}

func (s *server) rules(kernel string) []Rule {
	of, ok := s.backend.(kernels.Conditioned)
	if !ok {
		return nil
	}
	var out []Rule
	for _, c := range of.Conditions(kernel) {
		out = append(out, Rule(c))
	}
	return out
}

func (s *server) open(ctx context.Context, p OpenParams) (SessionID, error) {
	w, err := p.workload()
	if err != nil {
		return SessionID{}, kernels.Failf(ep.Illegal, "%v", err)
	}
	session, err := s.backend.Open(ctx, w)
	if err != nil {
		return SessionID{}, kernels.Failf(ep.Illegal, "%v", err)
	}
	s.next++
	s.sessions[s.next] = opened{session, w.Problem}
	s.activate(session)
	return SessionID{s.next}, nil
}

func (s *server) session(id int) (opened, error) {
	o, ok := s.sessions[id]
	if !ok {
		return o, fmt.Errorf("session %d is not open", id)
	}
	s.activate(o.Session)
	return o, nil
}

func (s *server) activate(session kernels.Session) {
	s.mu.Lock()
	s.active = session
	s.mu.Unlock()
}

func (s *server) prepare(ctx context.Context, c Candidate) (struct{}, error) {
	o, err := s.session(c.Session)
	if err == nil {
		err = kernels.CheckConfig(s.backend.Kernels(), s.backend.Machine(), o.problem, c.Config)
	}
	if err == nil {
		err = o.Prepare(ctx, c.Config)
	}
	return struct{}{}, err
}

func (s *server) ahead(_ context.Context, p AheadParams) error {
	if f, ok := s.backend.(kernels.Precompiler); ok {
		f.Precompile(p.Problem, p.Configs)
	}
	return nil
}

func (s *server) run(ctx context.Context, p RunParams) (kernels.Rounds, error) {
	session, err := s.session(p.Session)
	if err != nil {
		return kernels.Rounds{}, err
	}
	return session.Run(ctx, p.Config, kernels.RunSpec{Rounds: p.Rounds, Fold: p.Fold})
}

func (s *server) turns(ctx context.Context, p TurnsParams) (r TurnsReply, err error) {
	session, err := s.session(p.Session)
	if err != nil {
		return r, err
	}
	r.Rounds, err = kernels.RunTurns(ctx, session.Session, p.Turns)
	var f *kernels.Failure
	if errors.As(err, &f) {
		r.Failed, err = &TurnFailure{f.Status, f.Reason}, nil
	}
	return r, err
}

func (s *server) verify(ctx context.Context, p VerifyParams) (VerifyReply, error) {
	session, err := s.session(p.Session)
	if err != nil {
		return VerifyReply{}, err
	}
	var r VerifyReply
	if r.Comparison, err = session.Verify(ctx, p.Config); err != nil {
		return VerifyReply{}, err
	}
	if prober, ok := session.Session.(Prober); ok {
		r.Probed, err = probe(prober, p.Probes)
	}
	if err == nil && len(r.Probed) > 0 && writeRows(p.RowsFile, r.Probed) == nil {
		r.Probed = nil
	}
	return r, err
}

func (s *server) explain(ctx context.Context, p ExplainParams) (r ExplainReply, err error) {
	session, err := s.session(p.Session)
	if err != nil {
		return r, err
	}
	e, ok := session.Session.(kernels.Explainer)
	if !ok {
		return r, fmt.Errorf("this worker cannot explain how a call slows down a matrix product")
	}
	r.Effects, err = e.Explain(ctx, p.Config, p.Rounds)
	return r, err
}

func probe(p Prober, probes []Probe) ([]ProbeRow, error) {
	rows := make([]ProbeRow, 0, len(probes))
	for _, at := range probes {
		row, err := p.Probe(at.Rank, at.Token, at.K)
		if err != nil {
			return nil, err
		}
		rows = append(rows, ProbeRow{encode(row)})
	}
	return rows, nil
}

func (s *server) empty(ctx context.Context) (EmptyReply, error) {
	c, ok := s.backend.(kernels.Clocker)
	if !ok {
		return EmptyReply{}, nil
	}
	clocks, err := c.Empty(ctx)
	return EmptyReply{Clocks: clocks}, err
}

func (s *server) close(_ context.Context, id SessionID) error {
	session, err := s.session(id.Session)
	if err != nil {
		return err
	}
	delete(s.sessions, id.Session)
	s.activate(nil)
	return session.Close()
}

func (s *server) shutdown(context.Context) error {
	// The delay lets the server send the answer first.
	time.AfterFunc(50*time.Millisecond, s.rpc.Stop)
	return nil
}

func (s *server) closeAll() {
	for _, session := range s.sessions {
		_ = session.Close()
	}
	s.backend.Close()
}

// wireError encodes a Failure with codeFailure. It returns other errors as they are. To the client they mean that the
// session is lost.
func wireError(err error) error {
	var f *kernels.Failure
	if !errors.As(err, &f) {
		return err
	}
	return jrpc2.Errorf(codeFailure, "%s", f.Reason).WithData(failureData{Status: f.Status})
}
