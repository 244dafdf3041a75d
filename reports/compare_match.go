package reports

import "github.com/epbench/epbench/tune/ep"

// caseKey identifies a case in both runs. It identifies a recorded routing by the digest of its content, because the
// file may have another name in the other run.
type caseKey struct {
	problem ep.Problem
	routing string
}

type caseIndex struct {
	byKey   map[caseKey][]*Case
	anyMode bool
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

// match returns a case with c's problem and routing, or nil. It prefers a case with c's seed.
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
