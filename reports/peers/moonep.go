package peers

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// moonEP reads the output of two benchmarks of zhumakhan/MoonEP: the table and the --out CSV of
// benchmarks/bench_comm.py (commit 753befe), and the lines and CSV of benchmarks/bench_vs_deepep.py (commit 9214315).
// Times are means over ranks and iterations.
var moonEP = Format{
	Name:   "moonep",
	Doc:    "table, lines or CSV of MoonEP's bench_comm.py or bench_vs_deepep.py",
	Checks: "tokens x top-k x hidden x 2 / us = GB/s; experts = experts of a rank x ranks",
	Detect: func(head []byte) bool {
		return bytes.Contains(head, []byte("dispatch_fwd_us")) || bytes.Contains(head, []byte("d_f_us")) || bytes.Contains(head, []byte("=== bench_comm starting")) ||
			moonHeader.Match(head) || moonLine.Match(head)
	},
	Read: readMoonEP,
}

var (
	moonHeader = regexp.MustCompile(`(?m)^ *ep +H +K +S +(?:s +)?E +.*\bd_fwd\b`)
	moonLine   = regexp.MustCompile(`(?m)^ *(moonep|v2) ep=(\d+) E=(\d+) H=(\d+) K=(\d+) .*?maxvio= *([\d.]+) .*?\bd_f +([\d.]+) us \( *(\d+) GB/s\).*?\bc_f +([\d.]+) us \( *(\d+) GB/s\)`)
)

var moonNames = map[string]string{"d_fwd": "dispatch_fwd_us", "c_fwd": "combine_fwd_us", "e_fwd": "epilogue_fwd_us", "cp_fwd": "combine_prologue_fwd_us",
	"DfGB/s": "dispatch_fwd_GBps", "CfGB/s": "combine_fwd_GBps", "unb_r": "unbalance_ratio", "mx/mean": "load_max_mean", "plan_us": "planning_us"}

func readMoonEP(data []byte, g Given) ([]Figure, []string, error) {
	rows, err := moonRows(data)
	if err != nil {
		return nil, nil, err
	}
	f := newFacts(g)
	var out []Figure
	for i, row := range rows {
		figures, err := moonFigures(row, f)
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		out = append(out, figures...)
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("no row with a time; %s", strings.Join(f.warnings, "; "))
	}
	return out, f.warnings, nil
}

// moonRows returns the rows of a CSV, of a table, or of lines. A row maps column names to texts.
func moonRows(data []byte) ([]map[string]string, error) {
	if head, _, _ := bytes.Cut(data, []byte("\n")); bytes.Contains(head, []byte(",")) && bytes.Contains(head, []byte("_us")) {
		return tableRows(data)
	}
	var rows []map[string]string
	var header []string
	for line := range strings.Lines(string(data)) {
		if m := moonLine.FindStringSubmatch(line); m != nil {
			rows = append(rows, map[string]string{"lib": m[1], "ep": m[2], "E": m[3], "H": m[4], "K": m[5], "maxvio": m[6], "d_f_us": m[7], "d_f_gbps": m[8], "c_f_us": m[9], "c_f_gbps": m[10]})
			continue
		}
		fields := strings.Fields(line)
		switch {
		case moonHeader.MatchString(line):
			header = fields
		case header != nil && len(fields) > 4 && isCount(fields[0]):
			row := map[string]string{}
			for i, name := range header[:min(len(header), len(fields))] {
				if known := moonNames[name]; known != "" {
					name = known
				}
				row[name] = fields[i]
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func isCount(s string) bool { _, err := strconv.Atoi(s); return err == nil }

// moonFigures returns the figures of a row. It returns none if the row says that the benchmark failed.
func moonFigures(row map[string]string, f *facts) ([]Figure, error) {
	if slices.Contains(slices.Collect(maps.Values(row)), "FAILED") || row["dispatch_fwd_us"] == "" && row["d_f_us"] == "" {
		f.warn("ep %s, H %s, K %s left out: the benchmark failed there", row["ep"], row["H"], row["K"])
		return nil, nil
	}
	tokens := row["s"]
	if tokens == "" {
		tokens = row["S"] // older versions print the tokens of a rank in column S
	}
	g, err := f.with(said{"ranks", "ep", row["ep"]}, said{"hidden", "H", row["H"]}, said{"topk", "K", row["K"]}, said{"experts", "E", row["E"]}, said{"tokens", "s", tokens})
	if err == nil {
		err = g.require("ranks", "hidden", "topk", "experts", "tokens")
	}
	if err == nil {
		err = g.setNodes(f, 0, 0)
	}
	if err != nil {
		return nil, err
	}
	if per, err := strconv.Atoi(row["epn"]); err == nil && per*g.Ranks != g.Experts {
		return nil, fmt.Errorf("%d experts on each of %d ranks are %d experts, but the row says %d", per, g.Ranks, per*g.Ranks, g.Experts)
	}
	if g.Routing == "" {
		return nil, fmt.Errorf("the routing is log-normal with sigma %s, drawn by MoonEP (busiest expert's load / mean: %s); give --routing, for example lognormal:maxmean=%s", row["unbalance_ratio"]+row["sigma"], moonImbalance(row), moonImbalance(row))
	}
	var out []Figure
	for _, part := range []struct {
		op        ep.Op
		us, speed string
		also      string // a further kernel of a call
	}{{ep.Dispatch, "dispatch_fwd", "dispatch_fwd_GBps", "epilogue_fwd_us"}, {ep.Combine, "combine_fwd", "combine_fwd_GBps", "combine_prologue_fwd_us"},
		{ep.Dispatch, "d_f", "d_f_gbps", ""}, {ep.Combine, "c_f", "c_f_gbps", ""}} {
		if row[part.us+"_us"] == "" {
			continue
		}
		x, err := moonFigure(row, g, part.us+"_us", part.speed, part.also)
		if err != nil {
			return nil, err
		}
		x.Problem = g.problem(part.op, ep.BF16)
		out = append(out, x)
	}
	return out, nil
}

// moonImbalance returns the busiest expert's load divided by the mean load. The column maxvio has this
// ratio minus 1.
func moonImbalance(row map[string]string) string {
	if v, err := strconv.ParseFloat(row["maxvio"], 64); err == nil {
		return strconv.FormatFloat(v+1, 'g', 4, 64)
	}
	return row["load_max_mean"]
}

func moonFigure(row map[string]string, g Given, us, speed, also string) (Figure, error) {
	t, err := parsePrinted(row[us])
	if err != nil {
		return Figure{}, fmt.Errorf("%s: %w", us, err)
	}
	gbps, bytes := lenient(row[speed]), 2*float64(g.Tokens)*float64(g.TopK)*float64(g.Hidden)
	if want := bytes / (t.v * 1e3); gbps.v > 0 && math.Abs(want-gbps.v) > (want*t.half/t.v+gbps.half)*1.02+1e-6*want {
		return Figure{}, fmt.Errorf("%s: %.0f bytes in %g us are %.4g GB/s, but the row says %g GB/s", us, bytes, t.v, want, gbps.v)
	}
	x := Figure{Kernel: "moonep", Clock: "event", Seconds: t.v * 1e-6, Note: "mean of iterations and ranks; " + moonInside(us)}
	if row["lib"] == "v2" || row["lib"] == "deepep_v2" {
		x.Kernel = "deepep-v2-expand"
	}
	if also == "" {
		return x, nil
	}
	more, err := parsePrinted(row[also])
	if err != nil {
		return Figure{}, fmt.Errorf("%s: %w", also, err)
	}
	x.Seconds += more.v * 1e-6
	x.Note = fmt.Sprintf("%g us of the transfer kernel and %g us of the kernel that copies duplicates (dispatch) or adds them up (combine); %g GB/s, counting a token once for each of its experts; mean of iterations and ranks, in a CUDA graph; planning is not included", t.v, more.v, gbps.v)
	return x, nil
}

func moonInside(us string) string {
	if us == "d_f_us" {
		return "dispatch with its plan and, for moonep, the copies of weights; eager"
	}
	return "eager"
}
