package ep

import (
	"fmt"
	"slices"
	"strings"
)

// Sums lists what a combine adds up: each expert's row times its gate weight, or the
// rows of the ranks as they are, weighted and added over local experts by the caller.
func Sums() []string { return []string{"gated", "plain"} }

// Parts lists what the time of a call may hold besides moving rows: the cast of BF16
// tokens to the dtype, the exchange of counts, one row an expert made of one a rank,
// the sum over experts or ranks, a copy into a workspace that the kernels can reach,
// and waits of the host.
func Parts() []string { return []string{"cast", "counts", "expansion", "reduction", "copy", "host"} }

// Work says whose kernel it is, what it leaves behind, and what its time holds. Times
// of different work are not compared. Empty fields are unknown.
type Work struct {
	Library string   `json:"library,omitempty"`
	Version string   `json:"version,omitempty"`
	Layout  string   `json:"layout,omitempty"` // the name of one of Layouts
	Sum     string   `json:"sum,omitempty"`    // combine only: one of Sums
	Inside  []string `json:"inside,omitempty"` // of Parts
}

// Validate refuses words that are in none of the lists.
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

// Pair is the work of a dispatch and this combine together. It is of one library only
// where both halves are.
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

// Under is the work in another layout than the kernel declares it for. By rank there is
// no expansion, and combine adds up rows as they are.
func (w Work) InLayout(l Layout) Work {
	if w.Layout == "" || l == LayoutExpert { // runs from before layouts say expert for all
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

// Key is the work as one line of text, for a problem: two calls do the same when their
// keys are equal. Layouts of one kind are the same here: they hold the same rows, with
// or without gaps. There is nothing to cast in BF16. It is "" where the layout is
// unknown.
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
