package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// effect is a case in which a parameter's value changes the time of a call.
type effect struct {
	param   string
	a, b    ep.Value
	op      ep.Op
	ranks   int
	tokens  int
	setting map[string]ep.Value // parameters that differ from the default
}

var effects = []effect{
	{"blocks", "1", "2", ep.Dispatch, 1, 512, nil},
	{"blocks", "1", "2", ep.Combine, 1, 512, nil},
	{"blocks", "1", "4", ep.Dispatch, 8, 1, nil},
	{"wait_blocks", "0", "1", ep.Dispatch, 8, 1, map[string]ep.Value{"blocks": "4"}},
	{"wait_blocks", "0", "1", ep.Dispatch, 1, 512, map[string]ep.Value{"blocks": "2"}},
	{"wait_blocks", "0", "1", ep.Combine, 1, 512, map[string]ep.Value{"blocks": "2"}},
	{"chunk_bytes", "16384", "2048", ep.Combine, 1, 8, map[string]ep.Value{"blocks": "2", "tile_tokens": "8"}},
	{"chunk_bytes", "16384", "2048", ep.Dispatch, 2, 512, nil},
	{"tile_tokens", "4", "32", ep.Combine, 1, 32, map[string]ep.Value{"blocks": "2"}},
	{"tile_tokens", "4", "32", ep.Dispatch, 1, 32, map[string]ep.Value{"blocks": "2"}},
	{"mode", modeFused, modeSplit, ep.Dispatch, 8, 1, map[string]ep.Value{"blocks": "4"}},
	{"mode", modeFused, modeSplit, ep.Combine, 8, 1, map[string]ep.Value{"blocks": "4"}},
	{"algo", algoDirect, algoDedup, ep.Dispatch, 2, 512, nil},
	{"algo", algoDirect, algoDedup, ep.Combine, 2, 512, nil},
	{"stores", storesCached, storesStream, ep.Dispatch, 4, 1024, nil},
	{"stores", storesCached, storesStream, ep.Dispatch, 2, 8, nil},
}

// BenchmarkParameters prints each parameter's effect. It measures the rounds of both values in turns.
func BenchmarkParameters(b *testing.B) {
	for _, e := range effects {
		name := fmt.Sprintf("%s/%s-%s/%s/ranks=%d/tokens=%d", e.param, e.a, e.b, e.op, e.ranks, e.tokens)
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(e.ratio(b), "b/a")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// ratio returns the median of time(b) / time(a).
func (e effect) ratio(b *testing.B) float64 {
	p := large(e.op)
	p.Ranks, p.Tokens, p.MaxTokens = e.ranks, e.tokens, e.tokens
	backend, _ := Open()
	s, err := backend.Open(b.Context(), draw(b, p, "uniform"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	base := kernels.Of(backend.Kernels(), e.op)[0].DefaultConfig(backend.Machine(), p)
	for name, v := range e.setting {
		base = base.With(name, v)
	}
	fold := max(1, 256/e.tokens)
	var ratios []float64
	for range max(b.N, 11) {
		first := e.slowest(b, s, base.With(e.param, e.a), fold)
		ratios = append(ratios, e.slowest(b, s, base.With(e.param, e.b), fold)/first)
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

func (e effect) slowest(b *testing.B, s kernels.Session, c ep.Config, fold int) float64 {
	if err := s.Prepare(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	r, err := s.Run(b.Context(), c, kernels.RunSpec{Rounds: 1, Fold: fold})
	if err != nil {
		b.Fatal(err)
	}
	return slices.Max(r.Seconds[0])
}

func TestEveryParameterHasAnEffect(t *testing.T) {
	for _, q := range params(kernels.Speed) {
		if !slices.ContainsFunc(effects, func(e effect) bool { return e.param == q.Name }) {
			t.Errorf("effects has no case for parameter %s", q.Name)
		}
	}
}
