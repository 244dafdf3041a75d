package sweep

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// mostCrashes is the number of searches whose default may crash or hang before the sweep stops
// trying. Each such search starts the worker again, and starting all ranks may take many seconds.
const mostCrashes = 3

// A DefaultsCrash is the error of a sweep in which no default ran: the fault is in the worker, not in one
// problem.
type DefaultsCrash struct {
	Title, Words string   // the last search, and the failure of its default
	Searches     int      // number of searches so far
	Configs      []string // ids of the defaults that crashed or hung. A resumed sweep skips them, unless the user names them in --retry
}

func (e *DefaultsCrash) Error() string {
	return fmt.Sprintf("%s: %s; the defaults of all %d searches so far crashed or hung: mend the worker, or leave these cases out of the sweep",
		e.Title, e.Words, e.Searches)
}

// A crashCount counts the searches of a sweep whose default crashed or hung.
type crashCount struct {
	// similar counts crashes and hangs of defaults, separately for each set of problems that differ only in
	// tokens. It starts anew when a default of the set runs. The key is the problem with 0 tokens.
	similar map[ep.Problem]int
	all     int
	ran     bool     // a default ran
	words   string   // failure of the last default that crashed or hung
	configs []string // ids of the defaults that crashed or hung
}

// add counts a search that has ended. It returns an error if mostCrashes defaults crashed or hung and none
// ran.
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

// whySkip returns the reason to skip a search, or "". A search is skipped if the defaults of mostCrashes searches
// that differ from it only in tokens or routing crashed or hung.
func (n *crashCount) whySkip(c *activeSearch) string {
	if n.similar[withoutTokens(c.problem)] < mostCrashes {
		return ""
	}
	return fmt.Sprintf("not measured, because the defaults of %d searches with other tokens or routings crashed or hung; the last of them: %s", mostCrashes, n.words)
}
