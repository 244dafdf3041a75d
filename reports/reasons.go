package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/record"
)

const fewCases = 3

// GatherReasons returns a line for each distinct reason: the names of its cases, and the reason. There is one
// exception. If every search has a reason, and the most frequent reason has more than fewCases cases, its line comes
// last and gives only the number of cases.
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

func sentence(text string) string { return strings.TrimSuffix(text, ".") + "." }
