package engines

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

const normal = "deepep-normal"

// sameSMs reports whether a combine can use the dispatch's handle. The layout of a handle depends on the number of SMs.
func sameSMs(dispatch, combine ep.Config) bool { return dispatch.Int("sms") == combine.Int("sms") }

type deepEPConfig struct {
	SMs  int `json:"num_sms"`
	Send int `json:"num_max_nvl_chunked_send_tokens"`
	Recv int `json:"num_max_nvl_chunked_recv_tokens"`
}

func deepEPOf(c ep.Config) deepEPConfig {
	return deepEPConfig{c.Int("sms"), c.Int("send"), c.Int("recv")}
}

func bestForAllCounts(in Input) (best configPair, notes []string, err error) {
	all, leftOut, err := measuredPoints(in, normal)
	if err != nil {
		return best, nil, err
	}
	if best, err = choose(all, in.Run.Run.Band, sameSMs); err != nil {
		return best, nil, err
	}
	return best, append(best.losses(all), leftOut...), nil
}

func writeSGLang(in Input) (Output, error) {
	best, notes, err := bestForAllCounts(in)
	if err != nil {
		return Output{}, err
	}
	data, err := json.MarshalIndent(map[string]deepEPConfig{"normal_dispatch": deepEPOf(best.dispatch), "normal_combine": deepEPOf(best.combine)}, "", "  ")
	return Output{append(data, '\n'), notes}, err
}

func writeMegatron(in Input) (Output, error) {
	best, notes, err := bestForAllCounts(in)
	if err != nil {
		return Output{}, err
	}
	return Output{fmt.Appendf(nil, "--moe-deepep-num-sms %d\n", best.dispatch.Int("sms")),
		append(notes, "Megatron-LM takes the number of SMs, but no chunk sizes; the losses above are right only for the chunk sizes that are best with this number of SMs",
			"sources newer than megatron-core 0.16 call this flag --moe-flex-dispatcher-num-sms")}, nil
}

//go:embed shim.py.tmpl
var shimText string

var shim = template.Must(template.New("shim.py.tmpl").Parse(shimText))

// shimRow holds the configs for token counts up to Hi.
type shimRow struct {
	Hi                int
	Dispatch, Combine deepEPConfig
}

// shape holds the parameters that must be equal on all ranks of a call.
type shape struct{ sms, dispatchRecv, combineRecv int }

func shapeOf(dispatch, combine ep.Config) shape {
	return shape{dispatch.Int("sms"), dispatch.Int("recv"), combine.Int("recv")}
}

type shimRows struct {
	rows  []shimRow
	notes []string
	cost  float64 // weighted regret of the rows
}

// writeShim writes a Python module. All its rows have one shape, the shape of least cost.
func writeShim(in Input) (Output, error) {
	all, notes, err := measuredPoints(in, normal)
	if err != nil {
		return Output{}, err
	}
	best := shimRows{cost: math.Inf(1)}
	for _, s := range shapes(all) {
		if r := rowsOf(all, s, in.Run.Run.Band); r.cost < best.cost {
			best = r
		}
	}
	if len(best.rows) == 0 {
		return Output{}, errNoPair
	}
	notes = append(notes, best.notes...)
	m, run := in.Run.Run.Machine, in.Run.Run
	ranks := in.Run.Cases[slices.IndexFunc(in.Run.Cases, func(c *reports.Case) bool { return len(timesOf(c, normal)) > 0 })].Problem.Ranks
	var b strings.Builder
	err = shim.Execute(&b, map[string]any{"Rows": best.rows, "Ranks": ranks, "Machine": strings.Join(strings.Fields(m.Name), " "), "Date": run.Started.UTC().Format("2006-01-02"),
		"Tool": cmp.Or(run.Tool, "unknown")})
	return Output{[]byte(b.String()), notes}, err
}

// shapes lists the shapes of fitting pairs. The default's shape comes first, so that it wins ties.
func shapes(all []measuredPoint) (out []shape) {
	own, _ := defaults(all, make([]extremes, len(all)))
	if own.dispatch.Kernel != "" && sameSMs(own.dispatch, own.combine) {
		out = append(out, shapeOf(own.dispatch, own.combine))
	}
	for _, x := range configs(all, func(s measuredPoint) map[string]float64 { return s.dispatch }) {
		for _, y := range configs(all, func(s measuredPoint) map[string]float64 { return s.combine }) {
			if s := shapeOf(x, y); sameSMs(x, y) && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// rowsOf chooses configs of one shape for each token count. At a token count where the shape was not measured, the cost
// is that of the slowest pair.
func rowsOf(all []measuredPoint, s shape, band float64) (out shimRows) {
	fits := func(dispatch, combine ep.Config) bool {
		return sameSMs(dispatch, combine) && shapeOf(dispatch, combine) == s
	}
	last := -1
	for at := 0; at < len(all); {
		n := at
		for n < len(all) && all[n].tokens == all[at].tokens {
			n++
		}
		points := all[at:n]
		ends := make([]extremes, len(points))
		for i, p := range points {
			ends[i] = extremesAt(p, sameSMs)
		}
		best, err := choose(points, band, fits)
		if err != nil {
			for i, p := range points {
				if ends[i].fastest > 0 {
					out.cost += p.weight * (ends[i].slowest/ends[i].fastest - 1)
				}
			}
			out.notes = append(out.notes, fmt.Sprintf("warning: %s: no config with %d SMs and receive buffers of %d and %d was measured; the nearest row applies", points[0], s.sms, s.dispatchRecv, s.combineRecv))
			at = n
			continue
		}
		var sum float64
		sum, best.regret = judge(points, ends, best.dispatch, best.combine)
		out.cost += sum
		out.notes = append(out.notes, best.losses(points)...)
		if last >= 0 {
			out.rows[len(out.rows)-1].Hi = table.Midpoint(last, points[0].tokens)
		}
		last = points[0].tokens
		out.rows = append(out.rows, shimRow{last, deepEPOf(best.dispatch), deepEPOf(best.combine)})
		at = n
	}
	return out
}
