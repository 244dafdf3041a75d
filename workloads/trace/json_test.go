package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestJSONNumbers puts white space and other members anywhere.
func TestJSONNumbers(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		layers, experts := rapid.IntRange(1, 3).Draw(t, "layers"), rapid.IntRange(1, 4).Draw(t, "experts")
		space := rapid.StringMatching(`[ \t\n]{0,2}`)
		var want []int64
		text := "["
		for l := range layers {
			text += space.Draw(t, "space") + "[" + space.Draw(t, "space")
			for e := range experts {
				n := rapid.Int64Range(0, 1<<40).Draw(t, "count")
				if l == layers-1 {
					want = append(want, n)
				}
				text += fmt.Sprint(n) + space.Draw(t, "space")
				if e < experts-1 {
					text += ","
				}
			}
			text += "]" + space.Draw(t, "space")
			if l < layers-1 {
				text += ","
			}
		}
		text += "]"
		if rapid.Bool().Draw(t, "object") {
			text = `{"a\"]": {"b": ["]}", 1, null]}, "logical_count" :` + text + ` , "x": true}`
		}
		s, err := scan(writeText(dir, text), Options{Kind: Counts, Layer: layers - 1})
		for len(want) > 0 && want[len(want)-1] == 0 {
			want = want[:len(want)-1]
		}
		if len(want) == 0 && err != nil && strings.Contains(err.Error(), "nothing was recorded") {
			return
		}
		got := s.Counts
		for len(got) > 0 && got[len(got)-1] == 0 {
			got = got[:len(got)-1]
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %v, %v, want %v", text, got, err, want)
		}
	})
}

func TestJSONShapes(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`[[1],2]`:                     "numbers and arrays side by side",
		`[1,[2]]`:                     "numbers and arrays side by side",
		`[[[1]],[2]]`:                 "numbers and arrays side by side",
		`[[1,2],[3]]`:                 "arrays of 2 and of 1 elements",
		`[[[1],[2]],[[3]]]`:           "arrays of 2 and of 1 elements",
		`[1,"2"]`:                     "in the place of a number",
		`[true]`:                      "in the place of a number",
		`{"counts":[1],"counts":[2]}`: "given twice",
		`{"counts":{"a":[1]}}`:        "no array with a name that recorders give",
	} {
		if _, err := scan(writeText(dir, text), noLayer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func writeText(dir, text string) string {
	name := filepath.Join(dir, "f.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		panic(err)
	}
	return name
}
