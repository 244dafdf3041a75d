package sweep

import (
	"errors"
	"fmt"

	"github.com/epbench/epbench/tune/ep"
)

// mostCrashes is the number of searches whose default may crash or hang before the sweep stops
// trying. Each such search starts the worker again, and starting all ranks may take many seconds.
const mostCrashes = 3

// ErrDefaultsCrash says that no default of a sweep ran. The fault is then in the worker, not in one
// problem.
var ErrDefaultsCrash = errors.New("mend the worker, or leave these cases out of the sweep")

// A crashCount counts the searches of a sweep whose default crashed or hung.
type crashCount struct {
	similar map[ep.Problem]int // number of defaults that crashed or hung since a default last ran, by problem without tokens
	all     int
	ran     bool   // a default ran
	words   string // failure of the last default that crashed or hung
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
	case f != nil || c.state != nil:
		n.ran = true
		delete(n.similar, withoutTokens(c.problem))
	}
	if n.ran || n.all < mostCrashes {
		return nil
	}
	return fmt.Errorf("%s: %s; the defaults of all %d searches so far crashed or hung: %w", c.title(), n.words, n.all, ErrDefaultsCrash)
}

// whySkip returns the reason to skip a search, or "". A search is skipped if the defaults of mostCrashes searches
// that differ from it only in tokens or routing crashed or hung.
func (n *crashCount) whySkip(c *activeSearch) string {
	if n.similar[withoutTokens(c.problem)] < mostCrashes {
		return ""
	}
	return fmt.Sprintf("not measured, because the defaults of %d searches with other tokens or routings crashed or hung; the last of them: %s", mostCrashes, n.words)
}
