package workloads

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/epbench/epbench/tune/ep"
)

// Preset is the shape of a model's expert layers. Widths are in elements.
type Preset struct {
	Name         string   `yaml:"name" json:"name"`
	Aliases      []string `yaml:"aliases" json:"aliases,omitempty"`
	Hidden       int      `yaml:"hidden" json:"hidden"`                       // width of the residual stream
	WireHidden   int      `yaml:"wire_hidden" json:"wire_hidden"`             // width of a sent token
	Intermediate int      `yaml:"intermediate" json:"intermediate"`           // width inside one expert
	Experts      int      `yaml:"experts" json:"experts"`                     // routed experts
	Shared       int      `yaml:"shared" json:"shared"`                       // experts for every token
	ZeroExperts  int      `yaml:"zero_experts" json:"zero_experts,omitempty"` // routed experts that return their input
	TopK         int      `yaml:"top_k" json:"top_k"`
	Groups       int      `yaml:"groups" json:"groups,omitempty"`           // 0 without group-limited routing
	GroupTopK    int      `yaml:"group_top_k" json:"group_top_k,omitempty"` // groups from which a token may select
	Layers       int      `yaml:"layers" json:"layers"`                     // 0 if unknown
	DenseLayers  int      `yaml:"dense_layers" json:"dense_layers"`         // first layers, without experts
	Source       string   `yaml:"source" json:"source"`
	Note         string   `yaml:"note" json:"note,omitempty"`
}

// HiddenOf returns Problem.Hidden for an op: Intermediate for an activation, otherwise WireHidden.
func (p Preset) HiddenOf(op ep.Op) int {
	if op == ep.Activation {
		return p.Intermediate
	}
	return p.WireHidden
}

//go:embed presets.yaml
var builtin string

var builtinPresets = sync.OnceValues(func() ([]Preset, error) {
	return ReadPresets(strings.NewReader(builtin))
})

// Presets lists the built-in presets in the order of their file.
func Presets() []Preset {
	ps, err := builtinPresets()
	if err != nil {
		panic("workloads: built-in presets: " + err.Error())
	}
	return slices.Clone(ps)
}

// FindPreset returns a built-in preset by name or alias, or reads the preset FILE.yaml:NAME. The
// NAME may be left out if FILE.yaml has one preset.
func FindPreset(name string) (Preset, error) {
	if file, rest, ok := cutYAML(name); ok {
		ps, err := LoadPresets(file)
		if err != nil {
			return Preset{}, err
		}
		if rest == "" && len(ps) == 1 {
			return ps[0], nil
		}
		return findPreset(ps, rest, file)
	}
	return findPreset(Presets(), name, "epbench presets")
}

func findPreset(ps []Preset, name, where string) (Preset, error) {
	var names []string
	for _, p := range ps {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p, nil
		}
		names = append(append(names, p.Name), p.Aliases...)
	}
	return Preset{}, fmt.Errorf("unknown preset %.60q%s; %s lists all %d presets", name, ep.DidYouMean(name, names, ""), where, len(ps))
}

func cutYAML(s string) (file, name string, ok bool) {
	for _, ext := range []string{".yaml", ".yml"} {
		if strings.HasSuffix(s, ext) {
			return s, "", true
		}
		if i := strings.LastIndex(s, ext+":"); i >= 0 {
			return s[:i+len(ext)], s[i+len(ext)+1:], true
		}
	}
	return "", "", false
}

const showsPresets = "epbench docs workloads shows a file of presets"

// LoadPresets reads a user's file of presets.
func LoadPresets(file string) ([]Preset, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, ep.FileError(file, err, showsPresets)
	}
	defer f.Close()
	ps, err := ReadPresets(f)
	return ps, ep.FileError(file, err, showsPresets)
}
