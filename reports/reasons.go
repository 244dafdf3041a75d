package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/record"
)

// fewCases are so few that a line names each.
const fewCases = 3

// GatherReasons puts what was said of searches into a line for each distinct reason, in
// the order of the cases; searches of which nothing was said are left out. Where
// something was said of all, the reason that most cases have, if these are more than
// three, comes last with their number: the lines before it name the rest.
func GatherReasons(searches []record.Search, reason func(*record.Search) string) []string {
	cases, order, silent := map[string][]string{}, []string{}, false
	for i := range searches {
		s := &searches[i]
		r := reason(s)
		if r == "" {
			silent = true
			continue
		}
		if !slices.Contains(order, r) {
			order = append(order, r)
		}
		cases[r] = append(cases[r], Title(s.Problem, s.Routing))
	}
	most := ""
	for _, r := range order {
		if n := len(cases[r]); !silent && n > fewCases && n > len(cases[most]) {
			most = r
		}
	}
	var out []string
	for _, r := range order {
		if r != most {
			out = append(out, strings.Join(cases[r], "; ")+": "+sentence(r))
		}
	}
	switch n := len(cases[most]); {
	case n == 0:
	case n == len(searches):
		out = append(out, fmt.Sprintf("All %d cases: %s", n, sentence(most)))
	default:
		out = append(out, fmt.Sprintf("The other %d cases: %s", n, sentence(most)))
	}
	return out
}

// sentence ends a text with one full stop.
func sentence(text string) string { return strings.TrimSuffix(text, ".") + "." }
