package ep

import (
	"fmt"
	"slices"
)

// BesideRounds is what rounds beside a product were: seconds by round and rank, of one
// call and of the share of the product that belongs to it.
type BesideRounds struct {
	Call      [][]float64 `json:"call"`       // a call alone
	Product   [][]float64 `json:"product"`    // the product alone
	Both      [][]float64 `json:"both"`       // both, from the start of the first to the end of the last
	CallIn    [][]float64 `json:"call_in"`    // a call while the product runs; of split phases the two halves without what lies between
	ProductIn [][]float64 `json:"product_in"` // the product while calls run
	Done      [][]float64 `json:"done"`       // share of the product that was done when the last call ended, 0 to 1
	Amount    string      `json:"amount"`     // what one share of the product is, in words

	// Base is the product alone as costs count it, by round and rank: see ShareBase.
	// Without it costs count Product.
	Base [][]float64 `json:"base,omitempty"`
}

// LeastCost is what a smaller cost counts as, seconds. A cost is the difference of two
// measured times and may come out below zero; the ratios that decide need a time.
const LeastCost = 100e-9

// Alone is the product alone as costs count it, by round and rank, seconds.
func (t *BesideRounds) Alone() [][]float64 {
	if len(t.Base) > 0 {
		return t.Base
	}
	return t.Product
}

// Cost is what a call costs, by round and rank, seconds: the time of both less the
// product alone, at least LeastCost.
func (t *BesideRounds) Cost() [][]float64 {
	out, alone := make([][]float64, len(t.Both)), t.Alone()
	for i, ranks := range t.Both {
		out[i] = make([]float64, len(ranks))
		for r, both := range ranks {
			out[i][r] = max(both-alone[i][r], LeastCost)
		}
	}
	return out
}

// Seconds are the times that an objective makes small.
func (t *BesideRounds) Seconds(o Objective) [][]float64 {
	if o == Beside {
		return t.Cost()
	}
	return t.Call
}

// fields are the arrays by their JSON names.
func (t *BesideRounds) fields() map[string]*[][]float64 {
	return map[string]*[][]float64{"call": &t.Call, "product": &t.Product, "both": &t.Both,
		"call_in": &t.CallIn, "product_in": &t.ProductIn, "done": &t.Done}
}

// Append adds the rounds of u.
func (t *BesideRounds) Append(u *BesideRounds) {
	if len(t.Base)+len(u.Base) > 0 {
		t.Base = slices.Concat(t.Alone(), u.Alone())
	}
	more := u.fields()
	for name, have := range t.fields() {
		*have = append(*have, *more[name]...)
	}
	t.Amount = u.Amount
}

// Validate wants so many rounds and ranks in every array, and times that can be. Base may
// be missing.
func (t *BesideRounds) Validate(rounds, ranks int) error {
	for _, name := range []string{"call", "product", "both", "call_in", "product_in", "done"} {
		if err := validate(name, *t.fields()[name], rounds, ranks); err != nil {
			return err
		}
	}
	return validate("base", t.Alone(), rounds, ranks)
}

func validate(name string, rows [][]float64, rounds, ranks int) error {
	if len(rows) != rounds {
		return fmt.Errorf("beside.%s: %d rounds, want %d", name, len(rows), rounds)
	}
	for i, row := range rows {
		if len(row) != ranks {
			return fmt.Errorf("beside.%s: %d ranks in round %d, want %d", name, len(row), i, ranks)
		}
		for _, v := range row {
			if !(v >= 0) || v > 1e6 {
				return fmt.Errorf("beside.%s: %v in round %d is no duration", name, v, i)
			}
		}
	}
	return nil
}
