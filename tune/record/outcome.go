package record

import (
	"github.com/epbench/epbench/tune/ep"
)

// Outcome is what a sweep concluded of one problem under one routing. Times
// are seconds of one call by rounds that had no part in the choice.
type Outcome struct {
	Problem     ep.Problem `json:"problem"`
	Routing     string     `json:"routing"`
	Class       ep.Class   `json:"class"`   // of the routing
	Verdict     string     `json:"verdict"` // faster, default, incumbent, host-bound, noisy or failed
	Reason      string     `json:"reason,omitempty"`
	Config      ep.Config  `json:"config"`  // the choice
	Default     ep.Config  `json:"default"` // what nobody tuned
	Clock       string     `json:"clock"`
	Median      float64    `json:"median"` // of the choice
	P10         float64    `json:"p10"`
	P90         float64    `json:"p90"`
	DefaultTime float64    `json:"default_median"`
	Rounds      int        `json:"rounds"`
	Gain        float64    `json:"gain"` // time of default / time of the choice
	GainLo      float64    `json:"gain_lo"`
	GainHi      float64    `json:"gain_hi"`
	AA          float64    `json:"aa"`          // spread of the default against itself
	Ties        int        `json:"ties"`        // finalists within the band of the fastest
	Evaluations int        `json:"evaluations"` // distinct configs measured
	Legal       int        `json:"legal"`       // points of the space
	Bytes       int64      `json:"bytes"`       // moved by the busiest rank
	Imbalance   float64    `json:"imbalance"`   // largest load of a rank's experts over the mean
	Quarantined int        `json:"quarantined"` // configs that failed
	MaxErr      float64    `json:"max_err"`     // of the choice against the oracle, see Result
}

// Verdicts of an outcome.
const (
	Faster     = "faster"     // the choice beats the default beyond noise and band
	KeepsBest  = "default"    // nothing beats the default
	KeepsTable = "incumbent"  // nothing beats what the table says
	HostBound  = "host-bound" // launch parameters cannot matter here
	Noisy      = "noisy"      // the A/A spread exceeds the band
	Failed     = "failed"     // it does not run, or gives wrong answers
	Slower     = "slower"     // bench only: the config given loses to the default
	Tie        = "tie"        // bench only: neither beats the other beyond the band
)
