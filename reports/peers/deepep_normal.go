package peers

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// DeepEP's tests of its normal kernels print lines like these. The second line is from a test on several hosts.
//
//	[tuning] SMs 24, NVL chunk 6: 320.68 GB/s (NVL), 499.58 us
//	[tuning] SMs 24, NVL chunk 8, RDMA chunk 16: 40 + 814 us, 57.19 GB/s (RDMA), 186.80 GB/s (NVL)
//	[tuning] Best dispatch (FP8): SMs 24, NVL chunk 6, 320.68 GB/s (NVL), t: 499.58 us
//
// Older versions print "avg_t: 499.58 us", or no time. Only a Best line names its operation. The lines before it, back
// to the previous Best line, have the same operation.
var (
	tuneLine  = regexp.MustCompile(`\[tuning\] (?:Best (dispatch|combine)(?: \((FP8|BF16)\))?: )?SMs (\d+), NVL chunk (\d+|default)(?:, RDMA chunk (\d+))?`)
	nvlSpeed  = regexp.MustCompile(`([\d.]+) GB/s \(NVL\)`)
	rdmaSpeed = regexp.MustCompile(`([\d.]+) GB/s \(RDMA\)`)
	oneTime   = regexp.MustCompile(`(?:avg_t:|t:)?\s*([\d.]+) us`)
	twoTimes  = regexp.MustCompile(`([\d.]+) \+ ([\d.]+) us`)
	// A fork (DeepEP PR 456) prints "transmit: 5914.00 us, notify: 6499.00 us, BW: 39.51 GB/s (RDMA), ..."
	namedTimes = regexp.MustCompile(`transmit: ([\d.]+) us, notify: ([\d.]+) us`)
)

// normalTest holds the output of one test.
type normalTest struct {
	shape  []said
	groups string // expert groups of a token; printed only on several hosts
	rows   []normalRow
	named  int // number of rows with a known operation
}

type normalRow struct {
	op              ep.Op
	dtype           ep.DType
	sms, nvl, rdma  string  // SMs and chunk sizes; rdma: "" on one host
	nvlGB, rdmaGB   printed // GB/s over NVLink and RDMA, or zero
	us, notify      printed // microseconds of the transfer and the notify kernel, or zero
	best            bool
	expectedPayload float64 // bytes of one token
}

// line reads a row. A Best line names the operation of the rows that precede it. It repeats one of these rows, or adds
// a row.
func (n *normalTest) line(line string) error {
	m := tuneLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("a [tuning] line of an unknown version: %.120q", strings.TrimSpace(line))
	}
	r := normalRow{sms: m[3], nvl: m[4], rdma: m[5], best: m[1] != ""}
	if err := r.figures(line); err != nil {
		return fmt.Errorf("%.120q: %w", strings.TrimSpace(line), err)
	}
	if !r.best {
		n.rows = append(n.rows, r)
		return nil
	}
	dtype := ep.BF16
	if m[2] == "FP8" {
		dtype = ep.FP8
	}
	for i := n.named; i < len(n.rows); i++ {
		n.rows[i].op, n.rows[i].dtype = ep.Op(m[1]), dtype
	}
	r.op, r.dtype = ep.Op(m[1]), dtype
	before := slices.IndexFunc(n.rows[n.named:], func(x normalRow) bool { return x.sms == r.sms && x.nvl == r.nvl && x.rdma == r.rdma })
	if before < 0 {
		n.rows = append(n.rows, r)
	} else if err := n.rows[n.named+before].repeated(r); err != nil {
		return err
	}
	n.named = len(n.rows)
	return nil
}

func (r *normalRow) figures(line string) (err error) {
	if m := namedTimes.FindStringSubmatch(line); m != nil {
		r.notify = lenient(m[2])
		r.us, err = parsePrinted(m[1])
	} else if r.rdma != "" {
		if m := twoTimes.FindStringSubmatch(line); m != nil {
			r.notify = lenient(m[1])
			r.us, err = parsePrinted(m[2])
		}
	} else if m := oneTime.FindStringSubmatch(line); m != nil {
		r.us, err = parsePrinted(m[1])
	}
	if m := nvlSpeed.FindStringSubmatch(line); m != nil && err == nil {
		r.nvlGB, err = parsePrinted(m[1])
	}
	if m := rdmaSpeed.FindStringSubmatch(line); m != nil && err == nil {
		r.rdmaGB, err = parsePrinted(m[1])
	}
	if err == nil && r.nvlGB.v == 0 {
		err = fmt.Errorf("no GB/s (NVL)")
	}
	return err
}

func (r normalRow) repeated(best normalRow) error {
	for _, x := range []struct {
		what string
		a, b printed
	}{{"us", r.us, best.us}, {"GB/s", r.nvlGB, best.nvlGB}} {
		if x.a.v > 0 && x.b.v > 0 && math.Abs(x.a.v-x.b.v) > (x.a.half+x.b.half)*1.02 {
			return fmt.Errorf("best %s with SMs %s, NVL chunk %s: the Best line says %g %s, the other line of this config %g", best.op, best.sms, best.nvl, x.b.v, x.what, x.a.v)
		}
	}
	return nil
}

func (d *deepEPReader) endNormal() error {
	n := d.normal
	d.normal = nil
	if n == nil || len(n.rows) == 0 {
		return nil
	}
	if n.named < len(n.rows) {
		d.facts.warn("%d [tuning] lines left out: no Best line after them names their operation", len(n.rows)-n.named)
		n.rows = n.rows[:n.named]
	}
	if len(n.rows) == 0 {
		return fmt.Errorf("no [tuning] Best line, so the lines may be of dispatch or of combine")
	}
	fromFile, err := d.normalProblem(n)
	if err != nil {
		return err
	}
	rows, g, err := d.check(n.rows, fromFile)
	if err != nil {
		return err
	}
	routing := ""
	if n.groups != "" && n.groups != strconv.Itoa(g.Nodes) {
		routing = fmt.Sprintf("grouped:%d:%s", g.Nodes, n.groups)
	}
	for _, r := range rows {
		f := r.figure(g)
		f.Routing = routing
		d.figures = append(d.figures, f)
	}
	return nil
}

// normalProblem returns the printed problem, completed by the user's flags.
func (d *deepEPReader) normalProblem(n *normalTest) (Given, error) {
	own := *d.facts
	own.given.Tokens, own.given.Hidden, own.given.TopK = 0, 0, 0
	g, err := own.with(n.shape...)
	if err != nil {
		return g, err
	}
	flags := d.facts.given
	g.Tokens, g.Hidden, g.TopK = cmp.Or(g.Tokens, flags.Tokens), cmp.Or(g.Hidden, flags.Hidden), cmp.Or(g.TopK, flags.TopK)
	if g.Ranks == 0 {
		g.Ranks = len(d.printed)
	}
	if err := g.require("ranks", "experts", "topk", "tokens", "hidden"); err != nil {
		return g, err
	}
	if n.rows[0].rdma != "" && g.Nodes == 0 {
		return g, fmt.Errorf("the lines have RDMA chunks, so the ranks are on several hosts; give --nodes")
	}
	return g, g.setNodes(d.facts, 0, 0)
}

// check computes from each row's speed and time how many tokens rank 0 received. It drops rows whose number of tokens
// is far from the median of all rows. It returns the other rows and their problem: the printed
// problem g with the user's flags in place of its sizes, or g itself if only its own sizes explain the median.
func (d *deepEPReader) check(rows []normalRow, g Given) ([]normalRow, Given, error) {
	for i := range rows {
		rows[i].expectedPayload = payload(g.problem(rows[i].op, rows[i].dtype))
	}
	all := func(normalRow) bool { return true }
	middle := middleTokens(rows, all)
	if middle == 0 { // old versions print no time
		return rows, d.flagsOver(g), nil
	}
	var kept []normalRow
	for _, r := range rows {
		same := func(x normalRow) bool { return x.op == r.op && x.dtype == r.dtype }
		u, own := r.tokens(), middleTokens(rows, same)
		if u > 0 && !(agrees(u, middle, rel(r.us, r.nvlGB)+testSlack) && agrees(u, own, rel(r.us, r.nvlGB)+rowSlack)) {
			d.facts.warn("%s %s with SMs %s, NVL chunk %s left out: %g GB/s x %g us = %.0f tokens of %.0f bytes, but other lines have %.0f tokens", r.op, r.dtype, r.sms, r.nvl, r.nvlGB.v, r.us.v, u, r.expectedPayload, middle)
			continue
		}
		kept = append(kept, r)
	}
	if 2*len(kept) < len(rows) {
		return nil, g, fmt.Errorf("GB/s x us of the [tuning] lines give different numbers of tokens, %.0f and others; check --hidden %d", middle, g.Hidden)
	}
	flags := d.flagsOver(g)
	if d.facts.given.Routing != "" && d.facts.given.Routing != "uniform" || rows[0].rdma != "" {
		return kept, flags, nil // fits is only for uniform routing on one host
	}
	if fits(flags, middle) == nil {
		return kept, flags, nil
	}
	if err := fits(g, middle); err != nil {
		return nil, g, err
	}
	d.facts.warn("--tokens %d, --hidden %d, --topk %d are not used for the [tuning] lines: the bytes of these lines fit %d tokens of hidden %d, which [config] prints", flags.Tokens, flags.Hidden, flags.TopK, g.Tokens, g.Hidden)
	return kept, g, nil
}

// rowSlack limits the relative difference between a row's number of tokens and the median of its operation and dtype.
// testSlack limits the difference from the median of all rows. The rounding error of the printed numbers is added to
// both.
const rowSlack, testSlack = 1e-3, 0.01

func middleTokens(rows []normalRow, wanted func(normalRow) bool) float64 {
	var units []float64
	for _, r := range rows {
		if u := r.tokens(); u > 0 && wanted(r) {
			units = append(units, u)
		}
	}
	if len(units) == 0 {
		return 0
	}
	slices.Sort(units)
	return units[len(units)/2]
}

// flagsOver returns g with the sizes that the user's flags give.
func (d *deepEPReader) flagsOver(g Given) Given {
	for _, name := range []string{"tokens", "hidden", "topk"} {
		if flag := *d.facts.given.field(name); flag != 0 && flag != *g.field(name) {
			*g.field(name) = flag
		}
	}
	return g
}

// tokens returns how many tokens rank 0 received, or 0 if the row has no time.
func (r normalRow) tokens() float64 { return r.us.v * r.nvlGB.v * 1e3 / r.expectedPayload }

// fits returns an error unless uniform routing can explain the number of received tokens. It allows six standard
// deviations plus 0.2 %.
func fits(g Given, received float64) error {
	want := float64(g.Tokens) * DistinctRanks(g.Ranks, g.Experts, g.TopK)
	p := want / float64(g.Tokens*g.Ranks)
	slack := 6*math.Sqrt(want*(1-p)) + 2e-3*want
	if math.Abs(received-want) <= slack {
		return nil
	}
	return fmt.Errorf("GB/s x us of the [tuning] lines = %.0f received tokens, but %d tokens a rank with top-%d of %d experts on %d ranks give %.0f; check --tokens, --topk, --experts and --ranks",
		received, g.Tokens, g.TopK, g.Experts, g.Ranks, want)
}

func (r normalRow) figure(g Given) Figure {
	p := g.problem(r.op, r.dtype)
	f := Figure{Kernel: "deepep-normal", Problem: p, Clock: "event", Values: map[string]ep.Value{"sms": ep.Value(r.sms), "chunk": ep.Value(r.nvl)},
		Seconds: r.us.v * 1e-6, Note: fmt.Sprintf("%.2f GB/s by the deepep-normal definition; mean time of calls with a cached handle, rank 0", r.nvlGB.v)}
	switch {
	case r.rdma != "":
		f.Values["rdma_chunk"], f.Clock = ep.Value(r.rdma), "span"
		f.Seconds = (r.us.v + r.notify.v) * 1e-6
		f.Note = fmt.Sprintf("%g us of the notify kernel and %g us of the transfer, %.2f GB/s (RDMA), %.2f GB/s (NVL); mean of calls, rank 0", r.notify.v, r.us.v, r.rdmaGB.v, r.nvlGB.v)
	case r.us.v == 0:
		d, _ := FindDefinition("deepep-normal")
		f.Seconds = d.Seconds(p, r.nvlGB.v)
		f.Note = fmt.Sprintf("%.2f GB/s converted to a time by the deepep-normal definition with uniform routing; cached handle, rank 0", r.nvlGB.v)
	}
	return f
}
