package reports

import (
	"math"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// roundID names a round. Entries with the same one were measured side by side.
type roundID struct {
	stage record.Stage
	round int
}

// levels makes entries comparable that were measured at different times. What
// all entries of a round share is taken out (stat.Polish); the rest is scaled to
// the default's median. Without a default the level is the median.
func (c *Case) levels() {
	var obs []stat.Obs
	index := map[roundID]int{}
	base := -1
	for i, e := range c.Entries {
		e.Level = e.Median.Mid
		if !e.timed() {
			continue
		}
		if e.Role == record.Default {
			base = i
		}
		times, rounds := e.everything()
		for k, id := range rounds {
			if _, ok := index[id]; !ok {
				index[id] = len(index)
			}
			if times[k] > 0 {
				obs = append(obs, stat.Obs{Item: i, Round: index[id], Log: math.Log(times[k])})
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

// sumUp picks the deciding rounds of an entry: those of the confirmation where
// there are any, else all but those of the A/A test. A twin has no others.
func (e *Entry) sumUp() {
	searched := false
	for _, b := range e.Blocks {
		e.Fresh = e.Fresh || b.Stage == record.StageConfirm && len(b.Seconds) > 0
		searched = searched || b.Stage != record.StageAA
	}
	for _, b := range e.Blocks {
		if e.Fresh && b.Stage != record.StageConfirm || searched && b.Stage == record.StageAA {
			continue
		}
		for i, t := range b.Rounds() {
			e.Times = append(e.Times, t)
			e.rounds = append(e.rounds, roundID{b.Stage, b.Round0 + i})
		}
	}
	e.Median = stat.MedianInterval(e.Times)
}

// Ratio is the time of e over the time of other in the rounds that have both,
// with a bootstrap interval over rounds; NaN without such rounds.
func (e *Entry) Ratio(other *Entry) record.Interval {
	mine, theirs := common(e, other)
	if len(mine) == 0 {
		return unknown
	}
	return stat.MedianRatio(mine, theirs, 1)
}

// common returns the logarithms of both entries' times in the rounds they
// share: their deciding rounds, or all rounds where only one was confirmed.
func common(a, b *Entry) (la, lb []float64) {
	la, lb = matched(a.Times, a.rounds, b.Times, b.rounds)
	if len(la) > 0 {
		return la, lb
	}
	at, ar := a.everything()
	bt, br := b.everything()
	return matched(at, ar, bt, br)
}

func matched(at []float64, ar []roundID, bt []float64, br []roundID) (la, lb []float64) {
	index := make(map[roundID]float64, len(br))
	for i, id := range br {
		index[id] = bt[i]
	}
	for i, id := range ar {
		if t, ok := index[id]; ok && t > 0 && at[i] > 0 {
			la, lb = append(la, math.Log(at[i])), append(lb, math.Log(t))
		}
	}
	return la, lb
}

// Ratios are the times of e over the times of other, in the rounds they share.
func (e *Entry) Ratios(other *Entry) []float64 {
	mine, theirs := common(e, other)
	for i := range mine {
		mine[i] = math.Exp(mine[i] - theirs[i])
	}
	return mine
}

// Timed is one round of an entry.
type Timed struct {
	Number  int // as in Result.Round0
	Seconds float64
}

// AllRounds lists every round of the entry, of all stages.
func (e *Entry) AllRounds() []Timed {
	times, rounds := e.everything()
	out := make([]Timed, len(times))
	for i := range times {
		out[i] = Timed{rounds[i].round, times[i]}
	}
	return out
}

func (e *Entry) everything() (times []float64, rounds []roundID) {
	for _, b := range e.Blocks {
		for i, t := range b.Rounds() {
			times = append(times, t)
			rounds = append(rounds, roundID{b.Stage, b.Round0 + i})
		}
	}
	return times, rounds
}
