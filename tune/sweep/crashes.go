package sweep

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// mostCrashes bounds how many defaults may crash or hang, because each crash or hang restarts the worker.
const mostCrashes = 3

// A DefaultsCrash is the error of a sweep in which every default crashed or hung.
type DefaultsCrash struct {
	Title, Words string // the last search, and its failure
	Searches     int
	Configs      []string // ids; a resumed sweep skips these configs
}

func (e *DefaultsCrash) Error() string {
	return fmt.Sprintf("%s: %s; the defaults of all %d searches so far crashed or hung: mend the worker, or leave these cases out of the sweep",
		e.Title, e.Words, e.Searches)
}

type crashCount struct {
	// similar counts crashed defaults. Problems that differ only in tokens share a count.
	similar map[ep.Problem]int
	all     int
	ran     bool
	words   string   // of the last crash
	configs []string // ids
}

// add counts a finished search. It returns an error if mostCrashes defaults crashed and none ran.
func (n *crashCount) add(c *activeSearch) error {
	f := failureOfDefault(c.runner.Failures(), c.dflt)
	switch {
	case f != nil && (f.Status == ep.Crash || f.Status == ep.Hang):
		n.similar[withoutTokens(c.problem)]++
		n.all++
		n.words = defaultFailure(c.runner.Failures(), c.dflt)
		if id := c.space.Config(c.dflt).ID(); !slices.Contains(n.configs, id) {
			n.configs = append(n.configs, id)
		}
	case f != nil || c.state != nil:
		n.ran = true
		delete(n.similar, withoutTokens(c.problem))
	}
	if n.ran || n.all < mostCrashes {
		return nil
	}
	return &DefaultsCrash{c.title(), n.words, n.all, n.configs}
}

func (n *crashCount) whySkip(c *activeSearch) string {
	if n.similar[withoutTokens(c.problem)] < mostCrashes {
		return ""
	}
	return fmt.Sprintf("not measured, because the defaults of %d searches with other tokens or routings crashed or hung; the last of them: %s", mostCrashes, n.words)
}
