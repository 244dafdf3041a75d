package workloads

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/epbench/epbench/tune/ep"
)

const maxPresetBytes = 1 << 20

// ReadPresets reads a YAML list of presets, and checks them against the bounds of ep.Problem.
func ReadPresets(r io.Reader) ([]Preset, error) {
	lr := &io.LimitedReader{R: r, N: maxPresetBytes + 1}
	dec := yaml.NewDecoder(lr)
	dec.KnownFields(true)
	var ps []Preset
	err := dec.Decode(&ps)
	switch {
	case lr.N <= 0:
		return nil, fmt.Errorf("presets: larger than %d bytes", maxPresetBytes)
	case errors.Is(err, io.EOF) || err == nil && len(ps) == 0:
		return nil, errors.New("presets: empty; write a list of {name: ..., hidden: ..., experts: ..., top_k: ...}")
	case err != nil:
		return nil, fmt.Errorf("presets: %s", oneLine(err))
	}
	seen := map[string]bool{}
	for i := range ps {
		p := &ps[i]
		if p.WireHidden == 0 {
			p.WireHidden = p.Hidden
		}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("presets: entry %d (%.40q): %w", i+1, p.Name, err)
		}
		for _, n := range append(p.Aliases, p.Name) {
			if seen[n] {
				return nil, fmt.Errorf("presets: %.40q is defined twice", n)
			}
			seen[n] = true
		}
	}
	return ps, nil
}

func (p *Preset) check() error {
	if p.Name == "" || strings.ContainsAny(p.Name, " ,:\t\n") {
		return errors.New("name: write a word that has no space, comma or colon")
	}
	for _, f := range []struct {
		name     string
		v        int
		min, max int
	}{
		{"hidden", p.Hidden, 1, ep.MaxHidden},
		{"wire_hidden", p.WireHidden, 1, ep.MaxHidden},
		{"intermediate", p.Intermediate, 0, 1 << 20},
		{"experts", p.Experts, 1, ep.MaxExperts},
		{"shared", p.Shared, 0, 64},
		{"zero_experts", p.ZeroExperts, 0, ep.MaxExperts},
		{"top_k", p.TopK, 1, min(ep.MaxTopK, max(p.Experts, 1))},
		{"groups", p.Groups, 0, max(p.Experts, 1)},
		{"group_top_k", p.GroupTopK, 0, max(p.Groups, 1)},
		{"layers", p.Layers, 0, 10_000},
		{"dense_layers", p.DenseLayers, 0, p.Layers},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("%s: %d is outside %d to %d", f.name, f.v, f.min, f.max)
		}
	}
	if p.Groups > 1 && p.Experts%p.Groups != 0 {
		return fmt.Errorf("groups: %d experts do not divide into %d groups", p.Experts, p.Groups)
	}
	return nil
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
}
