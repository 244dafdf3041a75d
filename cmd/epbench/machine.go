package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func newMachine() *cobra.Command {
	var sources sourceFlags
	var backend string
	var out tableFlags
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "Print this machine's key, and which tables apply here",
		Long: `Print the key by which tables identify this machine, and the hashes of the kernels. Also
list the compiled-in, system and user tables, and say which of them apply here. With
--json print a JSON object. Save this object in a file to pass it to the flag --machine
of other commands, or to the programs in the folder examples.`,
		Example: `  epbench machine
  epbench machine --json > machine.json
  epbench table lookup --embedded --machine machine.json --model deepseek-v3`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := backendOf(cmd, backend)
			if err != nil {
				return err
			}
			defer b.Close()
			set, err := sources.open()
			if err != nil {
				return err
			}
			host := hostOf(b)
			if out.json || out.format == "json" {
				return writeMachine(cmd, host, set)
			}
			return out.print(cmd, machineTable(host), appliesTable(host, set))
		},
	}
	sources.bind(cmd)
	addBackendFlag(cmd, &backend)
	out.bind(cmd)
	return cmd
}

// applies returns yes, no, partly or unverified, and the reason in `note`.
func applies(t *table.Table, h table.Host) (word, note string) {
	if len(t.Rows) == 0 {
		return "no", "it has no rows"
	}
	if err := t.Refusal(h, t.Rows[0].Key.Problem(0)); err != nil {
		return "no", err.Error()
	}
	earlier, refused := t.Builds(h)
	if refused > 0 {
		return "partly", fmt.Sprintf("%d of %d rows need kernels that this build does not have", refused, len(t.Rows))
	}
	doubts := t.Doubts(h)
	if earlier > 0 {
		doubts = append(doubts, fmt.Sprintf("%d of %d rows measured with an earlier build of their kernels", earlier, len(t.Rows)))
	}
	if len(doubts) > 0 {
		return "unverified", strings.Join(doubts, ", ")
	}
	return "yes", ""
}

func machineTable(h table.Host) reports.Table {
	m := h.Machine
	t := reports.Table{Name: "machine", Columns: []reports.Column{reports.Words("what"), reports.Words("value")}}
	for _, row := range [][2]string{
		{"name", m.Name}, {"key", m.Key()}, {"GPUs", fmt.Sprint(m.GPUs)}, {"SMs", fmt.Sprint(m.SMs)},
		{"memory", fmt.Sprintf("%d GiB", m.Memory>>30)}, {"links", m.Link}, {"driver", m.Driver}, {"CUDA", m.CUDA},
		{"kernels", string(h.ABI)},
	} {
		if row[1] != "" {
			t.Add(reports.Str(row[0]), reports.Str(row[1]))
		}
	}
	return t
}

func appliesTable(h table.Host, set *table.Set) reports.Table {
	t := reports.Table{Name: "tables", Columns: []reports.Column{
		reports.Words("table"), reports.Words("rows"), reports.Words("applies"), reports.Words("why"),
	}}
	for _, s := range set.Sources() {
		word, note := applies(s.Table, h)
		t.Add(reports.Str(sourceName(s)), reports.Int(len(s.Table.Rows)), reports.Str(word), reports.Str(note))
	}
	return t
}

// writeMachine prints JSON with the field names of run.json.
func writeMachine(cmd *cobra.Command, h table.Host, set *table.Set) error {
	type tableHere struct {
		Name    string `json:"name"`
		Rows    int    `json:"rows"`
		Applies string `json:"applies"`
		Why     string `json:"why,omitempty"`
	}
	doc := struct {
		Machine ep.Machine  `json:"machine"`
		Key     string      `json:"key"`
		ABI     ep.ABI      `json:"abi"`
		Tables  []tableHere `json:"tables"`
	}{h.Machine, h.Machine.Key(), h.ABI, []tableHere{}}
	for _, s := range set.Sources() {
		word, note := applies(s.Table, h)
		doc.Tables = append(doc.Tables, tableHere{sourceName(s), len(s.Table.Rows), word, note})
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}
