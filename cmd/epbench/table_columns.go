package main

import (
	"fmt"
	"strings"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// keyColumns are the columns of a row's key; what rarely differs goes first
// when the terminal is narrow.
func keyColumns() []reports.Column {
	return []reports.Column{
		reports.Words("op"), reports.Words("mode").Dropped(9).Keyed(), reports.Words("format").Dropped(3).Keyed(),
		reports.Numbers("ranks", "").Dropped(5).Keyed(), reports.Numbers("nodes", "").Dropped(10).Keyed(),
		reports.Numbers("hidden", "").Dropped(6).Keyed(), reports.Numbers("experts", "").Dropped(7).Keyed(),
		reports.Numbers("topk", "").Dropped(8).Keyed(), reports.Words("extras").Dropped(4).Keyed(), reports.Words("routing"),
	}
}

func keyCells(k table.Key) []reports.Cell {
	var extras []string
	if k.SharedExpert {
		extras = append(extras, "shared-expert")
	}
	if k.SkipA2A {
		extras = append(extras, "skip-a2a")
	}
	if k.Precision == ep.Reduced {
		extras = append(extras, "reduced")
	}
	return []reports.Cell{
		reports.Str(string(k.Op)), reports.Str(string(k.Mode)), reports.Str(string(k.Dispatch)),
		reports.Int(k.Ranks), reports.Int(k.Nodes), reports.Int(k.Hidden), reports.Int(k.Experts),
		reports.Int(k.TopK), reports.Str(strings.Join(extras, " ")), reports.Str(string(k.Routing)),
	}
}

// spanText is a stretch of token counts.
func spanText(lo, hi int) string {
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d-%d", lo, hi)
}

// choiceText is what a row tells a runtime to do.
func choiceText(r *table.Row) string {
	switch {
	case r == nil:
		return ""
	case r.Default && r.Config.IsDefault():
		return "default"
	case r.Default:
		return "default (" + r.Config.Key() + ")"
	}
	return r.Config.Key()
}

// gainColumns are the gain over the default and its 95 % interval, as sweep
// prints them.
func gainColumns() []reports.Column {
	return []reports.Column{reports.Numbers("gain", "x"), reports.Numbers("from", "x").Dropped(3), reports.Numbers("to", "x").Dropped(2)}
}

func gainCells(r *table.Row) []reports.Cell {
	if r == nil {
		return []reports.Cell{reports.None(), reports.None(), reports.None()}
	}
	e := r.Evidence
	return []reports.Cell{reports.Float(e.Gain, 3), reports.Float(e.GainLow, 3), reports.Float(e.GainHigh, 3)}
}

// gainText is a row's gain over the default with its interval.
func gainText(r *table.Row) string {
	if r == nil {
		return ""
	}
	e := r.Evidence
	return fmt.Sprintf("%.3f [%.3f, %.3f]", e.Gain, e.GainLow, e.GainHigh)
}

// evidenceText is why a row says what it says, in one cell.
func evidenceText(r *table.Row) string {
	if r == nil {
		return ""
	}
	e := r.Evidence
	tokens := strings.Trim(fmt.Sprint(e.Tokens), "[]")
	text := fmt.Sprintf("gain %s, measured at %s tokens, %d rounds, %d tried, %d ties", gainText(r), tokens, e.Rounds, e.Tried, e.Ties)
	if !e.Complete {
		text += ", space not exhausted"
	}
	if r.Key.Routing == ep.AllRoutings {
		text += fmt.Sprintf(", regret %.1f %% over %s", 100*e.Regret, strings.Join(e.Routings, " "))
	}
	return text
}

// sweepCommand is what would tune a key at a token count.
func sweepCommand(k table.Key, tokens int) string {
	c := fmt.Sprintf("epbench sweep --op %s --mode %s --ranks %d --nodes %d --hidden %d --experts %d --topk %d --dtype %s --tokens %d",
		k.Op, k.Mode, k.Ranks, k.Nodes, k.Hidden, k.Experts, k.TopK, k.Dispatch, tokens)
	if k.SharedExpert {
		c += " --shared-expert"
	}
	if k.SkipA2A {
		c += " --skip-a2a"
	}
	if k.Precision == ep.Reduced {
		c += " --precision reduced"
	}
	return c
}
