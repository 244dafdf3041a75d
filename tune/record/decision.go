package record

import (
	"math"

	"github.com/go-json-experiment/json"

	"github.com/epbench/epbench/tune/ep"
)

// Verdict says how one config compares with another: with the default, unless
// the text beside it names another.
type Verdict string

const (
	Faster    Verdict = "faster"    // by more than the band, and the interval of the gain excludes 1
	Same      Verdict = "same"      // the interval of the gain lies inside the band
	Slower    Verdict = "slower"    // by more than the band, and the interval of the gain excludes 1
	Undecided Verdict = "undecided" // none of these can be said
)

// Verdicts lists every verdict in the order that tables count them.
func Verdicts() []Verdict { return []Verdict{Faster, Same, Slower, Undecided} }

// Interval is an estimate with its 95 % interval. Its ends are NaN where one
// round was all there was; JSON spells that null.
type Interval struct {
	Mid  float64 `json:"mid"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// interval is how JSON spells an Interval.
type interval struct {
	Mid  Loss `json:"mid"`
	Low  Loss `json:"low"`
	High Loss `json:"high"`
}

// MarshalJSON implements json.Marshaler.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal(interval{Loss(i.Mid), Loss(i.Low), Loss(i.High)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Interval) UnmarshalJSON(b []byte) error {
	var x interval
	err := json.Unmarshal(b, &x, strict)
	*i = Interval{float64(x.Mid), float64(x.Low), float64(x.High)}
	return err
}

// One is the interval of a ratio of something to itself.
var One = Interval{Mid: 1, Low: 1, High: 1}

// Half is half the interval's width.
func (i Interval) Half() float64 { return (i.High - i.Low) / 2 }

// Band is the least relative difference that a run calls a difference.
type Band struct {
	Policy float64 `json:"policy"` // what the measurement policy asks for
	AA     float64 `json:"aa"`     // A/A spread: what the default differs from itself by, here
}

// Width is the band itself: the larger of the policy's and the A/A spread.
func (b Band) Width() float64 { return max(b.Policy, b.AA) }

// Noisy reports whether the machine is too noisy for the policy: only what is many times
// larger than the A/A spread decides anything there.
func (b Band) Noisy() bool { return b.AA > b.Policy }

// Cause says why a comparison decides nothing.
type Cause string

const (
	HostBound Cause = "host-bound" // the default takes hardly longer than an empty kernel
	Noisy     Cause = "noisy"      // the A/A spread exceeds the policy's band, and may explain the gain
	Failed    Cause = "failed"     // a config that was needed did not run, or its answer was wrong
	NoDefault Cause = "no-default" // the default does not run, so nothing can be compared with it
)

var causes = []Cause{"", HostBound, Noisy, Failed, NoDefault}

// Decision is the one record of what won. stat.Decide and stat.Compare make
// it; terminal, summary, page, plots, tables and receipts read it.
type Decision struct {
	// Config is what to launch: the challenger where it is faster, else the
	// default. Where no choice is made (bench, table verify) it is the config
	// that was asked for.
	Config  ep.Config `json:"config"`
	Default ep.Config `json:"default"`
	Gain    Interval  `json:"gain"` // the default's time over Config's, in the same rounds

	// Challenger is the best config besides the default. It is the default
	// itself where nothing came close to it.
	Challenger     ep.Config `json:"challenger"`
	ChallengerGain Interval  `json:"challenger_gain"` // the default's time over the challenger's

	Band    Band    `json:"band"`
	Verdict Verdict `json:"verdict"` // how the challenger compares with the default
	Cause   Cause   `json:"cause,omitempty"`
	Reason  string  `json:"reason,omitempty"` // a sentence for people: the cause, or what to know about the verdict
	Rounds  int     `json:"rounds"`           // behind the gain

	// Sessions is how many sessions the rounds come from, none of which had a part in the
	// choice; 0 where all rounds are of one session.
	Sessions int `json:"sessions,omitempty"`

	// Crossed says that the config was chosen when the winners of all routings were
	// measured beside each other, and not by the search itself.
	Crossed bool `json:"crossed,omitempty"`
}

// KeepsDefault reports whether the default is what to launch.
func (d Decision) KeepsDefault() bool { return d.Config.Key() == d.Default.Key() }

// Usable reports whether a table may have a row that rests on the decision.
func (d Decision) Usable() bool { return d.Cause == "" || d.Cause == HostBound }

// Times sums up the rounds of one config: seconds of one call, the slowest
// rank of each round.
type Times struct {
	Median float64 `json:"median"`
	P10    float64 `json:"p10"`
	P90    float64 `json:"p90"`
}

// Search is what a run concludes about one problem under one routing. Its
// times come from rounds that had no part in the choice.
type Search struct {
	Problem  ep.Problem `json:"problem"`
	Routing  string     `json:"routing"`
	Class    ep.Class   `json:"class"` // of the routing
	Decision Decision   `json:"decision"`

	// Reference says what Decision.Default is where it is not the default, such as the
	// config of another table.
	Reference string `json:"reference,omitempty"`

	Clock       string  `json:"clock"`
	Times       Times   `json:"times"`         // of Decision.Config
	DefaultTime Times   `json:"default_times"` // of Decision.Default
	MaxErr      float64 `json:"max_err"`       // of Decision.Config against the oracle, see Result

	Tried  int `json:"tried"`  // distinct configs measured
	Legal  int `json:"legal"`  // configs of the space
	Ties   int `json:"ties"`   // finalists within the band of the fastest
	Failed int `json:"failed"` // configs that failed

	Beside *BesidePair `json:"beside,omitempty"` // where a product ran beside the calls

	// Pace is what measuring cost here.
	Pace Pace `json:"pace,omitzero"`

	// As is the dispatch dtype with which the space of a combine was searched, where that
	// is another one: here the winner of that search was measured beside the default.
	As ep.DType `json:"as,omitempty"`

	// Starts are the configs that were measured in any case, the default aside, in
	// order.
	Starts []Start `json:"starts,omitempty"`

	Bytes     int64   `json:"bytes"`     // moved by the busiest rank, one message a selection; of an activation to and from memory
	Imbalance float64 `json:"imbalance"` // the fullest rank's load over the mean
}

// Start is a config that a search measures in any case, and where it comes from.
type Start struct {
	Config ep.Config `json:"config"`
	From   Origin    `json:"from"`
}

// Origin says why a search begins with a config.
type Origin string

// The origins of starts.
const (
	FromModel     Origin = "model"     // an analytic choice
	FromKernel    Origin = "kernel"    // a design that its kernel names
	FromSpace     Origin = "space"     // the space file names it
	FromHalves    Origin = "halves"    // of a pair: the best of each half
	FromSearch    Origin = "search"    // another search chose it
	FromIncumbent Origin = "incumbent" // the row of the table in use
)

// OK reports whether the search compared anything.
func (s *Search) OK() bool { return s.Decision.Cause != Failed && s.Decision.Cause != NoDefault }

// Loss is what a config loses to the best one under a routing, as a ratio
// minus one. NaN means that it failed or was not measured there; JSON spells
// that null.
type Loss float64

// MarshalJSON implements json.Marshaler.
func (l Loss) MarshalJSON() ([]byte, error) {
	if f := float64(l); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Loss) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*l = Loss(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(l))
}

// Regret is the matrix of one problem: what each routing's config loses under
// each routing. stat.NewRegret makes it.
type Regret struct {
	Problem  ep.Problem  `json:"problem"`
	Routings []string    `json:"routings"` // columns
	Rows     []RegretRow `json:"rows"`     // one a routing, then the minimax row
}

// RegretRow is one config under every routing.
type RegretRow struct {
	Routing string    `json:"routing"` // that the config was tuned for; "all" in the minimax row
	Config  ep.Config `json:"config"`
	Loss    []Loss    `json:"loss"`  // [routing]
	Worst   Loss      `json:"worst"` // the largest, NaN where one is NaN
}
