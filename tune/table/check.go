package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// checked is a part of a table that knows its own bounds. The error starts
// with the name of the field.
type checked interface{ Validate() error }

// Validate reports the first thing wrong with a table: a value out of bounds
// or two rows that cover the same tokens of the same key.
func (t *Table) Validate() error {
	if err := t.checkSchema(); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if err := t.Header.Validate(); err != nil {
		return fmt.Errorf("header.%w", err)
	}
	for i, r := range t.Rows {
		for _, part := range []struct {
			name string
			checked
		}{{"key.", r.Key}, {"config.", r.Config}, {"evidence.", r.Evidence}, {"", r}} {
			if err := part.Validate(); err != nil {
				return fmt.Errorf("rows[%d].%s%w", i, part.name, err)
			}
		}
	}
	if a, b, ok := t.overlap(); ok {
		return overlapError(t.Rows, a, b)
	}
	return nil
}

func (t *Table) checkSchema() error {
	if t.Schema != Schema {
		return fmt.Errorf("%d, this build reads 1 and %d; use the epbench that wrote the table", t.Schema, Schema)
	}
	return nil
}

func (h Header) Validate() error {
	if h.AA < 0 {
		return fmt.Errorf("aa: %g is negative", h.AA)
	}
	if h.MaxSMs < 0 {
		return fmt.Errorf("max_sms: %d is below 0, which is no bound", h.MaxSMs)
	}
	for i, f := range h.Fallback {
		if slices.Contains(h.Fallback[:i], f) {
			return fmt.Errorf("fallback: %s is listed twice", f)
		}
		if !slices.Contains(FallbackFields(), f) {
			return fmt.Errorf("fallback: %q may not differ, use some of %s", f, strings.Join(FallbackFields(), ", "))
		}
	}
	return nil
}

func (r Row) Validate() error {
	switch {
	case r.Lo < 0:
		return fmt.Errorf("lo: %d is negative", r.Lo)
	case r.Hi > ep.MaxTokens:
		return fmt.Errorf("hi: %d is above %d", r.Hi, ep.MaxTokens)
	case r.Lo > r.Hi:
		return fmt.Errorf("lo: %d is above hi %d", r.Lo, r.Hi)
	case r.Config.IsDefault() && !r.Default:
		return fmt.Errorf("config: has no kernel; a row that keeps the default says \"default\": true")
	}
	return nil
}

func (e Evidence) Validate() error {
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"median", e.Median}, {"p10", e.P10}, {"p90", e.P90}, {"gain", e.Gain},
		{"gain_low", e.GainLow}, {"gain_high", e.GainHigh}, {"regret", e.Regret},
		{"max_err", e.MaxErr}, {"rounds", float64(e.Rounds)}, {"tried", float64(e.Tried)}, {"legal", float64(e.Legal)}, {"ties", float64(e.Ties)},
	} {
		if f.v < 0 || math.IsNaN(f.v) || math.IsInf(f.v, 0) {
			return fmt.Errorf("%s: %g is not a number from 0 up", f.name, f.v)
		}
	}
	for i, n := range e.Tokens {
		if n < 0 || n > ep.MaxTokens || i > 0 && n <= e.Tokens[i-1] {
			return fmt.Errorf("tokens: must rise from 0 to %d, %d does not", ep.MaxTokens, n)
		}
	}
	return nil
}

// overlap finds two rows that cover the same tokens of the same key. It does
// not disturb the order of the rows.
func (t *Table) overlap() (a, b int, found bool) {
	order := make([]int, len(t.Rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compareRows(t.Rows[i], t.Rows[j]) })
	for i := 1; i < len(order); i++ {
		p, q := t.Rows[order[i-1]], t.Rows[order[i]]
		if p.Key == q.Key && q.Lo <= p.Hi {
			return min(order[i-1], order[i]), max(order[i-1], order[i]), true
		}
	}
	return 0, 0, false
}

func overlapError(rows []Row, a, b int) error {
	return fmt.Errorf("rows[%d].lo: tokens %d to %d overlap rows[%d], which covers %d to %d of the same key",
		b, rows[b].Lo, rows[b].Hi, a, rows[a].Lo, rows[a].Hi)
}
