package ep

import "fmt"

// Objective says which time a search minimizes.
type Objective int

const (
	Alone         Objective = iota // time of a call without a matrix product
	BesideProduct                  // time of call and matrix product together, minus time of the product alone
)

var objectiveWords = []string{"alone", "beside"}

// Objectives lists both objectives.
func Objectives() []Objective { return []Objective{Alone, BesideProduct} }

// ParseObjective reads "alone" or "beside".
func ParseObjective(s string) (Objective, error) {
	return Find("objective", s, Objectives(), Objective.String)
}

// String returns "alone" or "beside".
func (o Objective) String() string {
	if o != Alone && o != BesideProduct {
		return fmt.Sprintf("Objective(%d)", int(o))
	}
	return objectiveWords[o]
}

// MarshalText writes the word.
func (o Objective) MarshalText() ([]byte, error) {
	if o != Alone && o != BesideProduct {
		return nil, fmt.Errorf("objective: %d is neither ep.Alone nor ep.BesideProduct", int(o))
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (o *Objective) UnmarshalText(b []byte) (err error) {
	*o, err = ParseObjective(string(b))
	return err
}
