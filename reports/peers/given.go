package peers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Given holds the user's flags; 0 and "" mean not given. Flags win over the file.
type Given struct {
	Ranks, Nodes, Hidden, Experts, TopK, Tokens int
	Routing                                     string            // "" means the file's routing, or uniform if the file has none
	Label                                       string            // kernel name of all figures; "" means the format's
	Columns                                     map[string]string // maps a CSV file's column names to epbench's names
	Definition                                  string            // of bandwidths, see Definitions
}

func (g *Given) field(name string) *int {
	return map[string]*int{"ranks": &g.Ranks, "nodes": &g.Nodes, "hidden": &g.Hidden, "experts": &g.Experts, "topk": &g.TopK, "tokens": &g.Tokens}[name]
}

// problem returns a problem in mode eager.
func (g Given) problem(op ep.Op, dtype ep.DType) ep.Problem {
	return ep.Problem{
		Op: op, Mode: ep.Eager, Ranks: g.Ranks, Nodes: g.Nodes, Hidden: g.Hidden,
		Experts: g.Experts, TopK: g.TopK, Tokens: g.Tokens, MaxTokens: g.Tokens,
		Dispatch: dtype, Combine: ep.BF16,
	}
}

// require returns an error if a field has no value. The error names the flags to give.
func (g Given) require(fields ...string) error {
	var missing []string
	for _, f := range fields {
		if *g.field(f) == 0 {
			missing = append(missing, "--"+f)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the file does not give all values of its problem; give %s", strings.Join(missing, ", "))
	}
	return nil
}

// facts holds the user's flags and what the file says about the same fields.
type facts struct {
	given    Given
	warnings []string
	seen     map[string]int // first value in the file, by flag
}

func newFacts(g Given) *facts { return &facts{given: g, seen: map[string]int{}} }

func (f *facts) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(f.warnings, w) {
		f.warnings = append(f.warnings, w)
	}
}

// said is a file's text for a field, "" if there is none. `column` is the file's name of the field.
type said struct{ field, column, text string }

// with returns the values of the flags. For a field without a flag, it takes the value from a row of the file. If a
// flag differs from the row, the flag is used, with a warning. If the flag differs and the file has several values of
// this field, that is an error.
func (f *facts) with(fields ...said) (Given, error) {
	g := f.given
	for _, s := range fields {
		if s.text == "" {
			continue
		}
		v, err := strconv.Atoi(s.text)
		if err != nil {
			return g, fmt.Errorf("%s: %.20q is not a whole number", s.column, s.text)
		}
		to := g.field(s.field)
		if *to != 0 && *to != v {
			if first, again := f.seen[s.field]; again && first != v {
				return g, fmt.Errorf("--%s %d: the file has several values, %d and %d (%s); leave the flag out", s.field, *to, first, v, s.column)
			}
			f.warn("--%s %d is used; the file says %d (%s)", s.field, *to, v, s.column)
		}
		if _, again := f.seen[s.field]; !again {
			f.seen[s.field] = v
		}
		if *to == 0 {
			*to = v
		}
	}
	return g, nil
}

// oneHost is the largest number of ranks for which setNodes assumes one host.
const oneHost = 8

// setNodes sets Nodes to the flag, or else to `hosts`, the number in the file. If neither is known, it sets Nodes to 1,
// or returns an error if several hosts are likely: there are more than oneHost ranks, or only some ranks printed lines.
// printedRanks is the number of ranks that printed lines. `hosts` and printedRanks are 0 if unknown.
func (g *Given) setNodes(f *facts, hosts, printedRanks int) error {
	switch {
	case g.Nodes > 0 && hosts > 0 && g.Nodes != hosts:
		f.warn("--nodes %d is used; the file names %d hosts", g.Nodes, hosts)
	case g.Nodes > 0:
	case hosts > 0:
		g.Nodes = hosts
	case printedRanks > 0 && printedRanks < g.Ranks:
		return fmt.Errorf("the file holds figures of only %d of %d ranks, so it may be the output of one of several hosts; give --nodes", printedRanks, g.Ranks)
	case g.Ranks > oneHost:
		return fmt.Errorf("the number of hosts of the %d ranks is unknown; give --nodes", g.Ranks)
	default:
		g.Nodes = 1
	}
	return nil
}
