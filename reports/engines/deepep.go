package engines

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// normal is a kernel of the DeepEP worker. These exports hold the parameters of that
// kernel.
const normal = "deepep-normal"

// sameSMs reports whether two configs have the same number of SMs. They must, because the
// number decides the layout of the handle that DeepEP's dispatch makes and its combine
// reads.
func sameSMs(dispatch, combine ep.Config) bool { return dispatch.Int("sms") == combine.Int("sms") }

// deepEPConfig holds the arguments of DeepEP's Config by the names of its constructor.
type deepEPConfig struct {
	SMs  int `json:"num_sms"`
	Send int `json:"num_max_nvl_chunked_send_tokens"`
	Recv int `json:"num_max_nvl_chunked_recv_tokens"`
}

func deepEPOf(c ep.Config) deepEPConfig {
	return deepEPConfig{c.Int("sms"), c.Int("send"), c.Int("recv")}
}

// bestForAllCounts returns the config of normal mode that loses least over all token counts,
// with notes on its losses.
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

// writeSGLang writes the JSON of --deepep-config. SGLang takes one config for all token
// counts, for normal mode only.
func writeSGLang(in Input) (Output, error) {
	best, notes, err := bestForAllCounts(in)
	if err != nil {
		return Output{}, err
	}
	data, err := json.MarshalIndent(map[string]deepEPConfig{"normal_dispatch": deepEPOf(best.dispatch), "normal_combine": deepEPOf(best.combine)}, "", "  ")
	return Output{append(data, '\n'), notes}, err
}

// writeMegatron writes the number of SMs, the only parameter that Megatron-LM takes.
func writeMegatron(in Input) (Output, error) {
	best, notes, err := bestForAllCounts(in)
	if err != nil {
		return Output{}, err
	}
	return Output{fmt.Appendf(nil, "--moe-deepep-num-sms %d\n", best.dispatch.Int("sms")),
		append(notes, "Megatron-LM takes only the number of SMs; the losses above were computed with the chunk sizes that were best with it",
			"sources newer than megatron-core 0.16 call it --moe-flex-dispatcher-num-sms")}, nil
}

//go:embed shim.py.tmpl
var shimText string

var shim = template.Must(template.New("shim.py.tmpl").Parse(shimText))

// shimRow is the config for token counts up to Hi.
type shimRow struct {
	Hi                int
	Dispatch, Combine deepEPConfig
}

// writeShim writes a look-up by token count. Rows meet in the middle between measured counts,
// like the rows of a table.
func writeShim(in Input) (Output, error) {
	all, notes, err := measuredPoints(in, normal)
	if err != nil {
		return Output{}, err
	}
	var rows []shimRow
	for at := 0; at < len(all); {
		n := at
		for n < len(all) && all[n].tokens == all[at].tokens {
			n++
		}
		best, err := choose(all[at:n], in.Run.Run.Band, sameSMs)
		if err != nil {
			return Output{}, fmt.Errorf("%d tokens: %w", all[at].tokens, err)
		}
		notes = append(notes, best.losses(all[at:n])...)
		if len(rows) > 0 {
			rows[len(rows)-1].Hi = table.Midpoint(all[at-1].tokens, all[at].tokens)
		}
		rows = append(rows, shimRow{all[n-1].tokens, deepEPOf(best.dispatch), deepEPOf(best.combine)})
		at = n
	}
	m, run := in.Run.Run.Machine, in.Run.Run
	ranks := in.Run.Cases[slices.IndexFunc(in.Run.Cases, func(c *reports.Case) bool { return len(timesOf(c, normal)) > 0 })].Problem.Ranks
	var b strings.Builder
	err = shim.Execute(&b, map[string]any{"Rows": rows, "Ranks": ranks, "Machine": strings.Join(strings.Fields(m.Name), " "), "Date": run.Started.UTC().Format("2006-01-02"),
		"Tool": cmp.Or(run.Tool, "unknown")})
	return Output{[]byte(b.String()), notes}, err
}
