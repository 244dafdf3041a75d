package chart

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// regret draws how much each routing's winner loses under the other routings.
func regret(runs []*reports.Loaded, _ Options) []Figure {
	var out []Figure
	for _, l := range runs {
		for _, r := range l.Run.Regrets {
			p := r.Problem
			out = append(out, Figure{
				Name:  slug("regret", problemSlug(p)),
				Title: fmt.Sprintf("Regret (%%): %s %s, %s", reports.OpTitle(p.Op, p.Precision), p.Dispatch, ep.Tokens(p.Tokens)),
				Alt:   regretAlt(r), Source: sourceOf(l), Lead: l.Run.Rehearsal(),
				Width: 6.4 * vg.Inch, Height: vg.Length(1.9+0.34*float64(len(r.Rows))) * vg.Inch,
				draw: func(c draw.Canvas) { drawRegret(c, r) },
			})
		}
	}
	return out
}

// worstShade is the smallest regret that gets the darkest colour.
const worstShade = 0.25

func drawRegret(c draw.Canvas, r record.Regret) {
	rows := len(r.Rows)
	m := matrix{cols: len(r.Routings), rows: rows}
	for i, row := range r.Rows {
		for j, l := range row.Loss {
			v := float64(l)
			q := cell{col: j, row: rows - 1 - i, value: math.NaN(), crossed: math.IsNaN(v), boxed: i == j}
			if !math.IsNaN(v) {
				q.value, q.text = math.Sqrt(min(v, worstShade)/worstShade), reports.Percent(v).Text
			}
			m.list = append(m.list, q)
		}
	}
	var labels []string
	for _, row := range r.Rows {
		label := row.Routing
		if w := float64(row.Worst); !math.IsNaN(w) {
			label += " (worst " + reports.Percent(w).Text + ")"
		}
		labels = append(labels, label)
	}
	slices.Reverse(labels)
	drawMatrix(c, m, axisNames{"launched under", r.Routings}, axisNames{"winner of", labels})
}

func regretAlt(r record.Regret) string {
	s := fmt.Sprintf("Regret of %s, %s, in per cent. ", reports.OpTitle(r.Problem.Op, r.Problem.Precision), ep.Tokens(r.Problem.Tokens))
	for _, row := range r.Rows {
		s += fmt.Sprintf("Winner of %s (%s): ", row.Routing, row.Config.ID())
		for i, l := range row.Loss {
			s += fmt.Sprintf("%s under %s, ", reports.Percent(float64(l)).Text, r.Routings[i])
		}
		s += "worst " + reports.Percent(float64(row.Worst)).Text + ". "
	}
	return s
}
