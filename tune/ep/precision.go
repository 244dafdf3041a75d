package ep

import "fmt"

// Precision says how exact a config's output is.
type Precision int

// Full is the zero value, because it is the safe choice.
const (
	Full    Precision = iota // no larger error than the default config has; every run gives the same bits
	Reduced                  // partial sums may be sent as BF16
)

var precisionWords = []string{"full", "reduced"}

// Precisions lists both precisions.
func Precisions() []Precision { return []Precision{Full, Reduced} }

// ParsePrecision reads "full" or "reduced".
func ParsePrecision(s string) (Precision, error) {
	return Find("precision", s, Precisions(), Precision.String)
}

// String returns "full" or "reduced".
func (p Precision) String() string {
	if p != Full && p != Reduced {
		return fmt.Sprintf("Precision(%d)", int(p))
	}
	return precisionWords[p]
}

// MarshalText writes the word.
func (p Precision) MarshalText() ([]byte, error) {
	if p != Full && p != Reduced {
		return nil, fmt.Errorf("precision: %d is neither ep.Full nor ep.Reduced", int(p))
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (p *Precision) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePrecision(string(b))
	return err
}
