package peers

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// deepEP reads the output of DeepEP V1's tests (deepseek-ai/DeepEP, commit dd758ca, folder tests/legacy):
// test_intranode.py and test_internode.py for the normal kernels, test_low_latency.py for the low-latency kernels.
var deepEP = Format{
	Name:   "deepep",
	Doc:    "output of DeepEP's test_intranode.py, test_internode.py or test_low_latency.py",
	Checks: "GB/s x us = tokens x payload in every line; the Best line repeats an earlier line; min_t <= avg_t <= max_t",
	Detect: func(head []byte) bool {
		return bytes.Contains(head, []byte("[tuning]")) || llLine.Match(head) || pairLine.Match(head)
	},
	Read: readDeepEP,
}

var (
	configLine = regexp.MustCompile(`\[config\] num_tokens=(\d+), hidden=(\d+)(?:, num_topk_groups=(\d+))?(?:, num_topk=(\d+))?`)
	llShape    = regexp.MustCompile(`num_tokens=(\d+), hidden=(\d+), num_experts=(\d+), num_topk=(\d+)`)
	rankWord   = regexp.MustCompile(`\[rank (\d+) *\]`)
)

type deepEPReader struct {
	facts    *facts
	normal   *normalTest // the current test, nil before the first
	lowShape []said      // printed only by a fork of DeepEP
	runs     []*llRun
	printed  map[int]bool // ranks in the log
	figures  []Figure
	refused  []string // why tests were left out
}

func readDeepEP(data []byte, g Given) ([]Figure, []string, error) {
	d := deepEPReader{facts: newFacts(g), printed: ranksIn(data)}
	for line := range strings.Lines(string(data)) {
		if err := d.line(line); err != nil {
			return nil, nil, err
		}
	}
	d.refuse(prefixed("[tuning] lines: ", d.endNormal()))
	d.refuse(prefixed("low-latency lines: ", d.endLowLatency()))
	switch {
	case len(d.figures) == 0 && len(d.refused) > 0:
		return nil, nil, errors.New(strings.Join(d.refused, "; "))
	case len(d.figures) == 0:
		return nil, nil, errors.New("no [tuning] line and no [rank N] line with a time")
	}
	return d.figures, slices.Concat(d.facts.warnings, d.refused), nil
}

func (d *deepEPReader) refuse(err error) {
	if err != nil {
		d.refused = append(d.refused, err.Error())
	}
}

func ranksIn(data []byte) map[int]bool {
	out := map[int]bool{}
	for _, m := range rankWord.FindAllSubmatch(data, -1) {
		if r, err := strconv.Atoi(string(m[1])); err == nil {
			out[r] = true
		}
	}
	return out
}

func (d *deepEPReader) line(line string) error {
	if m := configLine.FindStringSubmatch(line); m != nil {
		d.refuse(prefixed("[tuning] lines: ", d.endNormal()))
		d.normal = &normalTest{shape: []said{{"tokens", "[config] num_tokens", m[1]}, {"hidden", "[config] hidden", m[2]}, {"topk", "[config] num_topk", m[4]}}, groups: m[3]}
		return nil
	}
	if m := llShape.FindStringSubmatch(line); m != nil {
		d.lowShape = []said{{"tokens", "num_tokens", m[1]}, {"hidden", "hidden", m[2]}, {"experts", "num_experts", m[3]}, {"topk", "num_topk", m[4]}}
	}
	if strings.Contains(line, "[tuning]") {
		if d.normal == nil {
			d.normal = &normalTest{}
		}
		return d.normal.line(line)
	}
	return d.lowLatency(line)
}

func prefixed(test string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(test + err.Error())
}
