package reports

import "github.com/epbench/epbench/tune/ep"

// caseKey identifies a case in both runs. Cases with equal keys are compared. routing is the content of
// the routing (ep.RoutingContent), so that a recorded routing matches under any file name.
type caseKey struct {
	problem ep.Problem
	routing string
}

// A caseIndex finds the case of one run that matches a case of another run.
type caseIndex struct {
	byKey   map[caseKey][]*Case
	anyMode bool // the mode may differ
}

func indexCases(cases []*Case, anyMode bool) caseIndex {
	x := caseIndex{map[caseKey][]*Case{}, anyMode}
	for _, c := range cases {
		x.byKey[x.key(c)] = append(x.byKey[x.key(c)], c)
	}
	return x
}

func (x caseIndex) key(c *Case) caseKey {
	p := c.Problem
	if x.anyMode {
		p.Mode = ""
	}
	return caseKey{p, ep.RoutingContent(c.Routing)}
}

// match returns the case with c's problem and routing, if possible with c's seed; nil if there is none.
func (x caseIndex) match(c *Case) *Case {
	found := x.byKey[x.key(c)]
	for _, o := range found {
		if o.Seed == c.Seed {
			return o
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// routingsOf returns the distinct routings of cases, in the order of the cases.
func routingsOf(cases []*Case) (out []string) {
	seen := map[string]bool{}
	for _, c := range cases {
		if !seen[c.Routing] {
			seen[c.Routing] = true
			out = append(out, c.Routing)
		}
	}
	return out
}
