package ep

import (
	"fmt"
	"slices"
	"strings"
)

// Sums lists what a combine may add up:
//   - gated: a token's rows, each multiplied by its gate weight
//   - plain: one row from each rank
func Sums() []string { return []string{"gated", "plain"} }

// Parts lists the work that a call's time may include besides the transfer of rows:
//   - cast: BF16 tokens are converted
//   - counts: ranks exchange row counts
//   - expansion: a row is copied to each expert
//   - reduction: rows are summed
//   - copy: data is copied into a workspace
//   - host: the host waits
func Parts() []string { return []string{"cast", "counts", "expansion", "reduction", "copy", "host"} }

// Work says which library a kernel is from, what it outputs, and what its time includes.
type Work struct {
	Library string   `json:"library,omitempty"`
	Version string   `json:"version,omitempty"`
	Layout  string   `json:"layout,omitempty"` // one of Layouts
	Sum     string   `json:"sum,omitempty"`    // one of Sums, for a combine
	Inside  []string `json:"inside,omitempty"` // some of Parts
}

// Validate refuses words outside Layouts, Sums and Parts.
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

// Pair returns the work of a dispatch and the combine w.
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

// InLayout returns the work of a kernel in layout l.
func (w Work) InLayout(l Layout) Work {
	// Older runs store LayoutExpert for every layout. Then only w.Layout is right.
	if w.Layout == "" || l == LayoutExpert {
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

// Key spells the work for a problem as one line, or "" if the layout is unknown.
func (w Work) Key(p Problem) string {
	if w.Layout == "" {
		return ""
	}
	w, dtype := w.InLayout(p.Layout), p.Dispatch
	words := []string{Layout(w.Layout).Kind()}
	if p.Op == Layer {
		words, w.Inside = []string{string(Layer)}, slices.DeleteFunc(slices.Clone(w.Inside), func(part string) bool { return part != "host" })
	} else if w.Sum != "" {
		words = append(words, w.Sum)
	}
	for _, part := range Parts() {
		if slices.Contains(w.Inside, part) && (part != "cast" || dtype != BF16) {
			words = append(words, "+"+part)
		}
	}
	return strings.Join(words, " ")
}
