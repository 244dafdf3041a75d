package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestPercent: 3% and 0.03 mean the same, and 3 is refused.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		err  string
	}{
		{"3%", 0.03, ""}, {"0.03", 0.03, ""}, {" 3 % ", 0.03, ""}, {"0.5%", 0.005, ""}, {"50%", 0.5, ""}, {"0.5", 0.5, ""}, {"1e-2", 0.01, ""},
		{"3", 0, `"3" could mean 3 % or 300 %; write 3% or 0.03`},
		{"1", 0, `"1" could mean 1 % or 100 %; write 1% or 0.01`},
		{"1.5", 0, `"1.5" could mean 1.5 % or 150 %; write 1.5% or 0.015`},
		{"300", 0, `"300" is outside 0% to 50%`}, {"300%", 0, `"300%" is outside 0% to 50%`}, {"0.6", 0, "outside"}, {"60%", 0, "outside"},
		{"0", 0, "outside"}, {"0%", 0, "outside"}, {"-1%", 0, "outside"}, {"-0.1", 0, "outside"}, {"inf", 0, "outside"},
		{"nan", 0, "is not a percentage"}, {"NaN%", 0, "is not a percentage"}, {"", 0, "is not a percentage"}, {"%", 0, "is not a percentage"}, {"three", 0, "is not a percentage"}, {"3%%", 0, "is not a percentage"},
	} {
		got := 0.0
		p := &percentValue{share: &got, most: maxBand}
		err := p.Set(c.text)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || got != 0 {
				t.Errorf("%q: %v, %v; want %q", c.text, got, err, c.err)
			}
			continue
		}
		if err != nil || math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%q: %v, %v; want %v", c.text, got, err, c.want)
		}
		again := 0.0
		if err := (&percentValue{share: &again, most: maxBand}).Set(p.String()); err != nil || math.Abs(again-got) > 1e-12 {
			t.Errorf("%q is recorded as %q and read as %v, %v", c.text, p, again, err)
		}
	}
}

// TestEveryPercent: every flag for a percentage refuses 3.
func TestEveryPercent(t *testing.T) {
	seen := map[string]int{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"band", "fail-on", "noise"}, f.Name) {
				return
			}
			seen[f.Name]++
			if err := cmd.ParseFlags([]string{"--" + f.Name + "=3"}); err == nil || !strings.Contains(err.Error(), "write 3% or 0.03") {
				t.Errorf("%s --%s=3: %v", cmd.CommandPath(), f.Name, err)
			}
		})
	}
	visit(newRoot(&bytes.Buffer{}, &bytes.Buffer{}))
	if seen["band"] < 6 || seen["fail-on"] < 3 || seen["noise"] != 1 {
		t.Errorf("found flags %v, want at least 6 --band, 3 --fail-on and 1 --noise", seen)
	}
}

// TestResumedBand: --resume reads a recorded --band=3 as 3 %. Runs of epbench before v0.1.0 contain --band=3.
func TestResumedBand(t *testing.T) {
	for _, text := range []string{"--band=3", "--band=3%"} {
		f, err := resumed([]string{"epbench", "sweep", text})
		if err != nil || math.Abs(f.band-0.03) > 1e-15 {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
	}
}
