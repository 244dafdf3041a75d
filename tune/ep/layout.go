package ep

import "strings"

// Layout says how the rows that a rank receives lie. T is MaxTokens, R the number of
// ranks. The zero value is LayoutExpert, so that what does not say means the layout
// that all rows of tables had before there were others.
type Layout string

const (
	// LayoutExpert has the rows of one expert side by side, and the first row of
	// each expert in row_offsets.
	LayoutExpert Layout = ""
	// LayoutExpert128 begins each expert's rows at a multiple of 128.
	LayoutExpert128 Layout = "expert:128"
	// LayoutMasked is [local experts, R*T] rows with a count for each expert: those
	// of one source rank side by side, in the order of ranks.
	LayoutMasked Layout = "masked"
	// LayoutRank is one row a (token, rank), with the token's local experts and
	// weights beside it: T rows for each source rank, the first of them filled, in
	// the order of tokens, and a count for each source. Combine takes one row back,
	// weighted and summed over the local experts.
	LayoutRank Layout = "rank"
	// LayoutRankPacked is LayoutRank without gaps, in the order of source ranks.
	LayoutRankPacked Layout = "rank:packed"
)

// Layouts lists every layout.
func Layouts() []Layout {
	return []Layout{LayoutExpert, LayoutExpert128, LayoutMasked, LayoutRank, LayoutRankPacked}
}

// ParseLayout reads a layout's name.
func ParseLayout(s string) (Layout, error) { return Find("layout", s, Layouts(), Layout.String) }

// String is the layout's name, "expert" for the zero value.
func (l Layout) String() string {
	if l == LayoutExpert {
		return "expert"
	}
	return string(l)
}

// MarshalText writes the layout's name. Files leave the field out where it is expert.
func (l Layout) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (l *Layout) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLayout(string(b))
	return err
}

// Kind is the word before the colon: expert, masked or rank.
func (l Layout) Kind() string {
	kind, _, _ := strings.Cut(l.String(), ":")
	return kind
}

// ByRank says that a token comes once to each rank, and not once to each expert.
func (l Layout) ByRank() bool { return l.Kind() == "rank" }
