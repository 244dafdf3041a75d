//go:build cuda

package main

import (
	"context"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

func (s *session) Verify(_ context.Context, c ep.Config) (kernels.Comparison, error) {
	if err := s.hold(c); err != nil {
		return kernels.Comparison{}, err
	}
	op := s.problem().Op
	s.outputs.Forget()
	if _, err := s.ranks.ask(func(int) request { return request{Prove: &prove{Combine: op != ep.Dispatch}} }); err != nil {
		return kernels.Comparison{}, s.lost(err)
	}
	d, k, err := s.judgedAs(c)
	if err != nil {
		return kernels.Comparison{}, err
	}
	return s.outputs.Judge(op, d, k)
}

// reduced reports whether a candidate takes the pack's rows of reduced precision.
func (s *session) reduced(c ep.Config) bool {
	if s.problem().Op == ep.Pair {
		if _, k, err := ep.Split(c); err == nil {
			c = k
		}
	}
	return c.Str("precision") == ep.Reduced.String()
}

// judgedAs returns the oracle's rules for dispatch and combine. With a pack, the rules accept rows in any
// order.
func (s *session) judgedAs(c ep.Config) (dispatch, combine ref.Compare, err error) {
	if p := s.backend.pack; p != nil {
		both := ref.Compare{MaxRows: max(declare.JudgedElements/s.problem().Hidden, 1)}
		if s.reduced(c) {
			both.Partial = ref.BF16Partial
		}
		return both, both, nil
	}
	d, k, err := s.halves(c)
	if err == nil {
		dispatch, err = declare.JudgedAs(s.problem(), d)
	}
	if err == nil {
		combine, err = declare.JudgedAs(s.problem(), k)
	}
	return dispatch, combine, err
}

// read implements ref.Memory.
func (s *session) read(rank int, part string, bytes int, offsets ...int) ([][]byte, error) {
	one := &ranks{all: s.ranks.all[rank : rank+1]}
	a, err := one.ask(func(int) request { return request{Fetch: &fetch{Part: part, Offsets: offsets, Bytes: bytes}} })
	if err != nil {
		return nil, err
	}
	return ref.Pieces(a[0].Data, bytes), nil
}

func (s *session) Probe(rank, token, k int) ([]uint16, error) { return s.outputs.Probe(rank, token, k) }
