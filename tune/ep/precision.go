package ep

import "fmt"

// Results says which results a caller accepts from a config, compared with
// those of the library's default.
type Precision string

const (
	Full    Precision = ""    // the very bits, in the memory and with the determinism of the default
	Reduced Precision = "any" // also those of parameters of class result, within the operation's tolerance
)

// ParseResults reads same or any.
func ParsePrecision(s string) (Precision, error) {
	switch s {
	case "same", "":
		return Full, nil
	case "any":
		return Reduced, nil
	}
	return "", fmt.Errorf("results: unknown %q, use same or any", s)
}

// String is same or any.
func (r Precision) String() string {
	if r == Full {
		return "same"
	}
	return string(r)
}
