package worker

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// probesPerVerify is the number of output rows that epbench compares in addition to the worker's own comparison.
const probesPerVerify = 4

// chooseProbes picks output rows at random, so that a worker cannot know them in advance. It returns nil for an
// activation, because its rows belong to no token.
func chooseProbes(w *workloads.Workload) []Probe {
	if w.Problem.Op == ep.Activation {
		return nil
	}
	var ranks []int
	for r, rr := range w.Ranks {
		if rr.Tokens > 0 {
			ranks = append(ranks, r)
		}
	}
	var out []Probe
	for try := 0; len(ranks) > 0 && len(out) < probesPerVerify && try < 8*probesPerVerify; try++ {
		r := ranks[rand.IntN(len(ranks))]
		p := Probe{Rank: r, Token: rand.IntN(w.Ranks[r].Tokens), K: -1}
		if w.Problem.Op == ep.Dispatch {
			p.K = rand.IntN(w.Problem.TopK)
			if !delivered(w, p) {
				continue
			}
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// hasEpilogue reports whether a config has an epilogue, which the oracle does not compute.
func hasEpilogue(c ep.Config) bool {
	for _, name := range []string{"epilogue", "combine.epilogue"} {
		if v, ok := c.Values[name]; ok && v != "none" {
			return true
		}
	}
	return false
}

// delivered reports whether dispatch sends the probe's token to the expert at top-k position p.K.
func delivered(w *workloads.Workload, p Probe) bool {
	e := int(w.Ranks[p.Rank].Experts[p.Token*w.Problem.TopK+p.K])
	return e >= 0 && (!w.Problem.SkipA2A || e/w.Problem.LocalExperts() == p.Rank)
}

// summedAs returns how a config's combine adds rows.
func (s *session) summedAs(c ep.Config) ref.Partial {
	if s.workload.Problem.Op == ep.Pair {
		_, c, _ = ep.Split(c)
	}
	if k, err := kernels.Find(s.backend.Kernels(), ep.Combine, c.Kernel); err == nil && k.Work.Sum == "plain" {
		return ref.Weighted
	}
	return ref.BF16Partial
}

func (s *session) checkProbes(probes []Probe, rows []ProbeRow, summed ref.Partial, v kernels.Comparison) kernels.Comparison {
	if len(rows) != len(probes) {
		return blame(v, 1, fmt.Sprintf("%d rows were probed, but the worker returned %d", len(probes), len(rows)))
	}
	whys := make([]string, len(probes))
	var all sync.WaitGroup
	for i, p := range probes {
		all.Go(func() { whys[i] = checkProbe(s.oracle, s.workload, p, summed, rows[i].Data) })
	}
	all.Wait()
	reported, wrong, first := v.Wrong, 0, ""
	for i, p := range probes {
		if whys[i] != "" {
			wrong++
			first = cmp.Or(first, fmt.Sprintf("rank %d, token %d, k %d: %s", p.Rank, p.Token, p.K, whys[i]))
		}
	}
	if wrong > 0 {
		v = blame(v, wrong, fmt.Sprintf("%s (%d of %d probed rows are wrong; the worker reported %d)", first, wrong, len(probes), reported))
	}
	return v
}

func blame(v kernels.Comparison, wrong int, detail string) kernels.Comparison {
	v.Wrong += wrong
	v.Rows = max(v.Rows, v.Wrong)
	v.Detail = detail
	return v
}

// checkProbe describes the first wrong value, or returns "".
func checkProbe(o *ref.Oracle, w *workloads.Workload, at Probe, summed ref.Partial, data []byte) string {
	if n := 2 * w.Problem.Hidden; len(data) != n {
		return fmt.Sprintf("%d bytes instead of %d", len(data), n)
	}
	var right []ref.Sum
	wrong := ""
	for answer := range rightRows(o, w, at, summed) {
		right = append(right, answer)
		if wrong = firstWrongColumn(right, data); wrong == "" {
			break
		}
	}
	return wrong
}

func firstWrongColumn(right []ref.Sum, data []byte) string {
	for c := range right[0].Exact {
		got := float64(ref.BF16ToFloat(binary.LittleEndian.Uint16(data[2*c:])))
		if !slices.ContainsFunc(right, func(s ref.Sum) bool { return math.Abs(got-s.Exact[c]) <= s.Bound[c] }) {
			return fmt.Sprintf("column %d is %v, should be %v", c, got, right[0].Exact[c])
		}
	}
	return ""
}

// rightRows yields a probe's right answers with their bounds. A combined row has several right answers, because
// libraries cast to FP8 differently. A dispatched row must be exact in BF16. In the other dtypes, each value may differ
// by one step of the dtype.
func rightRows(o *ref.Oracle, w *workloads.Workload, at Probe, summed ref.Partial) iter.Seq[ref.Sum] {
	if w.Problem.Op == ep.Layer {
		return func(yield func(ref.Sum) bool) { yield(o.LayerRow(at.Rank, at.Token)) }
	}
	if at.K < 0 {
		return o.CombineCasts(at.Rank, at.Token, summed)
	}
	return func(yield func(ref.Sum) bool) {
		f := w.Problem.Dispatch
		row := ref.Dequantize(f, o.Token(w.BatchRank(at.Rank), at.Token), w.Problem.Hidden, 1)
		step := map[ep.DType]float64{ep.BF16: 0, ep.FP8: 1. / 8, ep.MXFP4: 1. / 2, ep.NVFP4: 1. / 2}[f]
		s := ref.Sum{Exact: make([]float64, len(row)), Bound: make([]float64, len(row))}
		for i, x := range row {
			s.Exact[i], s.Bound[i] = float64(x), math.Abs(float64(x))*step
		}
		yield(s)
	}
}
