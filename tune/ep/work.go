package ep

import (
	"fmt"
	"slices"
	"strings"
)

// Sums lists what a combine may add up. "gated" is each expert's row times its gate weight;
// "plain" is one row from each rank, which the caller has weighted and summed over its local
// experts.
func Sums() []string { return []string{"gated", "plain"} }

// Parts lists the work that the time of a call may include besides moving rows: the cast of
// BF16 tokens to the dtype, the exchange of counts, the expansion of one row for each rank
// to one for each expert, the sum over experts or ranks, a copy into a workspace that the
// kernels can reach, and waits of the host.
func Parts() []string { return []string{"cast", "counts", "expansion", "reduction", "copy", "host"} }

// Work says which library a kernel is from, what it outputs, and what its time includes.
// Times that include different work are not compared. Empty fields are unknown.
type Work struct {
	Library string   `json:"library,omitempty"`
	Version string   `json:"version,omitempty"`
	Layout  string   `json:"layout,omitempty"` // the name of one of Layouts
	Sum     string   `json:"sum,omitempty"`    // combine only: one of Sums
	Inside  []string `json:"inside,omitempty"` // words of Parts: work that the time includes
}

// Validate refuses words that Layouts, Sums and Parts do not list.
func (w Work) Validate() error {
	known := func(field, word string, list []string) error {
		if word == "" || slices.Contains(list, word) {
			return nil
		}
		return fmt.Errorf("%s: unknown %.20q, use one of %s", field, word, strings.Join(list, ", "))
	}
	if w.Layout != "" {
		if _, err := ParseLayout(w.Layout); err != nil {
			return err
		}
	}
	if err := known("sum", w.Sum, Sums()); err != nil {
		return err
	}
	for _, part := range w.Inside {
		if part == "" {
			return fmt.Errorf("inside: an empty word, use any of %s", strings.Join(Parts(), ", "))
		}
		if err := known("inside", part, Parts()); err != nil {
			return err
		}
	}
	return nil
}

// Pair returns the work of a dispatch and this combine together. Library and layout are set
// if dispatch and combine agree on them.
func (w Work) Pair(dispatch Work) Work {
	out := Work{Sum: w.Sum, Inside: slices.Concat(dispatch.Inside, w.Inside)}
	if w.Library == dispatch.Library {
		out.Library, out.Version = w.Library, w.Version
	}
	if w.Layout == dispatch.Layout {
		out.Layout = w.Layout
	}
	return out
}

// InLayout returns the work in layout l, given the work in the kernel's own layout. In
// layout rank nothing is expanded, and combine adds rows up without weights.
func (w Work) InLayout(l Layout) Work {
	if w.Layout == "" || l == LayoutExpert { // older runs say expert for every layout
		return w
	}
	w.Layout = l.Kind()
	if l.ByRank() {
		w.Inside = slices.DeleteFunc(slices.Clone(w.Inside), func(part string) bool { return part == "expansion" })
		if w.Sum != "" {
			w.Sum = "plain"
		}
	}
	return w
}

// Key spells the work for a problem as one line of text. Two calls do the same work if their
// keys are equal. Layouts of one kind have one spelling, since they hold the same rows with
// or without gaps, and BF16 has no cast. The key is "" if the layout is unknown.
func (w Work) Key(p Problem) string {
	if w.Layout == "" {
		return ""
	}
	w, dtype := w.InLayout(p.Layout), p.Dispatch
	words := []string{Layout(w.Layout).Kind()}
	if w.Sum != "" {
		words = append(words, w.Sum)
	}
	for _, part := range Parts() { // in their order
		if slices.Contains(w.Inside, part) && (part != "cast" || dtype != BF16) {
			words = append(words, "+"+part)
		}
	}
	return strings.Join(words, " ")
}
