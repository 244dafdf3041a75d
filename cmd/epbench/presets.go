package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/workloads"
)

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
		Long: `List the model shapes that --model knows. With names, print each preset in full, with
the rank counts that divide its experts and with warnings about its shape.

Your own presets are a YAML list of entries such as
  - {name: mine, hidden: 4096, experts: 64, top_k: 6}
Use one with --model FILE.yaml:mine, list them with --file.`,
		Example: `  epbench presets
  epbench presets deepseek-v3
  epbench presets --match qwen --ranks 8`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.tables.bind(cmd)
	flags(cmd, forProblem, func(s *pflag.FlagSet) {
		s.StringVar(&o.match, "match", "", "`TEXT` list presets with this text in their name or an alias")
		s.IntVar(&o.ranks, "ranks", 0, "`N` list presets whose number of experts is a multiple of this number of ranks")
		s.StringVar(&o.file, "file", "", "`FILE` list the presets of this YAML file instead")
	})
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

// choose selects presets by name, --match and --ranks. Without names it starts from all presets.
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
	switch {
	case len(names) > 0:
	case o.file == "":
		ps = workloads.Presets()
	default:
		var err error
		if ps, err = workloads.LoadPresets(o.file); err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
	}
	all := len(ps)
	if ps = slices.DeleteFunc(ps, func(p workloads.Preset) bool { return !o.passes(p) }); len(ps) == 0 {
		return nil, fmt.Errorf("--match, --ranks: none of the %d presets passes", all)
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
			"wire: number of elements of a token that are sent; groups: 8/4 means that the experts form 8 groups, and a token selects experts in 4 of them; layers: number of layers (of these, dense layers at the beginning)",
			"source: where the sizes come from: config or card (both published by the model's authors), checked (one of these, compared with the parameter count) or memory (not looked up); epbench presets NAME explains a preset",
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

// explainPreset returns a preset in full. Its notes warn about the shape.
func explainPreset(p workloads.Preset) reports.Table {
	t := newFacts(strings.ReplaceAll(p.Name, ".", "-"), p.Name)
	t.Notes = p.Hazards()
	if p.Aliases != nil {
		t.add("aliases", "%s", strings.Join(p.Aliases, ", "))
	}
	t.add("hidden", "%d, %d on the wire", p.Hidden, p.WireHidden)
	t.add("intermediate", "%d", p.Intermediate)
	t.add("experts", "%d routed, %d shared", p.Experts, p.Shared)
	t.add("topk", "%d", p.TopK)
	if p.Groups > 1 {
		t.add("groups", "%d of %d groups; --routing grouped:%d:%d", p.GroupTopK, p.Groups, p.Groups, p.GroupTopK)
	}
	t.add("layers", "%s", presetLayers(p))
	t.add("ranks", "%s", p.RankCounts())
	t.add("source", "%s", p.Source)
	if p.Note != "" {
		t.add("note", "%s", p.Note)
	}
	return t.Table
}

type facts struct{ reports.Table }

func newFacts(name, title string) facts {
	return facts{reports.Table{Name: name, Title: title, Columns: []reports.Column{reports.Words("field"), reports.Words("value")}}}
}

func (t *facts) add(field, format string, args ...any) {
	t.Add(reports.Str(field), reports.Str(fmt.Sprintf(format, args...)))
}
