package chart

import (
	"bytes"
	"strings"
	"testing"
)

func TestPredictedSaysSo(t *testing.T) {
	f := Predicted("128 tokens", "model.yaml", []Forecast{
		{"dispatch", "a, uniform", 8, 18, "fixed cost"},
		{"dispatch", "a, uniform", 2048, 163, "network bytes"},
		{"combine", "a, uniform", 8, 29, "fixed cost"},
	})
	var b bytes.Buffer
	if err := f.Write(&b, "svg", DefaultScale); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Predicted, not measured: 128 tokens", "predicted by model.yaml", "predicted time of one call (us)",
		"dispatch, a, uniform: EP8 18 us (fixed cost), EP2048 163 us (network bytes)", "combine, a, uniform: EP8 29 us", "limit: network bytes",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}
