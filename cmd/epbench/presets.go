package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/workloads"
)

// presetsOptions are the flags of presets.
type presetsOptions struct {
	tables tableFlags
	match  string
	ranks  int
	file   string
}

func newPresets() *cobra.Command {
	var o presetsOptions
	cmd := &cobra.Command{
		Use:   "presets [NAME...]",
		Short: "List the model shapes that --model knows, or explain some",
		Long: `List the model shapes that --model knows. With names, explain each: what of its
shape breaks common assumptions, and which rank counts its experts divide by.

Presets of your own are a YAML list of entries such as
  - {name: mine, hidden: 4096, experts: 64, top_k: 6}
and are given as --model FILE.yaml:mine, or listed with --file.`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.tables.bind(cmd)
	cmd.Flags().StringVar(&o.match, "match", "", "only presets whose name or alias has this in it")
	cmd.Flags().IntVar(&o.ranks, "ranks", 0, "only presets whose experts divide by this many ranks")
	cmd.Flags().StringVar(&o.file, "file", "", "list the presets of this YAML file instead")
	return cmd
}

func (o *presetsOptions) run(cmd *cobra.Command, args []string) error {
	ps, err := o.choose(args)
	if err != nil {
		return badInput(err)
	}
	if len(args) == 0 {
		return o.tables.print(cmd, presetTable(ps))
	}
	tables := make([]reports.Table, len(ps))
	for i, p := range ps {
		tables[i] = explainPreset(p)
	}
	return o.tables.print(cmd, tables...)
}

// choose finds the named presets, or all that pass the filters.
func (o *presetsOptions) choose(names []string) ([]workloads.Preset, error) {
	if o.ranks < 0 {
		return nil, fmt.Errorf("--ranks: %d is below 0", o.ranks)
	}
	var ps []workloads.Preset
	for _, name := range names {
		if o.file != "" {
			name = o.file + ":" + name
		}
		p, err := workloads.FindPreset(name)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	if len(names) == 0 {
		ps = workloads.Presets()
		if o.file != "" {
			var err error
			if ps, err = workloads.LoadPresets(o.file); err != nil {
				return nil, fmt.Errorf("--file: %w", err)
			}
		}
	}
	ps = slices.DeleteFunc(ps, func(p workloads.Preset) bool { return !o.passes(p) })
	if len(ps) == 0 {
		return nil, fmt.Errorf("--match, --ranks: no preset passes; without them there are %d", len(workloads.Presets()))
	}
	return ps, nil
}

func (o *presetsOptions) passes(p workloads.Preset) bool {
	if o.ranks > 0 && p.Experts%o.ranks != 0 {
		return false
	}
	return slices.ContainsFunc(append([]string{p.Name}, p.Aliases...), func(n string) bool {
		return strings.Contains(n, strings.ToLower(o.match))
	})
}

func presetTable(ps []workloads.Preset) reports.Table {
	t := reports.Table{
		Name: "presets",
		Columns: []reports.Column{
			reports.Words("model"), reports.Numbers("hidden", ""), reports.Numbers("wire", "").Dropped(3),
			reports.Numbers("intermediate", "").Dropped(5), reports.Numbers("experts", ""), reports.Numbers("shared", "").Dropped(4),
			reports.Numbers("topk", ""), reports.Words("groups").Dropped(6), reports.Words("layers").Dropped(7),
			reports.Words("source").Dropped(8),
		},
		Notes: []string{
			"wire: elements of a token that travel; groups: g/t of group-limited routing; layers: all (leading dense ones)",
			"source: config, card, checked against the parameter count, or memory; epbench presets NAME explains one",
		},
	}
	for _, p := range ps {
		t.Add(reports.Str(p.Name), reports.Int(p.Hidden), reports.Int(p.WireHidden), reports.Int(p.Intermediate),
			reports.Int(p.Experts), reports.Int(p.Shared), reports.Int(p.TopK),
			reports.Str(presetGroups(p)), reports.Str(presetLayers(p)), reports.Str(p.Source))
	}
	return t
}

func presetGroups(p workloads.Preset) string {
	if p.Groups < 2 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", p.Groups, p.GroupTopK)
}

func presetLayers(p workloads.Preset) string {
	switch {
	case p.Layers == 0:
		return "-"
	case p.DenseLayers == 0:
		return fmt.Sprint(p.Layers)
	}
	return fmt.Sprintf("%d (%d)", p.Layers, p.DenseLayers)
}

// explainPreset is a table of facts, its hazards as notes.
func explainPreset(p workloads.Preset) reports.Table {
	t := reports.Table{
		Name: strings.ReplaceAll(p.Name, ".", "-"), Title: p.Name,
		Columns: []reports.Column{reports.Words("field"), reports.Words("value")},
		Notes:   p.Hazards(),
	}
	add := func(field string, value any) { t.Add(reports.Str(field), reports.Str(fmt.Sprint(value))) }
	if p.Aliases != nil {
		add("aliases", strings.Join(p.Aliases, ", "))
	}
	add("hidden", fmt.Sprintf("%d, %d on the wire", p.Hidden, p.WireHidden))
	add("intermediate", p.Intermediate)
	add("experts", fmt.Sprintf("%d routed, %d shared", p.Experts, p.Shared))
	add("topk", p.TopK)
	if p.Groups > 1 {
		add("groups", fmt.Sprintf("%d of %d groups; --routing grouped:%d:%d", p.GroupTopK, p.Groups, p.Groups, p.GroupTopK))
	}
	add("layers", presetLayers(p))
	add("ranks", strings.Trim(strings.ReplaceAll(fmt.Sprint(p.RankCounts(256)), " ", ", "), "[]"))
	add("source", p.Source)
	if p.Note != "" {
		add("note", p.Note)
	}
	return t
}
