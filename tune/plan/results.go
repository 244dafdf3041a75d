package plan

import "fmt"

// Results says which results a caller accepts from a config, compared with
// those of the library's default.
type Results string

const (
	SameResults Results = ""    // the very bits, in the memory and with the determinism of the default
	AnyResults  Results = "any" // also those of parameters of class result, within the operation's tolerance
)

// ParseResults reads same or any.
func ParseResults(s string) (Results, error) {
	switch s {
	case "same", "":
		return SameResults, nil
	case "any":
		return AnyResults, nil
	}
	return "", fmt.Errorf("results: unknown %q, use same or any", s)
}

// String is same or any.
func (r Results) String() string {
	if r == SameResults {
		return "same"
	}
	return string(r)
}
