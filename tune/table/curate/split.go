package curate

import (
	"slices"

	"github.com/epbench/epbench/tune/table"
)

// Timing holds the times and the gain of a row's config at one token count.
type Timing struct {
	Median, P10, P90        float64 // seconds of one call
	Gain, GainLow, GainHigh float64
	Rounds, Sessions        int
	MaxErr                  float64
}

// Split divides a row that was measured at several token counts into parts, each with its own times. `timed` returns
// the times at one token count. Its ok is false if the times are unknown. A token count with unknown times joins the
// part of the next smaller count.
func Split(t *table.Table, timed func(r table.Row, tokens int) (Timing, bool)) *table.Table {
	out := *t
	out.Rows = nil
	for _, r := range t.Rows {
		out.Rows = append(out.Rows, split(r, timed)...)
	}
	return &out
}

func split(r table.Row, timed func(r table.Row, tokens int) (Timing, bool)) []table.Row {
	var parts []table.Row
	for _, n := range r.Evidence.Tokens {
		at, ok := timed(r, n)
		own := n == r.Evidence.TimedAt
		if last := len(parts) - 1; last >= 0 {
			if !ok && !own {
				parts[last].Evidence.Tokens = append(parts[last].Evidence.Tokens, n)
				continue
			}
			tokens := parts[last].Evidence.Tokens
			parts[last].Hi = table.Midpoint(tokens[len(tokens)-1], n)
		}
		part := r
		if ok && !own {
			part.Evidence = at.applyTo(r.Evidence)
		}
		part.Evidence.Tokens = []int{n}
		if part.Hi = r.Hi; len(parts) > 0 {
			part.Lo = parts[len(parts)-1].Hi + 1
		}
		parts = append(parts, part)
	}
	if len(parts) < 2 {
		return []table.Row{r}
	}
	for i := range parts {
		parts[i].Evidence = settled(parts[i].Evidence, r.Evidence)
	}
	return parts
}

func (t Timing) applyTo(e table.Evidence) table.Evidence {
	e.Median, e.P10, e.P90, e.Rounds, e.Sessions, e.MaxErr = t.Median, t.P10, t.P90, t.Rounds, t.Sessions, t.MaxErr
	e.Gain, e.GainLow, e.GainHigh = t.Gain, t.GainLow, t.GainHigh
	return e
}

func settled(part, whole table.Evidence) table.Evidence {
	part.Between = nil
	for _, n := range whole.Between {
		if slices.Contains(part.Tokens, n) {
			part.Between = append(part.Between, n)
		}
	}
	if part.TimedAt = 0; len(part.Tokens) > 1 {
		part.TimedAt = part.Tokens[0]
	}
	return part
}
