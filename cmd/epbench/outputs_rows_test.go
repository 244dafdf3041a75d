package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

func checkPictures(say sayer, facts *record.Run, all map[string]picture) {
	for _, x := range facts.Searches {
		if !x.OK() {
			continue
		}
		d := x.Decision
		label := d.Config.Difference(d.Default)
		median := fmt.Sprintf("%.4g", x.Times.Median*1e6)
		of := func(kind string) string { return kind + "-" + pictureName(x.Problem, x.Routing) }
		if p, ok := all[of("heatmap")]; ok {
			_, rest, _ := strings.Cut(p.description, "the winner has ")
			for _, pair := range strings.Split(strings.TrimSuffix(rest, "."), " and ") {
				name, value, _ := strings.Cut(pair, "=")
				if string(d.Config.Values[name]) != value {
					say("heatmap: %s: the winner has %s, want %s", of(""), pair, d.Config.Key())
				}
			}
		}
		if p, ok := all[of("pareto")]; ok && !strings.Contains(p.description, "The winner is "+label+",") {
			say("pareto: %s: %s, want winner %s", of(""), p.description, label)
		}
		p := all[of("samples")]
		_, rest, _ := strings.Cut(p.description, "winner "+d.Config.ID()+": "+label+": median ")
		if us, _, ok := strings.Cut(rest, " us"); !ok || !closeTo(us, x.Times.Median*1e6) {
			say("samples: %s: %s, want winner %s of %s us", of(""), p.description, label, median)
		}
		if !inLatency(all, x) {
			say("latency: no picture has %s us for %s", median, caseKey(x.Problem, x.Routing))
		}
	}
	for _, r := range facts.Regrets {
		p := all["regret-"+pictureName(r.Problem, "")]
		for _, row := range r.Rows {
			words := fmt.Sprintf("Winner of %s (%s): ", row.Routing, row.Config.ID())
			drawn := ""
			for i, l := range row.Loss {
				words += fmt.Sprintf("%s under %s, ", percent1(l), r.Routings[i])
				if !math.IsNaN(float64(l)) {
					drawn += percent1(l) + " "
				}
			}
			words += "worst " + percent1(row.Worst) + "."
			if !strings.Contains(p.description, words) || !strings.Contains(p.drawn, drawn) {
				say("regret: %s: %s drawn as %s, want %s", pictureName(r.Problem, ""), p.description, p.drawn, words)
			}
		}
	}
}

func percent1(l record.Loss) string {
	if math.IsNaN(float64(l)) {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*float64(l))
}

func closeTo(text string, value float64) bool { return shownTables{}.same(text, value, 0) }

func pictureName(p ep.Problem, routing string) string {
	parts := []string{string(p.Op), string(p.Dispatch), fmt.Sprintf("t%d", p.Tokens)}
	if p.Precision != ep.Full {
		parts = append(parts, p.Precision.String())
	}
	if routing != "" {
		parts = append(parts, strings.NewReplacer(":", "-", "+", "-").Replace(routing))
	}
	return strings.Join(parts, "-")
}

// inLatency reports whether a latency picture shows the time of search x.
func inLatency(all map[string]picture, x record.Search) bool {
	label := x.Routing
	if x.Problem.Precision == ep.Reduced {
		label += ", reduced precision"
	}
	for name, p := range all {
		if !strings.HasPrefix(name, "latency-"+string(x.Problem.Op)+"-") {
			continue
		}
		_, line, found := strings.Cut(p.description, ". "+label+": ")
		line, _, _ = strings.Cut(line, " tokens. ")
		for _, point := range strings.Split(line, ", ") {
			if us, ok := strings.CutSuffix(point, fmt.Sprintf(" us at %d", x.Problem.Tokens)); found && ok {
				return closeTo(us, x.Times.Median*1e6)
			}
		}
	}
	return false
}

func checkRows(say sayer, facts *record.Run, tuned *table.Table) {
	for _, r := range tuned.Rows {
		for _, tokens := range r.Evidence.Tokens {
			if r.Key.Routing == ep.AllRoutings {
				checkAll(say, facts, r, tokens)
				continue
			}
			if of := searchesOf(facts, r, tokens); len(of) == 1 && launched(r, of[0].Decision.Default).Key() != of[0].Decision.Config.Key() {
				say("%s, %d tokens: config %s, want %s", r.Key, tokens, r.Config.Key(), of[0].Decision.Config.Key())
			}
		}
		checkGain(say, facts, r)
	}
	for _, s := range facts.Searches {
		if s.Decision.Usable() && !slices.ContainsFunc(tuned.Rows, func(r table.Row) bool {
			return r.Key == table.KeyOf(s.Problem, s.Class) && r.Lo <= s.Problem.Tokens && s.Problem.Tokens <= r.Hi
		}) {
			say("no row for %s", caseKey(s.Problem, s.Routing))
		}
	}
}

func launched(r table.Row, dflt ep.Config) ep.Config {
	if r.Default {
		return dflt
	}
	return r.Config
}

func searchesOf(facts *record.Run, r table.Row, tokens int) (out []record.Search) {
	for _, s := range facts.Searches {
		class := s.Class
		if r.Key.Routing == ep.AllRoutings {
			class = ep.AllRoutings
		}
		if s.Problem.Tokens == tokens && s.Decision.Usable() && table.KeyOf(s.Problem, class) == r.Key {
			out = append(out, s)
		}
	}
	return out
}

// checkAll compares a row of class "all" with the minimax row of the regret matrix.
func checkAll(say sayer, facts *record.Run, r table.Row, tokens int) {
	for _, m := range facts.Regrets {
		if m.Problem.Tokens != tokens || table.KeyOf(m.Problem, ep.AllRoutings) != r.Key {
			continue
		}
		minimax := m.Rows[len(m.Rows)-1]
		if minimax.Config.Key() != launched(r, defaultOf(facts, m.Problem)).Key() {
			say("%s, %d tokens: config %s, want the minimax config %s", r.Key, tokens, r.Config.Key(), minimax.Config.Key())
		}
		if float64(minimax.Worst) > r.Evidence.Regret*(1+1e-9) {
			say("%s, %d tokens: regret %v, but the minimax row loses %v", r.Key, tokens, r.Evidence.Regret, minimax.Worst)
		}
	}
}

// checkGain: a row's gain is the smallest of its searches' gains, or smaller if the row was also measured without a
// search.
func checkGain(say sayer, facts *record.Run, r table.Row) {
	least := record.Interval{Mid: math.Inf(1)}
	whole := true
	for _, tokens := range r.Evidence.Tokens {
		of := searchesOf(facts, r, tokens)
		if whole = whole && len(of) == 1; len(of) == 1 && of[0].Decision.Gain.Mid < least.Mid {
			least = of[0].Decision.Gain
		} else if len(of) > 1 {
			return
		}
	}
	e := r.Evidence
	switch {
	case whole && (e.Gain != least.Mid || e.GainLow != least.Low || e.GainHigh != least.High):
		say("%s, %v tokens: gain %v (%v to %v), want %+v", r.Key, e.Tokens, e.Gain, e.GainLow, e.GainHigh, least)
	case e.Gain > least.Mid:
		say("%s, %v tokens: the row has gain %v, but a search has only %v", r.Key, e.Tokens, e.Gain, least.Mid)
	}
}

func checkPageRows(say sayer, tuned *table.Table, rows []line) {
	if len(rows) != len(tuned.Rows) {
		say("%d rows, but table.json has %d", len(rows), len(tuned.Rows))
		return
	}
	for i, r := range tuned.Rows {
		l, e := rows[i], r.Evidence
		if l["class"] != string(r.Key.Routing) || l["from"] != fmt.Sprint(r.Lo) || l["to"] != fmt.Sprint(r.Hi) ||
			!r.Default && l["id"] != r.Config.ID() || r.Default && l["config"] != "default" {
			say("row %d is %v, want %s, %d to %d tokens, %s", i, l, r.Key, r.Lo, r.Hi, r.Config.Key())
		}
		low, high := e.GainLow, e.GainHigh
		if claimed(e) == record.One {
			low, high = math.NaN(), math.NaN()
		}
		for name, want := range map[string]float64{"gain": e.Gain, "low": low, "high": high, "regret": 100 * e.Regret, "median": e.Median * 1e6} {
			if !closeTo(l[name], want) {
				say("row %d: %s %s, want %v", i, name, l[name], want)
			}
		}
	}
}
