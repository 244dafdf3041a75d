package reports

import (
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// roundID identifies a round. Times with the same one were measured side by side.
type roundID struct {
	stage  record.Stage
	Number int // as in Result.Round0
}

// Timed is one round of an entry.
type Timed struct {
	roundID
	Seconds float64
}

// levels makes entries comparable that were measured at different times. It removes what all
// entries of a round share (stat.Polish) and scales the rest to the default's median.
// Without a default, level is the median.
func (c *Case) levels() {
	var obs []stat.Obs
	index := map[roundID]int{}
	base := -1
	for i, e := range c.Entries {
		e.Level = e.Median.Mid
		if !e.Timed() {
			continue
		}
		if e.Role == record.Default {
			base = i
		}
		for _, r := range e.AllRounds() {
			if _, ok := index[r.roundID]; !ok {
				index[r.roundID] = len(index)
			}
			if r.Seconds > 0 {
				obs = append(obs, stat.Obs{Item: i, Round: index[r.roundID], Log: math.Log(r.Seconds)})
			}
		}
	}
	if base < 0 {
		return
	}
	items, _ := stat.Polish(obs, base)
	for i, item := range items {
		if !math.IsNaN(item) {
			c.Entries[i].Level = math.Exp(item-items[base]) * c.Entries[base].Median.Mid
		}
	}
}

// deciding lists the stages whose rounds had no part in choosing the config, the best first.
var deciding = []record.Stage{record.StageSession, record.StageConfirm}

// pickDecidingRounds sets Times and Median from further sessions, else from the confirmation,
// else from all rounds except the A/A test; a twin has only A/A rounds.
func (e *Entry) pickDecidingRounds() {
	searched, last := false, len(deciding)
	for _, b := range e.Blocks {
		if i := slices.Index(deciding, b.Stage); i >= 0 && len(b.Seconds) > 0 {
			last = min(last, i)
		}
		searched = searched || b.Stage != record.StageAA
	}
	e.Fresh = last < len(deciding)
	for _, r := range e.AllRounds() {
		if e.Fresh && r.stage != deciding[last] || searched && r.stage == record.StageAA {
			continue
		}
		e.Times, e.rounds = append(e.Times, r.Seconds), append(e.rounds, r)
	}
	e.Median = stat.MedianInterval(e.Times)
}

// Ratio returns the time of e over the time of other in the rounds that have both, with its
// interval; NaN without such rounds.
func (e *Entry) Ratio(other *Entry) record.Interval {
	mine, theirs := common(e, other)
	if len(mine) == 0 {
		return noInterval
	}
	return stat.MedianRatio(mine, theirs)
}

// common returns the logarithms of both entries' times in the rounds that they share: among
// deciding rounds, else among all.
func common(a, b *Entry) (la, lb []float64) {
	if la, lb = matched(a.rounds, b.rounds); len(la) > 0 {
		return la, lb
	}
	return matched(a.AllRounds(), b.AllRounds())
}

func matched(a, b []Timed) (la, lb []float64) {
	index := make(map[roundID]float64, len(b))
	for _, r := range b {
		index[r.roundID] = r.Seconds
	}
	for _, r := range a {
		if t := index[r.roundID]; t > 0 && r.Seconds > 0 {
			la, lb = append(la, math.Log(r.Seconds)), append(lb, math.Log(t))
		}
	}
	return la, lb
}

// Ratios returns the times of e over the times of other, in the rounds that they share.
func (e *Entry) Ratios(other *Entry) []float64 {
	mine, theirs := common(e, other)
	for i := range mine {
		mine[i] = math.Exp(mine[i] - theirs[i])
	}
	return mine
}

// AllRounds lists every round of the entry, of all stages.
func (e *Entry) AllRounds() []Timed {
	var out []Timed
	for _, b := range e.Blocks {
		for i, t := range b.Rounds() {
			out = append(out, Timed{roundID{b.Stage, b.Round0 + i}, t})
		}
	}
	return out
}
