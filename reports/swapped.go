package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// Swapped compares a config that was chosen on one machine with the default and the winner of another machine.
type Swapped struct {
	Problem ep.Problem
	Routing string
	Seed    uint64 // of the other machine's search
	Config  ep.Config
	Default ep.Config // of the other machine

	// Gain is (time of Default / time of Config) on the other machine, NaN if unknown.
	Gain record.Interval
	// Loss is (time of Config / time of the other machine's winner).
	Loss    record.Interval
	Same    bool           // both searches chose Config
	Rounds  int            // of Gain; 0 if Config is Default
	Verdict record.Verdict // of Config against Default
	Reason  string         // why there is no verdict
}

// Swap judges the decisions in `chosen` by the times in `on`, another machine's searches. A combine can have several
// searches, one for each dtype of the dispatch. Only one of them is complete. If another search did not measure the
// config, Swap takes the config's times from the complete search.
func Swap(chosen, on []*record.Recording) []Swapped {
	type id struct {
		problem ep.Problem
		routing string
	}
	at := map[id]*record.Recording{}
	for _, r := range on {
		if r.Search.Decision.Usable() {
			at[id{r.Search.Problem, r.Search.Routing}] = r
		}
	}
	var out []Swapped
	for _, r := range chosen {
		s := &r.Search
		if there := at[id{s.Problem, s.Routing}]; there != nil && s.Decision.Usable() {
			c := swappedTo(there, s.Decision)
			searched := there.Search.Problem
			searched.Dispatch = there.Search.SiblingDType
			if whole := at[id{searched, s.Routing}]; c.Reason != "" && whole != nil {
				c = swappedTo(whole, s.Decision)
				c.Problem = s.Problem
			}
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Swapped) int {
		return cmp.Or(compareShape(a.Problem, b.Problem), cmp.Compare(a.Routing, b.Routing), cmp.Compare(a.Problem.Tokens, b.Problem.Tokens))
	})
	return out
}

func swappedTo(there *record.Recording, d record.Decision) Swapped {
	own := there.Search.Decision
	c := Swapped{Problem: there.Search.Problem, Routing: there.Search.Routing, Seed: there.Seed, Config: d.Config, Default: own.Default}
	if d.KeepsDefault() {
		c.Config = own.Default
	}
	switch {
	case c.Config.Key() == own.Default.Key():
		c.Gain = record.One
	case c.Config.Key() == own.Config.Key():
		c.Gain, c.Rounds = own.Gain, own.Rounds
	default:
		c.Gain, c.Rounds, c.Reason = gainIn(there, c.Config)
	}
	c.Loss = quotient(own.Gain, c.Gain)
	if c.Same = c.Config.Key() == own.Config.Key(); c.Same {
		c.Loss = record.One
	}
	if c.Verdict = stat.Judge(c.Gain, own.Band.Width()); c.Reason != "" {
		c.Verdict = record.Undecided
	}
	return c
}

const fewestRounds = 3

func gainIn(r *record.Recording, cfg ep.Config) (gain record.Interval, rounds int, reason string) {
	none := record.Interval{Mid: math.NaN(), Low: math.NaN(), High: math.NaN()}
	var mine, base map[int]float64
	for i := range r.Points {
		p := &r.Points[i]
		switch {
		case p.Config.Key() == cfg.Key() && p.Status != ep.OK:
			return none, 0, fmt.Sprintf("its status on the other machine is %s", p.Status)
		case p.Config.Key() == cfg.Key():
			mine = logsOf(p)
		case p.Config.Key() == r.Search.Decision.Default.Key():
			base = logsOf(p)
		}
	}
	if mine == nil {
		return none, 0, "not measured on the other machine"
	}
	var a, b []float64
	for _, round := range sortedRounds(mine) {
		if t, ok := base[round]; ok {
			a, b = append(a, t), append(b, mine[round])
		}
	}
	if len(a) < fewestRounds {
		return none, len(a), fmt.Sprintf("only %d rounds with the default on the other machine, an interval needs %d", len(a), fewestRounds)
	}
	return stat.PairedRatio(a, b), len(a), ""
}

func logsOf(p *record.Point) map[int]float64 {
	out := map[int]float64{}
	for _, stretch := range p.Rounds {
		round0, seconds := record.SecondsOf(stretch)
		for k, t := range seconds {
			out[round0+k] = math.Log(t)
		}
	}
	return out
}

func sortedRounds(times map[int]float64) []int {
	out := make([]int, 0, len(times))
	for round := range times {
		out = append(out, round)
	}
	slices.Sort(out)
	return out
}

func quotient(a, b record.Interval) record.Interval {
	mid := math.Log(a.Mid / b.Mid)
	half := math.Hypot(math.Log(a.High/a.Low), math.Log(b.High/b.Low)) / 2
	return record.Interval{Mid: math.Exp(mid), Low: math.Exp(mid - half), High: math.Exp(mid + half)}
}

// SwappedTable lists gains and losses. `slower` is the number of winners that are slower than the default on machine
// `on`.
func SwappedTable(all []Swapped, from, on string) (t Table, slower int) {
	cases := make([]*Case, len(all))
	for i, c := range all {
		cases[i] = &Case{Problem: c.Problem, Routing: c.Routing, Seed: c.Seed}
	}
	p := ColumnsFor(cases)
	t = Table{Name: "swapped", Title: fmt.Sprintf("Winners of %s, in %s", from, on), Columns: append(p.Columns, ConfigColumns()...)}
	t.Columns = append(t.Columns, Numbers("gain", "x"), Numbers("low", "x").Dropped(3), Numbers("high", "x").Dropped(4), Words("default"),
		Numbers("loss", "%"), Numbers("loss low", "%").Dropped(1), Numbers("loss high", "%").Dropped(2), Numbers("rounds", "").Dropped(5), Words("reason"))
	var losses []float64
	same := 0
	for i, c := range all {
		if c.Same {
			same++
		}
		cells := append(p.Cells(cases[i]), ConfigCells(c.Config, c.Default)...)
		t.Add(append(cells, Float(c.Gain.Mid, 3), Float(c.Gain.Low, 3), Float(c.Gain.High, 3), Str(string(c.Verdict)).Marked(verdictMarks[c.Verdict]),
			Percent(c.Loss.Mid-1), Percent(c.Loss.Low-1), Percent(c.Loss.High-1), Int(c.Rounds), Str(c.Reason))...)
		if c.Verdict == record.Slower {
			slower++
		}
		if !math.IsNaN(c.Loss.Mid) {
			losses = append(losses, 100*(c.Loss.Mid-1))
		}
	}
	t.Note(p.Shared, fmt.Sprintf("gain: the default's time divided by the config's, in the same rounds of %s; default: the verdict of the config against the default of %[1]s", on),
		fmt.Sprintf("loss: per cent by which the config takes longer than the winner of %s; low, high: 95 %% intervals", on))
	t.Note(swappedSummary(len(all), same, losses, slower))
	return t, slower
}

func swappedSummary(cases, same int, losses []float64, slower int) string {
	if len(losses) == 0 {
		return fmt.Sprintf("%d cases, none of them measured on both machines", cases)
	}
	return fmt.Sprintf("%d cases, the same winner in %d of them; %d cases were measured on both machines: half of them lose at most %.1f %%, nine in ten at most %.1f %%, the worst case %.1f %%; in %d cases the config is slower than the default",
		cases, same, len(losses), stat.Quantile(losses, 0.5), stat.Quantile(losses, 0.9), stat.Quantile(losses, 1), slower)
}
