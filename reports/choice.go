package reports

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/stat"
)

// TieBand is the relative difference below which two configurations are as
// fast as each other: the cheaper one is taken, and the default stays.
const TieBand = 0.01

// Choice is what a case says to ship.
type Choice struct {
	Entry   *Entry        // what to launch
	Fastest *Entry        // the lowest median, Entry itself unless a tie was broken
	Ties    int           // entries within the band of the fastest, itself included
	Gain    stat.Interval // time of the default over that of Entry; NaN when unknown
}

// Choose is what the sweep concluded where it did. Else it picks the fastest
// entry, or what ties with it and takes fewer SMs, then threads; the default
// stays unless it is beaten by the band. ok is false when nothing of ours has
// times.
func (c *Case) Choose() (choice Choice, ok bool) {
	if !c.chose {
		c.choice, c.choiceOK = c.choose()
		c.chose = true
	}
	return c.choice, c.choiceOK
}

func (c *Case) choose() (choice Choice, ok bool) {
	best := c.Best()
	if best == nil {
		return Choice{}, false
	}
	if e := c.concluded(); e != nil {
		o := c.Outcome
		return Choice{Entry: e, Fastest: best, Ties: o.Ties, Gain: stat.Interval{Mid: o.Gain, Lo: o.GainLo, Hi: o.GainHi}}, true
	}
	var tied []*Entry
	for _, e := range c.Entries {
		if e.OK() && e.Role != record.Twin && e.Role != record.Peer && e.Fresh == best.Fresh && e.Level <= best.Level*(1+TieBand) {
			tied = append(tied, e)
		}
	}
	choice = Choice{Entry: slices.MinFunc(tied, cheaper), Fastest: best, Ties: len(tied)}
	d := c.Default()
	if d != nil && slices.Contains(tied, d) {
		choice.Entry = d
	}
	choice.Gain = gainOver(d, choice.Entry)
	return choice, true
}

// concluded is the entry that the sweep settled on, nil when it did not.
func (c *Case) concluded() *Entry {
	if c.Outcome == nil {
		return nil
	}
	key := c.Outcome.Config.Key()
	for _, e := range c.Entries {
		if e.Key == key && e.OK() && e.Role != record.Twin && e.Role != record.Peer {
			return e
		}
	}
	return nil
}

func gainOver(d, e *Entry) stat.Interval {
	switch {
	case d == e:
		return stat.Interval{Mid: 1, Lo: 1, Hi: 1}
	case d != nil && d.OK():
		return d.Ratio(e)
	}
	nan := math.NaN()
	return stat.Interval{Mid: nan, Lo: nan, Hi: nan}
}

// KeptDefault reports whether the default is what to ship.
func (c Choice) KeptDefault() bool { return c.Entry.Role == record.Default }

// cheaper orders entries that tie on time.
func cheaper(a, b *Entry) int {
	return cmp.Or(
		cmp.Compare(SMs(a.Config), SMs(b.Config)),
		cmp.Compare(largest(a.Config, "threads"), largest(b.Config, "threads")),
		cmp.Compare(a.Level, b.Level),
		cmp.Compare(a.Key, b.Key))
}

// SMs is the number of SMs a configuration occupies, of workers on a CPU; 0
// when it does not say. The halves of a pair run one after the other, so that
// the larger counts.
func SMs(c ep.Config) int { return max(largest(c, "sms"), largest(c, "blocks")) }

// largest is the greatest value of the parameters called name in either half.
func largest(c ep.Config, name string) int {
	n := 0
	for full := range c.Values {
		if full == name || strings.HasSuffix(full, "."+name) {
			n = max(n, c.Int(full))
		}
	}
	return n
}
