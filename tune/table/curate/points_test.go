package curate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// TestSearchOutranksACountBetween: at 90 tokens a row was timed without a search. It loses there to the rows that were
// searched at 32 and 128 tokens.
func TestSearchOutranksACountBetween(t *testing.T) {
	at := func(lo, hi, threads int, tokens, between []int) table.Row {
		r := row(ep.Even, lo, hi, threads)
		r.Evidence.Tokens, r.Evidence.Between = tokens, between
		return r
	}
	wide := sealed(at(1, 90, 128, []int{1, 90}, []int{90}), at(91, 8192, 256, []int{8192}, nil))
	dense := sealed(at(1, 5, 512, []int{1}, nil), at(6, 63, 640, []int{32, 63}, []int{63}), at(64, 8192, 768, []int{128, 8192}, nil))
	lone := sealed(at(1, 50, 128, []int{1}, nil), at(51, 200, 512, []int{90}, []int{90}), at(201, 8192, 256, []int{8192}, nil))
	strong := sealed(at(1, 4096, 128, []int{1, 90}, []int{90}), at(4097, 8192, 256, []int{8192}, nil))
	strong.Rows[0].Evidence.Gain, strong.Rows[0].Evidence.GainLow, strong.Rows[0].Evidence.GainHigh = 4, 3.9, 4.1
	ends := sealed(at(1, 8192, 512, []int{1, 8192}, nil))
	for _, c := range []struct {
		name          string
		old, newcomer *table.Table
		want          string
	}{
		{"the dense table comes first", dense, wide, "1-5 512, 6-63 640, 64-8192 768"},
		{"the wide table comes first", wide, dense, "1-5 128, 6-63 640, 64-1024 768, 1025-8192 256"},
		{"a row that has only the count between stays", lone, sealed(at(60, 128, 768, []int{100}, nil)), "1-50 128, 51-94 512, 95-200 768, 201-8192 256"},
		{"the other table was timed at the count too, and does not list it in Between", sealed(at(1, 8192, 640, []int{1, 90, 8192}, nil)), strong,
			"1-858 128, 859-8192 640"},
		{"no search lies between", ends, wide, "1-9 512, 10-90 128, 91-8192 512"},
	} {
		m, _ := mergedBy(t, c.old, c.newcomer, Rule{Band: 0.01})
		var got []string
		for _, r := range m.Rows {
			got = append(got, fmt.Sprintf("%d-%d %d", r.Lo, r.Hi, r.Config.Int("threads")))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %s, want %s", c.name, strings.Join(got, ", "), c.want)
		}
	}
}
