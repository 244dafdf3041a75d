package table

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/epbench/epbench/tune/ep"
)

// Validate returns the first fault of a table. The error begins with the field's path, such as
// rows[3].key.ranks.
func (t *Table) Validate() error {
	if t.Schema != Schema {
		return fmt.Errorf("schema: %d, this version reads %d; use the epbench that wrote the table, or sweep again", t.Schema, Schema)
	}
	if err := t.Header.Validate(); err != nil {
		return fmt.Errorf("header.%w", err)
	}
	for i, r := range t.Rows {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("rows[%d].%w", i, err)
		}
	}
	return t.overlap()
}

// Validate returns the first fault of a header.
func (h Header) Validate() error {
	m := h.Machine
	for _, f := range []struct{ name, text string }{
		{"tool", h.Tool}, {"abi", string(h.ABI)}, {"space", h.Space}, {"policy", h.Policy}, {"trial_log", h.TrialLog}, {"hooks", h.Hooks},
		{"machine.backend", m.Backend}, {"machine.name", m.Name}, {"machine.pci_id", m.PCIID}, {"machine.arch", m.Arch},
		{"machine.link", m.Link}, {"machine.driver", m.Driver}, {"machine.cuda", m.CUDA},
	} {
		if err := checkText(f.name, f.text); err != nil {
			return err
		}
	}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("machine.%w", err)
	}
	if m.Backend == ep.Predicted {
		return fmt.Errorf("machine.backend: %s: a table holds measurements only; sweep on the machine itself", m.Backend)
	}
	if h.AA < 0 {
		return fmt.Errorf("aa: %g is negative", h.AA)
	}
	if h.Band < 0 {
		return fmt.Errorf("band: %g is negative", h.Band)
	}
	if h.MaxSMs < 0 {
		return fmt.Errorf("max_sms: %d is negative; 0 means no bound", h.MaxSMs)
	}
	for i, id := range h.Receipts {
		if err := checkText(fmt.Sprintf("receipts[%d]", i), id); err != nil {
			return err
		}
		if i > 0 && id <= h.Receipts[i-1] {
			return fmt.Errorf("receipts[%d]: ids must rise, %.12s does not", i, id)
		}
	}
	for i, f := range h.Fallback {
		if slices.Contains(h.Fallback[:i], f) {
			return fmt.Errorf("fallback: %s is listed twice", f)
		}
		if !slices.Contains(FallbackFields(), f) {
			return fmt.Errorf("fallback: %q must be equal in the row and in the look-up, so it cannot be a fallback field; use some of %s", f, strings.Join(FallbackFields(), ", "))
		}
	}
	return checkTime("created", h.Created)
}

// Validate returns the first fault of a row.
func (r Row) Validate() error {
	if err := r.Key.Validate(); err != nil {
		return fmt.Errorf("key.%w", err)
	}
	if err := r.Config.Validate(); err != nil {
		return fmt.Errorf("config.%w", err)
	}
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
	if err := checkText("abi", string(r.ABI)); err != nil {
		return err
	}
	if err := r.Evidence.Validate(); err != nil {
		return fmt.Errorf("evidence.%w", err)
	}
	return nil
}

// Validate returns the first fault of the evidence.
func (e Evidence) Validate() error {
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"median", e.Median}, {"p10", e.P10}, {"p90", e.P90},
		{"gain", e.Gain}, {"gain_low", e.GainLow}, {"gain_high", e.GainHigh},
		{"regret", e.Regret}, {"max_err", e.MaxErr}, {"rounds", float64(e.Rounds)},
		{"sessions", float64(e.Sessions)}, {"tried", float64(e.Tried)}, {"legal", float64(e.Legal)}, {"ties", float64(e.Ties)}, {"protocol", float64(e.Protocol)},
	} {
		if f.v < 0 || math.IsNaN(f.v) || math.IsInf(f.v, 0) {
			return fmt.Errorf("%s: %g is not a number from 0 up", f.name, f.v)
		}
	}
	for i, n := range e.Tokens {
		if n < 0 || n > ep.MaxTokens || i > 0 && n <= e.Tokens[i-1] {
			return fmt.Errorf("tokens: must rise within 0 to %d; %d breaks that", ep.MaxTokens, n)
		}
	}
	for i, n := range e.Between {
		if !slices.Contains(e.Tokens, n) || i > 0 && n <= e.Between[i-1] {
			return fmt.Errorf("between: must rise and list only measured token counts, %v; %d breaks that", e.Tokens, n)
		}
	}
	if e.TimedAt != 0 && !slices.Contains(e.Tokens, e.TimedAt) {
		return fmt.Errorf("timed_at: %d is not one of the measured token counts, %v", e.TimedAt, e.Tokens)
	}
	for _, s := range e.Routings {
		if err := checkText("routings", s); err != nil {
			return err
		}
	}
	if err := checkText("clock", e.Clock); err != nil {
		return err
	}
	return checkTime("date", e.Date)
}

// checkText refuses unprintable characters, because terminals show the text.
func checkText(field, s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return fmt.Errorf("%s: %.40q is not printable text", field, s)
	}
	return nil
}

func checkTime(field string, at time.Time) error {
	if at.Location() != time.UTC || at.Nanosecond() != 0 {
		return fmt.Errorf("%s: %s is not in UTC and whole seconds, like 2026-01-31T12:00:00Z", field, at.Format(time.RFC3339Nano))
	}
	return nil
}

func (t *Table) overlap() error {
	order := make([]int, len(t.Rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compareRows(t.Rows[i], t.Rows[j]) })
	for i := 1; i < len(order); i++ {
		a, b := min(order[i-1], order[i]), max(order[i-1], order[i])
		p, q := t.Rows[a], t.Rows[b]
		if p.Key == q.Key && p.Lo <= q.Hi && q.Lo <= p.Hi {
			return fmt.Errorf("rows[%d].lo: tokens %d to %d overlap rows[%d], which covers %d to %d of the same key",
				b, q.Lo, q.Hi, a, p.Lo, p.Hi)
		}
	}
	return nil
}
