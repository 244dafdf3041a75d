package workloads

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

func TestPresets(t *testing.T) {
	ps := Presets()
	if len(ps) != 41 {
		t.Errorf("%d presets, want demo and 40 models", len(ps))
	}
	for _, p := range ps {
		if got, err := FindPreset(p.Name); err != nil || got.Experts != p.Experts {
			t.Errorf("%s: %v", p.Name, err)
		}
		q := p.Problem(1)
		if err := q.Validate(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if p.Source == "" {
			t.Errorf("%s has no source", p.Name)
		}
	}
	v3, err := FindPreset("deepseek-r1")
	if err != nil || v3.Name != "deepseek-v3" || v3.Hidden != 7168 || v3.GroupTopK != 4 {
		t.Errorf("deepseek-r1 is %+v, %v", v3, err)
	}
}

func TestPresetHazards(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-oss-120b":     "no fp8: hidden: 2880 is not a multiple of 128",
		"kimi-k3":          "ranks send 3584 elements of a token, not 7168",
		"nemotron-3-super": "top-22 is more than the 8",
		"longcat-flash":    "+masked:0.333",
		"glm-4.5":          "160 experts do not divide by 64 ranks; use 1, 2, 4, 5, 8, 10, 16, 20, 32, 40, 80, 160",
		"mixtral-8x7b":     "one expert each",
		"gemma-4-26b-a4b":  "from memory",
		"demo":             "",
	} {
		p, err := FindPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.Hazards(), "\n"); !strings.Contains(got, want) || want == "" && strings.Contains(got, "no ") {
			t.Errorf("%s: hazards %q, want %q", name, got, want)
		}
	}
}

func TestUserPresets(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, "p.yaml")
		testfile.Write(t, path, text)
		return path
	}
	path := write("- {name: mine, hidden: 4096, experts: 64, top_k: 6}\n")
	for _, name := range []string{path, path + ":mine"} {
		if p, err := FindPreset(name); err != nil || p.WireHidden != 4096 || p.TopK != 6 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for text, want := range map[string]string{
		"":                         "empty",
		"[]":                       "empty",
		"name: x":                  "presets:",
		"- {name: a, hiden: 1}":    "hiden",
		"- {name: a, name: b}":     "already defined",
		"- {name: 'a b'}":          "has no space",
		"- {name: a, hidden: 8}":   "experts: 0 is outside 1",
		"- {hidden: 8}":            "name:",
		"- {name: a, hidden: -1}":  "hidden: -1 is outside 1",
		"- {name: a, hidden: 1.5}": "presets:",
		"- {name: a, hidden: 8, experts: 8, top_k: 2}\n- {name: a, hidden: 8, experts: 8, top_k: 2}": "defined twice",
		"- {name: a, hidden: 8, experts: 4, top_k: 5}":                                               "top_k: 5 is outside 1 to 4",
		"- {name: a, hidden: 8, experts: 9, top_k: 5, groups: 2, group_top_k: 1}":                    "do not divide into 2 groups",
		strings.Repeat(" ", maxPresetBytes+1):                                                        "larger than",
	} {
		_, err := FindPreset(write(text) + ":a")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: error %v, want one line with %q", text, err, want)
		}
	}
	write("- {name: mine, hidden: 4096, experts: 64, top_k: 6}\n")
	for name, want := range map[string]string{"deepseek-v5": "did you mean deepseek-v3?", "nothing.yaml": "no such file", path + ":other": "lists all 1"} {
		if _, err := FindPreset(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

func FuzzReadPresets(f *testing.F) {
	f.Add("- {name: mine, hidden: 4096, experts: 64, top_k: 6}\n")
	f.Add("- &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		ps, err := ReadPresets(strings.NewReader(text))
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("%q", err)
		}
		for _, p := range ps {
			p.Hazards()
		}
	})
}
