package chart

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
)

// regret draws a matrix for every problem measured under several routings.
func regret(runs []*reports.Loaded, _ Options) []Figure {
	var out []Figure
	for _, l := range runs {
		for _, r := range l.Run.Regrets {
			p := r.Problem
			out = append(out, Figure{
				Name:  slug("regret", string(p.Op), string(p.Dispatch), fmt.Sprintf("t%d", p.Tokens)),
				Title: fmt.Sprintf("Time lost (%%): %s %s, %d tokens, tuned for one routing, run under another", p.Op, p.Dispatch, p.Tokens),
				Alt:   regretAlt(r),
				Width: 6.4 * vg.Inch, Height: vg.Length(1.9+0.34*float64(len(r.Rows))) * vg.Inch,
				draw: func(c draw.Canvas) { drawRegret(c, r) },
			})
		}
	}
	return distinct(out)
}

// worstShade is the loss at the dark end of the scale.
const worstShade = 0.25

func drawRegret(c draw.Canvas, r record.Regret) {
	rows := len(r.Rows)
	m := cells{cols: len(r.Routings), rows: rows}
	for i, row := range r.Rows {
		for j, l := range row.Loss {
			v := float64(l)
			q := cell{col: j, row: rows - 1 - i, value: math.NaN(), crossed: math.IsNaN(v), boxed: i == j}
			if !math.IsNaN(v) {
				q.value, q.text = math.Sqrt(min(v, worstShade)/worstShade), lossText(v)
			}
			m.list = append(m.list, q)
		}
	}
	var labels []string
	for _, row := range r.Rows {
		label := row.Routing
		if w := float64(row.Worst); !math.IsNaN(w) {
			label += " (worst " + lossText(w) + ")"
		}
		labels = append(labels, label)
	}
	slices.Reverse(labels)
	matrix(c, m, axisNames{"run under", r.Routings}, axisNames{"tuned for", labels})
}

func regretAlt(r record.Regret) string {
	s := fmt.Sprintf("Regret for %s, %d tokens. ", r.Problem.Op, r.Problem.Tokens)
	for _, row := range r.Rows {
		if w := float64(row.Worst); !math.IsNaN(w) {
			s += fmt.Sprintf("Tuned for %s: at worst %.1f%% lost. ", row.Routing, 100*w)
		}
	}
	return s
}
