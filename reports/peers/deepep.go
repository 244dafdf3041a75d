package peers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// deepEP reads the output of test_intranode.py and test_low_latency.py of
// deepseek-ai/DeepEP (V1), and of the variants that print the problem in the
// line.
var deepEP = Format{
	Name:   "deepep",
	Doc:    "output of DeepEP's test_intranode.py or test_low_latency.py",
	Detect: func(head []byte) bool { return bytes.Contains(head, []byte("[tuning]")) || llLine.Match(head) },
	Read:   readDeepEP,
}

var (
	configLine = regexp.MustCompile(`\[config\] num_tokens=(\d+), hidden=(\d+)(?:, num_topk=(\d+))?`)
	tuneLine   = regexp.MustCompile(`\[tuning\] SMs (\d+), NVL chunk (\d+|default)(, RDMA chunk)?.*?([\d.]+) GB/s \(NVL\)(?:,?\s*(?:avg_t:|t:)?\s*([\d.]+) us)?`)
	bestLine   = regexp.MustCompile(`\[tuning\] Best (dispatch|combine)(?: \((FP8|BF16)\))?: SMs (\d+), NVL chunk (\d+)(, RDMA chunk)?`)
	llShape    = regexp.MustCompile(`num_tokens=(\d+), hidden=(\d+), num_experts=(\d+), num_topk=(\d+)`)
	llLine     = regexp.MustCompile(`\[rank (\d+) *\][^\[]*?Dispatch bandwidth: ([\d.]+) GB/s, avg_t=([\d.]+) us \| Combine bandwidth: ([\d.]+) GB/s, avg_t=([\d.]+) us`)
	pairLine   = regexp.MustCompile(`\[rank (\d+) *\][^\[]*?Dispatch \+ combine bandwidth: ([\d.]+) GB/s, avg_t=([\d.]+) us`)
	splitLine  = regexp.MustCompile(`\[rank (\d+) *\][^\[]*?Dispatch send/recv time: ([\d.]+)(?: \+ ([\d.]+))? us *\| *Combine send/recv time: ([\d.]+)(?: \+ ([\d.]+))? us`)
	rankWord   = regexp.MustCompile(`\[rank (\d+) *\]`)
)

// deepEPReader walks the lines. The tuning lines of an operation come before the
// line that names the operation.
type deepEPReader struct {
	given    Given
	pending  []tuned
	ranks    map[string]*llSum // low-latency figures by problem key and op, those of the last run
	order    []*llSum
	figures  []Figure
	warnings []string
}

type tuned struct {
	sms, chunk string
	gbps, us   float64 // us is 0 where an old version printed none
}

// llSum collects one figure of every rank.
type llSum struct {
	fig   Figure
	ranks map[string]bool
	gbps  float64
}

func readDeepEP(data []byte, g Given) ([]Figure, []string, error) {
	if g.Ranks == 0 {
		g.Ranks = ranksOf(data)
	}
	d := deepEPReader{given: g, ranks: map[string]*llSum{}}
	for line := range strings.Lines(string(data)) {
		if err := d.line(line); err != nil {
			return nil, nil, err
		}
	}
	d.flushRanks()
	if len(d.figures) == 0 {
		return nil, nil, errors.New("no [tuning] Best line and no [rank N] Dispatch bandwidth line with a figure in it")
	}
	return d.figures, d.warnings, nil
}

// ranksOf is one more than the highest rank that a log names, 0 where it names none:
// every rank prints its figures.
func ranksOf(data []byte) int {
	n := 0
	for _, m := range rankWord.FindAllSubmatch(data, -1) {
		if r, err := strconv.Atoi(string(m[1])); err == nil {
			n = max(n, r+1)
		}
	}
	return n
}

func (d *deepEPReader) line(line string) error {
	if m := configLine.FindStringSubmatch(line); m != nil {
		return d.shape(m[1], m[2], "", m[3])
	}
	if m := llShape.FindStringSubmatch(line); m != nil {
		if err := d.shape(m[1], m[2], m[3], m[4]); err != nil {
			return err
		}
	}
	if m := bestLine.FindStringSubmatch(line); m != nil {
		return d.best(m)
	}
	if m := tuneLine.FindStringSubmatch(line); m != nil && m[3] == "" {
		t := tuned{sms: m[1], chunk: m[2]}
		var err error
		if t.gbps, err = number(m[4]); err == nil && m[5] != "" {
			t.us, err = number(m[5])
		}
		d.pending = append(d.pending, t)
		return err
	}
	return d.lowLatency(line)
}

// shape keeps what a line says about the problem.
func (d *deepEPReader) shape(tokens, hidden, experts, topK string) error {
	return setCounts(count{"num_tokens", tokens, &d.given.Tokens}, count{"hidden", hidden, &d.given.Hidden},
		count{"num_experts", experts, &d.given.Experts}, count{"num_topk", topK, &d.given.TopK})
}

// best ends the tuning of one operation.
func (d *deepEPReader) best(m []string) error {
	pending := d.pending
	d.pending = nil
	if m[5] != "" {
		d.warnings = append(d.warnings, "internode lines (RDMA chunk) left out: only one host is compared")
		return nil
	}
	if err := d.given.require("ranks", "experts", "topk", "tokens", "hidden"); err != nil {
		return err
	}
	dtype := ep.BF16
	if m[2] == "FP8" {
		dtype = ep.FP8
	}
	p := d.given.problem(ep.Op(m[1]), dtype)
	for _, t := range pending {
		d.figures = append(d.figures, t.figure(p))
	}
	return nil
}

func (t tuned) figure(p ep.Problem) Figure {
	f := Figure{
		Kernel: "deepep-normal", Problem: p, Clock: "event",
		Values:  map[string]ep.Value{"sms": ep.Value(t.sms), "chunk": ep.Value(t.chunk)},
		Seconds: t.us * 1e-6,
		Note:    fmt.Sprintf("%.2f GB/s by the deepep-normal definition; mean time over calls with a cached handle, rank 0", t.gbps),
	}
	if t.us == 0 {
		d, _ := FindDefinition("deepep-normal")
		f.Seconds = d.Seconds(p, t.gbps)
		f.Note = fmt.Sprintf("%.2f GB/s turned into a time by the deepep-normal definition with uniform routing; cached handle, rank 0", t.gbps)
	}
	return f
}

// lowLatency reads the figures of one line. Ranks write at the same time, so that a line
// may hold those of several.
func (d *deepEPReader) lowLatency(line string) error {
	var err error
	for _, m := range llLine.FindAllStringSubmatch(line, -1) {
		err = cmp.Or(err, d.rank(ep.Dispatch, m[1], m[2], m[3]), d.rank(ep.Combine, m[1], m[4], m[5]))
	}
	for _, m := range pairLine.FindAllStringSubmatch(line, -1) {
		err = cmp.Or(err, d.rank(ep.Pair, m[1], m[2], m[3]))
	}
	for _, m := range splitLine.FindAllStringSubmatch(line, -1) {
		err = cmp.Or(err, d.split(ep.Dispatch, m[1], m[2:4]), d.split(ep.Combine, m[1], m[4:6]))
	}
	return err
}

// rank adds one rank's figure.
func (d *deepEPReader) rank(op ep.Op, rank, gbps, us string) error {
	bw, err := number(gbps)
	t, wrong := number(us)
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	s, err := d.sum("deepep-ll", op, rank)
	if err != nil {
		return err
	}
	s.gbps += bw
	s.fig.Seconds = max(s.fig.Seconds, t*1e-6)
	return nil
}

// split adds one rank's kernels for sending and receiving, as they run when the caller
// computes between them; forks print their sum.
func (d *deepEPReader) split(op ep.Op, rank string, us []string) error {
	total := 0.0
	for _, text := range us {
		if text == "" {
			continue
		}
		t, err := number(text)
		if err != nil {
			return err
		}
		total += t
	}
	s, err := d.sum("deepep-ll-hook", op, rank)
	if err == nil {
		s.fig.Seconds = max(s.fig.Seconds, total*1e-6)
	}
	return err
}

// sum is where the figures of all ranks of a kernel come together. A rank that prints once
// more is one of a further run.
func (d *deepEPReader) sum(kernel string, op ep.Op, rank string) (*llSum, error) {
	if err := d.given.require("ranks", "experts", "topk", "tokens", "hidden"); err != nil {
		return nil, err
	}
	p := d.given.problem(op, ep.FP8)
	key := kernel + p.Key()
	s := d.ranks[key]
	if s == nil || s.ranks[rank] {
		s = &llSum{fig: Figure{Kernel: kernel, Problem: p, Clock: "span"}, ranks: map[string]bool{}}
		if op == ep.Pair {
			s.fig.Clock = "event"
		}
		d.ranks[key] = s
		d.order = append(d.order, s)
	}
	s.ranks[rank] = true
	return s, nil
}

// flushRanks makes one figure of all ranks: the slowest one's.
func (d *deepEPReader) flushRanks() {
	for _, s := range d.order {
		n := len(s.ranks)
		s.fig.Note = fmt.Sprintf("%.2f GB/s by the deepep-ll definition; kernel time, mean over calls, slowest of %d ranks; dispatch casts BF16 to FP8 inside",
			s.gbps/float64(n), n)
		if s.gbps == 0 {
			s.fig.Note = fmt.Sprintf("kernel times of sending and of receiving together, mean over calls, slowest of %d ranks; dispatch casts BF16 to FP8 inside", n)
		}
		if s.fig.Problem.Op == ep.Pair {
			s.fig.Note = fmt.Sprintf("%.2f GB/s over both halves; mean time between events, slowest of %d ranks", s.gbps/float64(n), n)
		}
		d.figures = append(d.figures, s.fig)
	}
}

// number parses a positive figure.
func number(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) {
		return 0, fmt.Errorf("%.20q is no positive number", s)
	}
	return v, nil
}
