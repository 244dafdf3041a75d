package record

import (
	"math"

	"github.com/go-json-experiment/json"

	"github.com/epbench/epbench/tune/ep"
)

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
