package peers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// collectiveX reads two kinds of files of CollectiveX (SemiAnalysisAI/InferenceX 843c625, experimental/CollectiveX):
//
//   - the result of one case ("record_type":"case-attempt"), written by run_sweep in bench/ep_harness.py
//   - the data set ("series") of the project's web application
//
// Times are medians over iterations of the slowest rank's time. Each call begins on an idle GPU.
var collectiveX = Format{
	Name:   "collectivex",
	Doc:    "result or assembled data set of SemiAnalysis' CollectiveX",
	Checks: "tokens x ranks = global tokens; token rate x round trip = global tokens; copies x payload = bytes, or rate x time x ranks = bytes; isolated sum = sum of its parts; p50 <= p90 <= p99; nodes x GPUs per node >= ranks",
	Detect: func(head []byte) bool {
		return looksLikeJSON(head) && (bytes.Contains(head, []byte(`"case-attempt"`)) || bytes.Contains(head, []byte(`"coverage"`)) && bytes.Contains(head, []byte(`"terminal_cases"`)) ||
			bytes.Contains(head, []byte(`"series_id"`)) && bytes.Contains(head, []byte(`"ep_size"`)))
	},
	Read: readCollectiveX,
}

type cxCase struct {
	Name        string
	Backend     string `json:"backend"`
	Mode        string `json:"mode"`
	Precision   string `json:"precision"`
	Routing     string `json:"routing"`
	Ranks       int    `json:"ep"`
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	Hidden      int    `json:"hidden"`
	Experts     int    `json:"experts"`
	TopK        int    `json:"topk"`
}

type cxPercentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// cxComponent has only Micros in the result of one case, and only the other fields in a data set.
type cxComponent struct {
	Micros  *cxPercentiles `json:"percentiles_us"`
	Latency *cxPercentiles `json:"latency_us"`
	Rate    *cxPercentiles `json:"payload_data_rate_gbps_at_latency_percentile"`
	Bytes   float64        `json:"payload_bytes"`
}

func (c cxComponent) times() *cxPercentiles { return cmp.Or(c.Micros, c.Latency) }

type cxBytes struct {
	Data   float64 `json:"activation_data_bytes"`
	Scales float64 `json:"scale_bytes"`
	Total  float64 `json:"total_logical_bytes"`
}

type cxRow struct {
	Tokens      int                    `json:"tokens_per_rank"`
	Global      int                    `json:"global_tokens"`
	Components  map[string]cxComponent `json:"components"`
	Bytes       map[string]cxBytes     `json:"byte_provenance"`
	Speed       *cxPercentiles         `json:"token_rate_at_latency_percentile"`
	SeriesSpeed *cxPercentiles         `json:"roundtrip_token_rate_at_latency_percentile"`
	Copies      *struct {
		Routed      float64 `json:"routed"`
		Assignments float64 `json:"assignments"`
	} `json:"logical_copies"`
	Correctness *struct {
		Passed bool `json:"passed"`
	} `json:"correctness"`
}

type cxDoc struct {
	Identity struct {
		Factors struct {
			Case cxCase `json:"case"`
		} `json:"case_factors"`
		ID string `json:"case_id"`
	} `json:"identity"`
	Measurement struct {
		Rows []cxRow `json:"rows"`
	} `json:"measurement"`
	Outcome struct {
		Status  string   `json:"status"`
		Reasons []string `json:"reasons"`
	} `json:"outcome"`
	Series []struct {
		cxCase
		ID     string `json:"series_id"`
		System struct {
			Ranks int `json:"ep_size"`
			Nodes int `json:"nodes"`
			GPUs  int `json:"gpus_per_node"`
		} `json:"system"`
		Points []cxRow `json:"points"`
	} `json:"series"`
}

func readCollectiveX(data []byte, g Given) ([]Figure, []string, error) {
	var doc cxDoc
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	f := newFacts(g)
	var out []Figure
	if len(doc.Measurement.Rows) > 0 {
		if s := doc.Outcome.Status; s != "" && s != "success" {
			return nil, nil, fmt.Errorf("the case ended as %q: %s", s, strings.Join(doc.Outcome.Reasons, "; "))
		}
		c := doc.Identity.Factors.Case
		c.Name = doc.Identity.ID
		return c.figures(f, doc.Measurement.Rows)
	}
	for _, s := range doc.Series {
		c := s.cxCase
		c.Name, c.Ranks, c.Nodes, c.GPUsPerNode, c.Routing = s.ID, s.System.Ranks, s.System.Nodes, s.System.GPUs, cmp.Or(c.Routing, seriesRouting(s.ID))
		figures, _, err := c.figures(f, s.Points)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, figures...)
	}
	return out, f.warnings, nil
}

// seriesRouting returns "uniform" if the id of a series says so, or else "".
func seriesRouting(id string) string {
	if strings.Contains(id, "-uniform-") {
		return "uniform"
	}
	return ""
}

func (c cxCase) figures(f *facts, rows []cxRow) ([]Figure, []string, error) {
	dtype, known := map[string]ep.DType{"bf16": ep.BF16, "fp8": ep.FP8}[c.Precision]
	if !known {
		return nil, nil, fmt.Errorf("%.80s: precision %.20q is not a dtype of epbench", c.Name, c.Precision)
	}
	if c.Routing != "uniform" && f.given.Routing == "" {
		return nil, nil, fmt.Errorf("%.80s: routing %.20q is unknown; give --routing", c.Name, c.Routing)
	}
	if c.GPUsPerNode > 0 && (c.Ranks+c.GPUsPerNode-1)/c.GPUsPerNode != c.Nodes {
		return nil, nil, fmt.Errorf("%.80s: %d ranks with %d GPUs a node need %d nodes, the file says %d", c.Name, c.Ranks, c.GPUsPerNode, (c.Ranks+c.GPUsPerNode-1)/c.GPUsPerNode, c.Nodes)
	}
	kernel := "collectivex-" + c.Backend
	if c.Mode == "low-latency" {
		kernel += "-ll"
	}
	var out []Figure
	for _, r := range rows {
		g, err := f.with(counted("ranks", "ep", c.Ranks), counted("nodes", "nodes", c.Nodes), counted("hidden", "hidden", c.Hidden), counted("experts", "experts", c.Experts),
			counted("topk", "topk", c.TopK), counted("tokens", "tokens_per_rank", r.Tokens))
		if err == nil {
			err = g.require("ranks", "nodes", "hidden", "experts", "topk", "tokens")
		}
		if err == nil {
			err = r.check(c, g)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%.80s, %s: %w", c.Name, ep.Tokens(r.Tokens), err)
		}
		if r.Correctness != nil && !r.Correctness.Passed {
			f.warn("%.80s, %s left out: its answers were wrong", c.Name, ep.Tokens(r.Tokens))
			continue
		}
		for _, part := range []struct {
			name string
			op   ep.Op
		}{{"dispatch", ep.Dispatch}, {"combine", ep.Combine}, {"roundtrip", ep.Pair}} {
			t := r.Components[part.name].times()
			if t == nil {
				f.warn("%.80s: no time of %s", c.Name, part.name)
				continue
			}
			out = append(out, Figure{Kernel: kernel, Problem: g.problem(part.op, dtype), Routing: "uniform", Seconds: t.P50 * 1e-6, Clock: "event",
				Note: fmt.Sprintf("%s: median of the slowest rank's times, each call on an idle GPU; p99 %.1f us; the input of dispatch already has the dtype that is sent", part.name, t.P99)})
		}
	}
	f.warn("pair_period, stage and isolated_sum left out: pair_period is the period of pairs that run back to back, stage is the benchmark's stand-in for the experts, isolated_sum is the sum of other times")
	return out, f.warnings, nil
}

func (r cxRow) check(c cxCase, g Given) error {
	if r.Tokens*c.Ranks != r.Global {
		return fmt.Errorf("%d tokens on %d ranks are not global_tokens %d", r.Tokens, c.Ranks, r.Global)
	}
	for _, name := range []string{"dispatch", "combine", "roundtrip", "stage", "isolated_sum"} {
		if t := r.Components[name].times(); t != nil && !(t.P50 >= 0 && t.P50 <= t.P90 && t.P90 <= t.P99) {
			return fmt.Errorf("%s: the percentiles must not decrease, but p50 is %g us, p90 %g us, p99 %g us", name, t.P50, t.P90, t.P99)
		}
	}
	if speed, t := cmp.Or(r.Speed, r.SeriesSpeed), r.Components["roundtrip"].times(); speed != nil && t != nil {
		if got := speed.P50 * t.P50 * 1e-6; !cxEqual(got, float64(r.Global)) {
			return fmt.Errorf("%g tokens a second x %g us = %.1f tokens, but global_tokens is %d", speed.P50, t.P50, got, r.Global)
		}
	}
	if err := r.checkSum(); err != nil {
		return err
	}
	if err := r.checkCopies(g); err != nil {
		return err
	}
	return r.checkRates(c)
}

// checkSum accepts a row without the part "stage".
func (r cxRow) checkSum() error {
	sum := r.Components["isolated_sum"].times()
	if sum == nil {
		return nil
	}
	want := 0.0
	for _, name := range []string{"dispatch", "stage", "combine"} {
		if t := r.Components[name].times(); t != nil {
			want += t.P50
		}
	}
	if !cxEqual(want, sum.P50) {
		return fmt.Errorf("dispatch, stage and combine take %g us, isolated_sum says %g us", want, sum.P50)
	}
	return nil
}

// checkCopies compares a row's bytes with the number of token copies sent.
func (r cxRow) checkCopies(g Given) error {
	if r.Copies == nil {
		return nil
	}
	if want := float64(r.Global * g.TopK); r.Copies.Assignments != want {
		return fmt.Errorf("%d tokens with top-%d are %.0f assignments, logical_copies says %.0f", r.Global, g.TopK, want, r.Copies.Assignments)
	}
	for name, b := range r.Bytes {
		if !cxEqual(b.Data+b.Scales, b.Total) {
			return fmt.Errorf("%s: %.0f bytes of data and %.0f of scales do not add up to the total, %.0f", name, b.Data, b.Scales, b.Total)
		}
	}
	values := r.Copies.Routed * float64(g.Hidden)
	if b := r.Bytes["combine"].Data; b > 0 && b != 2*values {
		return fmt.Errorf("combine: %.0f copies of %d BF16 are %.0f bytes, the row says %.0f", r.Copies.Routed, g.Hidden, 2*values, b)
	}
	if b := r.Bytes["dispatch"].Data; b > 0 && b != values && b != 2*values {
		return fmt.Errorf("dispatch: %.0f copies of %d values are %.0f or %.0f bytes, the row says %.0f", r.Copies.Routed, g.Hidden, values, 2*values, b)
	}
	return nil
}

// checkRates compares the bytes over all ranks with the rates per GPU.
func (r cxRow) checkRates(c cxCase) error {
	for _, name := range []string{"dispatch", "combine", "roundtrip"} {
		x := r.Components[name]
		t := x.times()
		if x.Rate == nil || t == nil || x.Bytes == 0 {
			continue
		}
		if got := x.Rate.P50 * t.P50 * 1e3 * float64(c.Ranks); !cxEqual(got, x.Bytes) {
			return fmt.Errorf("%s: %g GB/s x %g us x %d ranks = %.0f bytes, but payload_bytes is %.0f", name, x.Rate.P50, t.P50, c.Ranks, got, x.Bytes)
		}
	}
	d, b, both := r.Components["dispatch"].Bytes, r.Components["combine"].Bytes, r.Components["roundtrip"].Bytes
	if d > 0 && b > 0 && both > 0 && d+b != both {
		return fmt.Errorf("payload_bytes of dispatch and combine are %.0f and %.0f, roundtrip says %.0f", d, b, both)
	}
	return nil
}

// cxEqual compares numbers up to rounding.
func cxEqual(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), math.Abs(b)) }
