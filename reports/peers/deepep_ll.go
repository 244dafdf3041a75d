package peers

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// A line may hold the texts of several ranks, which write at the same time.
var (
	llLine    = regexp.MustCompile(`\[rank (\d+) *\][^\[]*?Dispatch bandwidth: ([\d.]+) GB/s, avg_t=([\d.]+) us \| Combine bandwidth: ([\d.]+) GB/s, avg_t=([\d.]+) us`)
	pairLine  = regexp.MustCompile(`\[rank (\d+) *\][^\[]*?Dispatch \+ combine bandwidth: ([\d.]+) GB/s, avg_t=([\d.]+) us(?:, min_t=([\d.]+) us, max_t=([\d.]+) us)?`)
	splitLine = regexp.MustCompile(`\[rank (\d+) *\][^\[]*?Dispatch send/recv time: ([\d.]+)(?: \+ ([\d.]+))? us *\| *Combine send/recv time: ([\d.]+)(?: \+ ([\d.]+))? us`)
)

// maskedInTest is the largest number of selections that test_low_latency.py masks. A selection is a token and one of
// its experts.
const maskedInTest = 10

// llRun holds all ranks' figures of one op and kernel in one run of the test.
type llRun struct {
	op     ep.Op
	kernel string
	ranks  map[string]llFigure
	order  []string // in line order
}

// llFigure holds one rank's figures, 0 if missing.
type llFigure struct{ gbps, us, min, max printed }

func (d *deepEPReader) lowLatency(line string) error {
	for _, m := range llLine.FindAllStringSubmatch(line, -1) {
		if err := d.rank("deepep-ll", ep.Dispatch, m[1], m[2], m[3]); err != nil {
			return err
		}
		if err := d.rank("deepep-ll", ep.Combine, m[1], m[4], m[5]); err != nil {
			return err
		}
	}
	for _, m := range pairLine.FindAllStringSubmatch(line, -1) {
		if err := d.rank("deepep-ll", ep.Pair, m[1], m[2], m[3], m[4], m[5]); err != nil {
			return err
		}
	}
	for _, m := range splitLine.FindAllStringSubmatch(line, -1) {
		for _, half := range []struct {
			op    ep.Op
			times []string
		}{{ep.Dispatch, m[2:4]}, {ep.Combine, m[4:6]}} {
			us, err := sumOf(half.times)
			if err != nil {
				return err
			}
			d.run("deepep-ll-hook", half.op, m[1]).ranks[m[1]] = llFigure{us: us}
		}
	}
	return nil
}

func sumOf(times []string) (sum printed, err error) {
	for _, text := range times {
		if text == "" {
			continue
		}
		t, err := parsePrinted(text)
		if err != nil {
			return sum, err
		}
		sum.v, sum.half = sum.v+t.v, sum.half+t.half
	}
	return sum, nil
}

func (d *deepEPReader) rank(kernel string, op ep.Op, rank, gbps, us string, minMax ...string) error {
	f := llFigure{}
	var err error
	if f.gbps, err = parsePrinted(gbps); err != nil {
		return err
	}
	if f.us, err = parsePrinted(us); err != nil {
		return err
	}
	if len(minMax) == 2 {
		f.min, f.max = lenient(minMax[0]), lenient(minMax[1])
	}
	d.run(kernel, op, rank).ranks[rank] = f
	return nil
}

// run returns the last run of a kernel and op. If that run already has figures of the rank, a new run begins.
func (d *deepEPReader) run(kernel string, op ep.Op, rank string) *llRun {
	for i := len(d.runs) - 1; i >= 0; i-- {
		if r := d.runs[i]; r.kernel == kernel && r.op == op {
			if _, again := r.ranks[rank]; !again {
				r.order = append(r.order, rank)
				return r
			}
			break
		}
	}
	r := &llRun{op: op, kernel: kernel, ranks: map[string]llFigure{}, order: []string{rank}}
	d.runs = append(d.runs, r)
	return r
}

// endLowLatency adds each run's figure.
func (d *deepEPReader) endLowLatency() error {
	if len(d.runs) == 0 {
		return nil
	}
	g, err := d.facts.with(d.lowShape...)
	if err != nil {
		return err
	}
	if g.Ranks == 0 {
		for r := range d.printed {
			g.Ranks = max(g.Ranks, r+1)
		}
	}
	if err := g.require("ranks", "experts", "topk", "tokens", "hidden"); err != nil {
		return err
	}
	if err := g.setNodes(d.facts, 0, len(d.printed)); err != nil {
		return err
	}
	for _, r := range d.runs {
		f, err := d.slowest(r, g)
		if err != nil {
			return err
		}
		d.figures = append(d.figures, f)
	}
	return nil
}

// llBytes returns the bytes of one selection, as test_low_latency.py counts them.
func llBytes(op ep.Op, hidden int) float64 {
	dispatch, combine := float64(hidden)+float64(hidden)/32+16, float64(2*hidden)
	return map[ep.Op]float64{ep.Dispatch: dispatch, ep.Combine: combine, ep.Pair: dispatch + combine}[op]
}

// slowest returns the slowest rank's time. It leaves out the ranks whose figures fail check(). If half of the ranks or
// more fail, the caller described another problem than the file's, and slowest returns an error.
func (d *deepEPReader) slowest(r *llRun, g Given) (Figure, error) {
	f := Figure{Kernel: r.kernel, Problem: g.problem(r.op, ep.FP8), Clock: "span"}
	var left []string
	gbps, used := 0.0, 0
	for _, rank := range r.order {
		x := r.ranks[rank]
		if why := x.check(r.op, g); why != "" {
			left = append(left, fmt.Sprintf("rank %s, %s: %s", rank, r.op, why))
			continue
		}
		gbps, used = gbps+x.gbps.v, used+1
		f.Seconds = math.Max(f.Seconds, x.us.v*1e-6)
	}
	if 2*used <= len(r.order) {
		return f, fmt.Errorf("%s; check --tokens, --hidden and --topk of the low-latency test", left[0])
	}
	for _, w := range left {
		d.facts.warn("%s; left out", w)
	}
	d.warnOfOutliers(r)
	f.Note = llNote(r, used, gbps/float64(used))
	if r.op == ep.Pair {
		f.Clock = "event"
	}
	return f, nil
}

// check returns why a rank's figures contradict each other or the problem, or "".
func (x llFigure) check(op ep.Op, g Given) string {
	if x.gbps.v == 0 {
		return ""
	}
	if x.min.v > 0 && x.max.v > 0 && !(x.min.v <= x.us.v+x.us.half && x.us.v <= x.max.v+x.max.half) {
		return fmt.Sprintf("avg_t=%g us is outside min_t=%g us to max_t=%g us", x.us.v, x.min.v, x.max.v)
	}
	size, all := llBytes(op, g.Hidden), float64(g.Tokens*g.TopK)
	got := x.gbps.v * x.us.v * 1e3 / size
	slack := got*rel(x.gbps, x.us)*1.02 + 1e-6*got
	if got <= all+slack && got >= all-maskedInTest-slack {
		return ""
	}
	return fmt.Sprintf("%g GB/s x %g us = %.0f selections of %.0f bytes, but %d tokens with top-%d make %.0f selections", x.gbps.v, x.us.v, got, size, g.Tokens, g.TopK, all)
}

// warnOfOutliers warns of ranks whose time is far from the median. Runs with bandwidths have a better check.
func (d *deepEPReader) warnOfOutliers(r *llRun) {
	if r.kernel != "deepep-ll-hook" || len(r.order) < 3 {
		return
	}
	var times []float64
	for _, x := range r.ranks {
		times = append(times, x.us.v)
	}
	slices.Sort(times)
	middle := times[len(times)/2]
	for _, rank := range r.order {
		if t := r.ranks[rank].us.v; t > 2*middle || t < middle/2 {
			d.facts.warn("rank %s, %s: sending and receiving take %g us, on the median rank %.4g us", rank, r.op, t, middle)
		}
	}
}

func llNote(r *llRun, ranks int, gbps float64) string {
	switch {
	case r.kernel == "deepep-ll-hook":
		return fmt.Sprintf("sum of the kernel times of sending and receiving, mean of calls, slowest of %d ranks; the dispatch includes the cast from BF16 to FP8", ranks)
	case r.op == ep.Pair:
		return fmt.Sprintf("%.2f GB/s of dispatch and combine together; mean time between events, slowest of %d ranks", gbps, ranks)
	}
	return fmt.Sprintf("%.2f GB/s by the deepep-ll definition; kernel time, mean of calls, slowest of %d ranks; the dispatch includes the cast from BF16 to FP8", gbps, ranks)
}
