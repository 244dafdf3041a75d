package reports

import (
	"math"
	"slices"

	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// roundID identifies a round. Times of the same round can be compared.
type roundID struct {
	stage  record.Stage
	Number int // as in Result.Round0
}

// Timed holds the time of an entry in one round.
type Timed struct {
	roundID
	Seconds float64

	session, block int
}

// levels sets Entry.Level: the median without the drift that all entries of a round share (stat.Polish).
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

// deciding lists the stages that measure a config after it was chosen. The most reliable stage comes first.
var deciding = []record.Stage{record.StageSession, record.StageConfirm}

// pickDecidingRounds sets Times and Median. It uses the rounds of the first stage in `deciding` that measured the
// entry. If none of these stages did, it uses the rounds of all stages. It uses rounds of the A/A test
// (the default against itself) only if no other stage measured the entry.
func (e *Entry) pickDecidingRounds() {
	searched, last := false, len(deciding)
	for _, b := range e.Blocks {
		if i := slices.Index(deciding, b.Stage); i >= 0 && len(b.Seconds) > 0 {
			last = min(last, i)
		}
		searched = searched || b.Stage != record.StageAA
	}
	e.Fresh = last < len(deciding)
	all := e.AllRounds()
	e.Times, e.rounds = make([]float64, 0, len(all)), make([]Timed, 0, len(all))
	for _, r := range all {
		if e.Fresh && r.stage != deciding[last] || searched && r.stage == record.StageAA {
			continue
		}
		e.Times, e.rounds = append(e.Times, r.Seconds), append(e.rounds, r)
	}
	e.Median = stat.MedianInterval(e.Times)
}

// Ratio estimates the time of e divided by the time of `other`. It is NaN if the entries have no common rounds.
func (e *Entry) Ratio(other *Entry) stat.Estimate {
	if e == other {
		return stat.Exactly(len(e.rounds))
	}
	return stat.Ratio(common(e, other)...)
}

// independentRatio estimates the ratio to an entry of another run. If an entry has only one session, independentRatio
// takes `between` as the relative standard deviation between sessions.
func (e *Entry) independentRatio(other *Entry, between float64) stat.Estimate {
	return stat.IndependentRatio(e.bySession(), other.bySession(), between)
}

func (e *Entry) bySession() (out [][]float64) {
	session := 0
	for i, r := range e.rounds {
		if r.Seconds <= 0 {
			continue
		}
		if i == 0 || out == nil || r.session != session {
			out, session = append(out, nil), r.session
		}
		out[len(out)-1] = append(out[len(out)-1], math.Log(r.Seconds))
	}
	return out
}

func common(a, b *Entry) []stat.Part {
	if parts := matched(a.rounds, b.rounds); len(parts) > 0 {
		return parts
	}
	return matched(a.AllRounds(), b.AllRounds())
}

func matched(a, b []Timed) (out []stat.Part) {
	index := make(map[roundID]float64, len(b))
	for _, r := range b {
		index[r.roundID] = r.Seconds
	}
	var last Timed
	for _, r := range a {
		t := index[r.roundID]
		if t <= 0 || r.Seconds <= 0 {
			continue
		}
		if out == nil || r.session != last.session || r.stage == record.StageSession && r.block != last.block {
			out = append(out, stat.Part{Session: r.session})
		}
		last = r
		p := &out[len(out)-1]
		p.A, p.B = append(p.A, math.Log(r.Seconds)), append(p.B, math.Log(t))
	}
	return out
}

// Ratios returns the time of e divided by the time of `other`, for each common round.
func (e *Entry) Ratios(other *Entry) []float64 {
	var out []float64
	for _, p := range common(e, other) {
		for i := range p.A {
			out = append(out, math.Exp(p.A[i]-p.B[i]))
		}
	}
	return out
}

// AllRounds lists the entry's rounds of all stages.
func (e *Entry) AllRounds() []Timed {
	n := 0
	for _, b := range e.Blocks {
		n += len(b.Seconds)
	}
	out := make([]Timed, 0, n)
	for _, b := range e.Blocks {
		for i, t := range b.Rounds() {
			out = append(out, Timed{roundID{b.Stage, b.Round0 + i}, t, b.SessionID(), b.Block})
		}
	}
	return out
}
