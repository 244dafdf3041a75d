package peers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Given holds the values that the user gives about a file by flags; 0 and "" mean not
// given. A flag wins over the file, with a warning that names both.
type Given struct {
	Ranks, Nodes, Hidden, Experts, TopK, Tokens int
	Routing                                     string            // canonical spec; if it is empty, the routing that the file names, else uniform
	Label                                       string            // kernel name shown for the figures, instead of the format's own
	Columns                                     map[string]string // CSV only: our name by the file's column
	Definition                                  string            // how a bandwidth was computed, see Definitions
}

// field returns the flag of a name.
func (g *Given) field(name string) *int {
	return map[string]*int{"ranks": &g.Ranks, "nodes": &g.Nodes, "hidden": &g.Hidden, "experts": &g.Experts, "topk": &g.TopK, "tokens": &g.Tokens}[name]
}

// problem fills a problem from the known values. The mode is eager, which an importer may
// change.
func (g Given) problem(op ep.Op, dtype ep.DType) ep.Problem {
	return ep.Problem{
		Op: op, Mode: ep.Eager, Ranks: g.Ranks, Nodes: g.Nodes, Hidden: g.Hidden,
		Experts: g.Experts, TopK: g.TopK, Tokens: g.Tokens, MaxTokens: g.Tokens,
		Dispatch: dtype, Combine: ep.BF16,
	}
}

// require names the flags that are missing.
func (g Given) require(fields ...string) error {
	var missing []string
	for _, f := range fields {
		if *g.field(f) == 0 {
			missing = append(missing, "--"+f)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the file does not say everything about its problem; give %s", strings.Join(missing, ", "))
	}
	return nil
}

// facts joins the flags with the values that a file has about itself.
type facts struct {
	given    Given
	warnings []string
	seen     map[string]int // by flag: the value that the file said first
}

func newFacts(g Given) *facts { return &facts{given: g, seen: map[string]int{}} }

// warn adds a warning once.
func (f *facts) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(f.warnings, w) {
		f.warnings = append(f.warnings, w)
	}
}

// said is a field of a problem with the value that a file has for it; text may be empty.
type said struct{ field, column, text string }

// with returns the flags completed by what one row or section of a file says. A flag that
// differs wins; it is refused if the file has several values of its field, which one flag
// cannot replace.
func (f *facts) with(fields ...said) (Given, error) {
	g := f.given
	for _, s := range fields {
		if s.text == "" {
			continue
		}
		v, err := strconv.Atoi(s.text)
		if err != nil {
			return g, fmt.Errorf("%s: %.20q is no count", s.column, s.text)
		}
		to := g.field(s.field)
		if *to != 0 && *to != v {
			if first, again := f.seen[s.field]; again && first != v {
				return g, fmt.Errorf("--%s %d: the file itself says %d and %d (%s); leave the flag out", s.field, *to, first, v, s.column)
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

// oneHost is the largest number of ranks that are taken for one host if nothing says how many
// hosts there are.
const oneHost = 8

// setNodes decides the number of hosts: by the flag, else by hosts, the number that the file
// names, else one host for at most 8 ranks that all printed. printed is the number of ranks in
// the file, 0 if the format does not print all.
func (g *Given) setNodes(f *facts, hosts, printedRanks int) error {
	switch {
	case g.Nodes > 0 && hosts > 0 && g.Nodes != hosts:
		f.warn("--nodes %d is used; the file names %d hosts", g.Nodes, hosts)
	case g.Nodes > 0:
	case hosts > 0:
		g.Nodes = hosts
	case printedRanks > 0 && printedRanks < g.Ranks:
		return fmt.Errorf("the file holds figures of %d of %d ranks, as one of several hosts prints them; give --nodes", printedRanks, g.Ranks)
	case g.Ranks > oneHost:
		return fmt.Errorf("nothing says on how many hosts the %d ranks ran; give --nodes", g.Ranks)
	default:
		g.Nodes = 1
	}
	return nil
}
