package ep

import "strings"

// Layout says how the rows that a rank receives lie in memory. Below, T is MaxTokens, and R is the number of ranks.
type Layout string

const (
	// LayoutExpert has the rows of each expert side by side. The array row_offsets has the index of each expert's first
	// row.
	LayoutExpert Layout = ""
	// LayoutExpert128 is LayoutExpert with each expert's first row at a multiple of 128.
	LayoutExpert128 Layout = "expert:128"
	// LayoutMasked has [local experts, R*T] rows and a count for each expert. An expert's rows are in the order of
	// their source ranks.
	LayoutMasked Layout = "masked"
	// LayoutRank has one row for each token that a rank receives, with the token's local experts and weights. Each
	// source rank has T rows and a count. The first of these rows hold the source rank's tokens in order. The caller
	// computes the weighted sums that combine sends back.
	LayoutRank Layout = "rank"
	// LayoutRankPacked is LayoutRank without gaps between the source ranks' rows.
	LayoutRankPacked Layout = "rank:packed"
)

// Layouts lists every layout.
func Layouts() []Layout {
	return []Layout{LayoutExpert, LayoutExpert128, LayoutMasked, LayoutRank, LayoutRankPacked}
}

// ParseLayout reads a layout's name.
func ParseLayout(s string) (Layout, error) { return Find("layout", s, Layouts(), Layout.String) }

// String returns the layout's name.
func (l Layout) String() string {
	if l == LayoutExpert {
		return "expert"
	}
	return string(l)
}

// MarshalText writes the layout's name.
func (l Layout) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (l *Layout) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLayout(string(b))
	return err
}

// Kind returns the word before the colon: expert, masked or rank.
func (l Layout) Kind() string {
	kind, _, _ := strings.Cut(l.String(), ":")
	return kind
}

// ByRank reports whether a rank receives each token only once.
func (l Layout) ByRank() bool { return l.Kind() == "rank" }
