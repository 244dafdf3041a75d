package peers

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// deepEPV2 reads the output of tests/elastic/test_ep.py of DeepEP V2 (deepseek-ai/DeepEP, commit dd758ca). A figure is
// the time of the transfer kernel plus the time of the copy or reduce kernel.
var deepEPV2 = Format{
	Name:   "deepep-v2",
	Doc:    "output of DeepEP's tests/elastic/test_ep.py (ElasticBuffer)",
	Checks: "bytes / us = GB/s (SU); the ranks in \"EP: rank/ranks\" = Ranks in the Config block; every rank printed",
	Detect: func(head []byte) bool { return v2Line.Match(head) },
	Read:   readDeepEPV2,
}

var (
	v2Ranks  = regexp.MustCompile(`> Ranks: (\d+) x (\d+)`)
	v2Expert = regexp.MustCompile(`> Experts: (\d+)/(\d+)`)
	v2Tokens = regexp.MustCompile(`> Tokens: \d+ \(max: (\d+)\), hidden: (\d+)`)
	v2SMs    = regexp.MustCompile(`> #SM: (\d+)`)
	v2Mode   = regexp.MustCompile(`> Testing with (.*use_fp8_dispatch=(True|False|1|0).*) \.\.\.`)
	v2Line   = regexp.MustCompile(`EP: +(\d+)/(\d+) \| (dispatch|expanded dispatch|cached dispatch|combine|reduced combine): (\d+) GB/s \(SO\), (\d+) GB/s \(SU\), ([\d.]+) us, (\d+) bytes \| (?:copy|reduce): \d+ GB/s, ([\d.]+) us`)
)

var v2Kernels = map[string]struct {
	kernel string
	op     ep.Op
}{
	"dispatch": {"deepep-v2", ep.Dispatch}, "expanded dispatch": {"deepep-v2-expand", ep.Dispatch}, "cached dispatch": {"deepep-v2-cached", ep.Dispatch},
	"combine": {"deepep-v2", ep.Combine}, "reduced combine": {"deepep-v2-expand", ep.Combine},
}

type v2Run struct {
	facts   *facts
	shape   []said
	domains string // in the Config block
	sms     string
	ranks   int
	mode    string // options
	fp8     bool
	others  int                  // lines left out
	kept    map[string]*v2Figure // by name and dtype
	order   []*v2Figure          // kept, in line order
}

// v2Figure holds the slowest rank's numbers of one operation and dtype.
type v2Figure struct {
	name  string
	fp8   bool
	mode  string
	ranks map[string]bool
	us    float64 // of the transfer kernel
	copy  float64 // us of the copy or reduce kernel
	gbps  float64
}

func readDeepEPV2(data []byte, g Given) ([]Figure, []string, error) {
	r := v2Run{facts: newFacts(g), kept: map[string]*v2Figure{}}
	for line := range strings.Lines(string(data)) {
		if err := r.line(line); err != nil {
			return nil, nil, err
		}
	}
	return r.done()
}

func (r *v2Run) line(line string) error {
	if m := v2Ranks.FindStringSubmatch(line); m != nil {
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[2])
		r.domains = m[1]
		r.shape = append(r.shape, said{"ranks", "Config: Ranks", strconv.Itoa(a * b)})
	}
	if m := v2Expert.FindStringSubmatch(line); m != nil {
		r.shape = append(r.shape, said{"topk", "Config: Experts", m[1]}, said{"experts", "Config: Experts", m[2]})
	}
	if m := v2Tokens.FindStringSubmatch(line); m != nil {
		r.shape = append(r.shape, said{"tokens", "Config: Tokens, max", m[1]}, said{"hidden", "Config: hidden", m[2]})
	}
	if m := v2SMs.FindStringSubmatch(line); m != nil {
		r.sms = m[1]
	}
	if m := v2Mode.FindStringSubmatch(line); m != nil {
		r.mode, r.fp8 = m[1], m[2] == "True" || m[2] == "1"
	}
	for _, m := range v2Line.FindAllStringSubmatch(line, -1) {
		if err := r.figure(m); err != nil {
			return err
		}
	}
	return nil
}

// figure takes only the first case of each dtype. Later cases have other options of the test, and a config has no
// parameter for these options.
func (r *v2Run) figure(m []string) error {
	us, err := parsePrinted(m[6])
	if err != nil {
		return err
	}
	count, err := number(m[7])
	if err != nil {
		return fmt.Errorf("rank %s, %s: bytes: %w", m[1], m[3], err)
	}
	speed := lenient(m[5])
	if speed.v > 0 && !agrees(count/us.v/1e3, speed.v, rel(us, speed)) {
		return fmt.Errorf("rank %s, %s: %.0f bytes in %g us are %.1f GB/s, but the line says %g GB/s", m[1], m[3], count, us.v, count/us.v/1e3, speed.v)
	}
	after, err := number(m[8])
	if err != nil {
		return err
	}
	ranks, _ := strconv.Atoi(m[2])
	if r.ranks != 0 && ranks != r.ranks {
		return fmt.Errorf("the log has lines of runs with %d ranks and with %d ranks; import each run separately", r.ranks, ranks)
	}
	r.ranks = ranks
	if r.mode == "" {
		return fmt.Errorf("rank %s, %s: no line before it says whether the dispatch is FP8 (> Testing with ... use_fp8_dispatch=...)", m[1], m[3])
	}
	key := fmt.Sprint(m[3], r.fp8)
	f := r.kept[key]
	if f == nil {
		f = &v2Figure{name: m[3], fp8: r.fp8, mode: r.mode, ranks: map[string]bool{}}
		r.kept[key], r.order = f, append(r.order, f)
	}
	if f.mode != r.mode || f.ranks[m[1]] {
		r.others++
		return nil
	}
	f.ranks[m[1]] = true
	if us.v+after > f.us+f.copy {
		f.us, f.copy, f.gbps = us.v, after, speed.v
	}
	return nil
}

func (r *v2Run) done() ([]Figure, []string, error) {
	g, err := r.facts.with(append(r.shape, said{"ranks", "EP: rank/ranks", strconv.Itoa(r.ranks)})...)
	if err == nil {
		err = g.require("ranks", "experts", "topk", "tokens", "hidden")
	}
	if err != nil {
		return nil, nil, err
	}
	hosts := 0
	if r.domains != "" && r.domains != "1" {
		hosts, _ = strconv.Atoi(r.domains) // 1 says nothing: without hybrid mode the test prints 1 for any number of hosts
	}
	if err := g.setNodes(r.facts, hosts, len(r.order[0].ranks)); err != nil {
		return nil, nil, err
	}
	var out []Figure
	for _, f := range r.order {
		dtype := ep.BF16
		if f.fp8 {
			dtype = ep.FP8
		}
		k := v2Kernels[f.name]
		x := Figure{Kernel: k.kernel, Problem: g.problem(k.op, dtype), Clock: "span", Seconds: (f.us + f.copy) * 1e-6,
			Note: fmt.Sprintf("%s: %g us of the transfer kernel (%g GB/s) and %g us of the copy or reduce kernel, slowest of %d ranks; the token counts of two ranks differ by at most one", f.name, f.us, f.gbps, f.copy, len(f.ranks))}
		if r.sms != "" {
			x.Values = map[string]ep.Value{"sms": ep.Value(r.sms)}
		}
		out = append(out, x)
	}
	if len(out) == 0 {
		return nil, nil, errors.New("no line with a figure")
	}
	if r.others > 0 {
		r.facts.warn("%d lines left out: only the first case of each dtype is imported; run the test with --test-first-only", r.others)
	}
	return out, r.facts.warnings, nil
}

// hybridEP reads the times that rank 0 of tests/test_hybrid_ep.py prints (DeepEP, branch hybrid-ep, commit 94a9f8f).
// The output does not give the shape, so the user's flags must give it.
var hybridEP = Format{
	Name:   "hybrid-ep",
	Doc:    "output of tests/test_hybrid_ep.py of DeepEP's branch hybrid-ep",
	Checks: "GB/s x t = the printed MB; min <= t <= max",
	Detect: func(head []byte) bool {
		return bytes.Contains(head, []byte("=== Torch API Benchmark (")) || bytes.Contains(head, []byte("=== Kernel Benchmark (")) || hybridLine.Match(head)
	},
	Read: readHybridEP,
}

var (
	hybridHead = regexp.MustCompile(`=== Torch API Benchmark \((FP8|BF16), (\d+) ranks\) ===`)
	hybridLine = regexp.MustCompile(`(?m)^(fused )?(dispatch|combine)(\+permute|\+unpermute)?(?: \((?:FP8|BF16)\))?: +([\d.]+) GB/s \(NVL\), t: ([\d.]+) us \[min=([\d.]+), max=([\d.]+)\], \w+: ([\d.]+) MB`)
)

func readHybridEP(data []byte, g Given) ([]Figure, []string, error) {
	f := newFacts(g)
	var out []Figure
	dtype := ep.DType("")
	for line := range strings.Lines(string(data)) {
		if m := hybridHead.FindStringSubmatch(line); m != nil {
			dtype = ep.DType(strings.ToLower(m[1]))
			var err error
			if g, err = f.with(said{"ranks", "Torch API Benchmark", m[2]}); err == nil {
				err = g.require("experts", "topk", "tokens", "hidden")
			}
			if err == nil {
				err = g.setNodes(f, 0, 0)
			}
			if err != nil {
				return nil, nil, err
			}
		}
		if m := hybridLine.FindStringSubmatch(line); m != nil && dtype != "" {
			x, err := hybridFigure(m, g, dtype)
			if err != nil {
				return nil, nil, err
			}
			out = append(out, x)
		}
	}
	switch {
	case len(out) > 0:
	case dtype == "" && hybridLine.Match(data):
		return nil, nil, errors.New("the line \"=== Torch API Benchmark (FP8 or BF16, N ranks) ===\" is missing, so the dtype and the number of ranks are unknown")
	case bytes.Contains(data, []byte("=== Kernel Benchmark (")):
		return nil, nil, errors.New("the log has only kernel times (Kernel Benchmark), but a call also scans the routing and copies; import the Torch API Benchmark of the same test, which has times of whole calls")
	default:
		return nil, nil, errors.New("no line with a time")
	}
	return out, f.warnings, nil
}

func hybridFigure(m []string, g Given, dtype ep.DType) (Figure, error) {
	name := m[1] + m[2] + m[3]
	var p [5]printed
	for i, text := range m[4:9] {
		var err error
		if p[i], err = parsePrinted(text); err != nil {
			return Figure{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	speed, us, least, most, mb := p[0], p[1], p[2], p[3], p[4]
	if got := speed.v * us.v / 1e3; !agrees(got, mb.v, rel(speed, us, mb)) {
		return Figure{}, fmt.Errorf("%s: %g GB/s x %g us = %.2f MB, but the line says %g MB", name, speed.v, us.v, got, mb.v)
	}
	if us.v < least.v-us.half-least.half || us.v > most.v+us.half+most.half {
		return Figure{}, fmt.Errorf("%s: t %g us is outside min=%g to max=%g", name, us.v, least.v, most.v)
	}
	kernel := "hybrid-ep"
	if m[3] != "" {
		kernel += "-permute"
	}
	if m[1] != "" {
		kernel += "-fused"
	}
	return Figure{Kernel: kernel, Problem: g.problem(ep.Op(m[2]), dtype), Clock: "event", Seconds: most.v * 1e-6,
		Note: fmt.Sprintf("%s: slowest rank; the mean of the ranks is %g us, %g GB/s by the hybrid-ep definition; a call of the PyTorch API with device synchronisation", name, us.v, speed.v)}, nil
}
