package record

import "github.com/epbench/epbench/tune/ep"

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

	Clock       string  `json:"clock"`
	Times       Times   `json:"times"`         // of Decision.Config
	DefaultTime Times   `json:"default_times"` // of Decision.Default
	MaxErr      float64 `json:"max_err"`       // of Decision.Config against the oracle, see Result

	Tried  int `json:"tried"`  // distinct configs measured
	Legal  int `json:"legal"`  // configs of the space
	Ties   int `json:"ties"`   // finalists within the band of the fastest
	Failed int `json:"failed"` // configs that failed

	Bytes     int64   `json:"bytes"`     // moved by the busiest rank, one message a selection
	Imbalance float64 `json:"imbalance"` // the fullest rank's load over the mean
}

// OK reports whether the search compared anything.
func (s *Search) OK() bool { return s.Decision.Cause != Failed && s.Decision.Cause != NoDefault }
