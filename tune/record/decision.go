package record

import (
	"fmt"
	"math"

	"github.com/go-json-experiment/json"

	"github.com/epbench/epbench/tune/ep"
)

// Verdict says how a config compares with another config, usually the default. It follows from the gain's 95 %
// interval and the band (see Band).
type Verdict string

const (
	Faster    Verdict = "faster"    // faster by more than the band, and the interval excludes 1
	Same      Verdict = "same"      // the whole interval is inside the band
	Slower    Verdict = "slower"    // slower by more than the band, and the interval excludes 1
	Undecided Verdict = "undecided" // none of these
)

// Verdicts lists every verdict.
func Verdicts() []Verdict { return []Verdict{Faster, Same, Slower, Undecided} }

// Interval is an estimate with its 95 % interval. If there was only one round, Low and High are NaN (null in JSON).
type Interval struct {
	Mid  float64 `json:"mid"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

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

// One is the gain of a config over itself.
var One = Interval{Mid: 1, Low: 1, High: 1}

// Half returns half the interval's width.
func (i Interval) Half() float64 { return (i.High - i.Low) / 2 }

// Band is the relative difference up to which two times count as equal.
type Band struct {
	Policy float64 `json:"policy"` // from the measurement policy
	AA     float64 `json:"aa"`     // A/A spread: the default measured against itself
}

// Width returns the larger of the policy's band and the A/A spread.
func (b Band) Width() float64 { return max(b.Policy, b.AA) }

// String returns the width and its source.
func (b Band) String() string {
	if b.Noisy() {
		return fmt.Sprintf("%.1f %% (A/A spread; the policy's band is %.1f %%)", 100*b.AA, 100*b.Policy)
	}
	return fmt.Sprintf("%.1f %% (policy; the A/A spread is %.1f %%)", 100*b.Policy, 100*b.AA)
}

// Short returns String in fewer words.
func (b Band) Short() string {
	if b.Noisy() {
		return fmt.Sprintf("%.1f%% A/A", 100*b.AA)
	}
	return fmt.Sprintf("%.1f%% policy", 100*b.Policy)
}

// Noisy reports whether the A/A spread exceeds the policy's band.
func (b Band) Noisy() bool { return b.AA > b.Policy }

// Cause says why a comparison decides nothing.
type Cause string

const (
	HostBound Cause = "host-bound" // hardly slower than an empty kernel
	Noisy     Cause = "noisy"      // the A/A spread exceeds the policy's band
	Failed    Cause = "failed"     // a config that the comparison needs failed
	NoDefault Cause = "no-default" // the default does not run
)

var causes = []Cause{"", HostBound, Noisy, Failed, NoDefault}

// Decision records what won. stat.Decide and stat.Compare make it.
type Decision struct {
	// Config is the config to launch: the challenger if it is faster, otherwise the default. For `bench` and
	// `table verify` it is the requested config.
	Config  ep.Config `json:"config"`
	Default ep.Config `json:"default"`
	Gain    Interval  `json:"gain"` // the default's time divided by Config's

	// Challenger is the best config besides the default, or the default if no other config ran.
	Challenger     ep.Config `json:"challenger"`
	ChallengerGain Interval  `json:"challenger_gain"` // default's time divided by challenger's

	Band    Band    `json:"band"`
	Verdict Verdict `json:"verdict"` // the challenger against the default
	Cause   Cause   `json:"cause,omitempty"`
	Reason  string  `json:"reason,omitempty"` // a sentence for people
	Rounds  int     `json:"rounds"`           // rounds from which Gain was computed

	// Sessions is the number of sessions that ran after the config was chosen. 0 means that all rounds are from the
	// same session.
	Sessions int `json:"sessions,omitempty"`

	// Crossed is true if the config won the search under another routing, and is faster here, too.
	Crossed bool `json:"crossed,omitempty"`
}

// KeepsDefault reports whether the decision is to launch the default.
func (d Decision) KeepsDefault() bool { return d.Config.Key() == d.Default.Key() }

// Usable reports whether a table row may be made from the decision.
func (d Decision) Usable() bool { return d.Cause == "" || d.Cause == HostBound }

// Times summarizes the rounds of one config. The time of a round is the slowest rank's, in seconds per call.
type Times struct {
	Median float64 `json:"median"`
	P10    float64 `json:"p10"`
	P90    float64 `json:"p90"`
}

// Search holds the results for one problem under one routing. Its times come from rounds that ran after the config was
// chosen.
type Search struct {
	Problem  ep.Problem `json:"problem"`
	Routing  string     `json:"routing"`
	Class    ep.Class   `json:"class"`
	Decision Decision   `json:"decision"`

	// Reference is set if Decision.Default is another config than the kernel's default. It says where this config
	// comes from.
	Reference string `json:"reference,omitempty"`

	Clock        string  `json:"clock"`
	Times        Times   `json:"times"`
	DefaultTimes Times   `json:"default_times"`
	MaxErr       float64 `json:"max_err"` // of Decision.Config, see Result.MaxErr

	Tried  int `json:"tried"` // distinct configs measured
	Legal  int `json:"legal"` // legal configs in the space
	Ties   int `json:"ties"`  // finalists within the band of the fastest
	Failed int `json:"failed"`

	Beside *BesidePair `json:"beside,omitempty"` // times beside a matrix product; nil without --beside

	Pace Pace `json:"pace,omitzero"`

	// SiblingDType is set if this combine was already searched after a dispatch of another dtype. It is that dtype. Then
	// this search measured only Starts and the default.
	SiblingDType ep.DType `json:"as,omitempty"`

	// Starts lists the configs that the search always measures.
	Starts []Start `json:"starts,omitempty"`

	// Designs lists, for each kernel, the parameters that select an algorithm. The search treats two values of such a
	// parameter like two kernels.
	Designs map[string][]string `json:"designs,omitempty"`

	Bytes     int64   `json:"bytes"`     // bytes that the busiest rank moves
	Imbalance float64 `json:"imbalance"` // fullest rank's load divided by the mean
}

// Start is a config that a search always measures.
type Start struct {
	Config ep.Config `json:"config"`
	From   Origin    `json:"from"`
}

// Origin says why a search begins with a config.
type Origin string

const (
	FromModel     Origin = "model"     // a formula chose it
	FromKernel    Origin = "kernel"    // its kernel suggests it
	FromSpace     Origin = "space"     // the space file names it
	FromHalves    Origin = "halves"    // best dispatch and best combine, joined
	FromSearch    Origin = "search"    // another search chose it
	FromIncumbent Origin = "incumbent" // the table in use has it
)

// OK reports whether the search compared anything.
func (s *Search) OK() bool { return s.Decision.Cause != Failed && s.Decision.Cause != NoDefault }

// Loss is a config's time divided by the best time under a routing, minus 1. If the config has no time, Loss is NaN,
// and null in JSON.
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

// Regret shows, for one problem, how much a config that was tuned for one routing loses under the other routings.
type Regret struct {
	Problem  ep.Problem  `json:"problem"`
	Routings []string    `json:"routings"` // columns
	Rows     []RegretRow `json:"rows"`     // one for each routing, and one for the config with the smallest Worst
}

// RegretRow is one config under every routing.
type RegretRow struct {
	Routing string    `json:"routing"` // the config was tuned for it; "all" for the config with the smallest Worst
	Config  ep.Config `json:"config"`
	Loss    []Loss    `json:"loss"`  // [routing]
	Worst   Loss      `json:"worst"` // NaN if any loss is NaN
}
