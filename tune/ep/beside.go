package ep

import (
	"fmt"
	"slices"
)

// BesideRounds holds the times of calls beside a matrix product, in seconds by round and rank.
type BesideRounds struct {
	Call      [][]float64 `json:"call"`       // a call alone
	Product   [][]float64 `json:"product"`    // the product alone
	Both      [][]float64 `json:"both"`       // from the first start to the last end of call and product
	CallIn    [][]float64 `json:"call_in"`    // a call while the product runs
	ProductIn [][]float64 `json:"product_in"` // the product while calls run
	Done      [][]float64 `json:"done"`       // share of the product done when calls end
	Amount    string      `json:"amount"`     // how much of the product runs beside one call, in words

	// Base holds times of the product alone. ShareBase computes them from all configs of the same rounds. Cost subtracts
	// Base, or Product if Base is empty.
	Base [][]float64 `json:"base,omitempty"`
}

// LeastCost is the lower bound of a cost, in seconds. Ratios need positive times.
const LeastCost = 100e-9

// Alone returns the seconds of the product alone, by round and rank: Base, or Product if Base is empty.
func (t *BesideRounds) Alone() [][]float64 {
	if len(t.Base) > 0 {
		return t.Base
	}
	return t.Product
}

// Cost returns the seconds that a call costs, by round and rank: Both minus Alone, at least LeastCost.
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

// Seconds returns the times that an objective minimizes.
func (t *BesideRounds) Seconds(o Objective) [][]float64 {
	if o == BesideProduct {
		return t.Cost()
	}
	return t.Call
}

func (t *BesideRounds) fields() map[string]*[][]float64 {
	return map[string]*[][]float64{"call": &t.Call, "product": &t.Product, "both": &t.Both,
		"call_in": &t.CallIn, "product_in": &t.ProductIn, "done": &t.Done}
}

// Append adds the rounds of u to t.
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

// Validate checks the numbers of rounds and ranks, and that values are between 0 and 1e6.
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
				return fmt.Errorf("beside.%s: %v in round %d is outside 0 to 1e6", name, v, i)
			}
		}
	}
	return nil
}
