package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// noisyShare is the share of noisy searches above which there is no table.
const noisyShare = 0.25

// whyNoTable returns why no table can be made, or "". It also returns the largest A/A spread.
func (s *sweeper) whyNoTable() (why string, spread float64) {
	var noisy []*activeSearch
	usable := 0
	for _, c := range s.searches {
		d := c.result.Decision
		if c.result.OK() && d.Band.Noisy() {
			noisy = append(noisy, c)
		}
		if d.Usable() {
			usable++
			spread = max(spread, c.aa.Spread)
		}
	}
	switch {
	case !slices.ContainsFunc(s.searches, func(c *activeSearch) bool { return c.problem.Op != ep.Layer }):
		return "no table: tables have no rows for op layer; compare runs with epbench table choose", spread
	case float64(len(noisy)) > noisyShare*float64(len(s.searches)):
		return s.noisyReason(noisy), spread
	case usable == 0:
		return "no table: " + s.unusableReason(), spread
	}
	return "", spread
}

const widestBand = 0.25

func (s *sweeper) noisyReason(noisy []*activeSearch) string {
	policy := s.harness.policy
	largest, short := 0.0, 0
	for _, c := range noisy {
		largest = max(largest, c.aa.Spread)
		if c.aa.Rounds < policy.MaxAA {
			short++
		}
	}
	var ways []string
	if short > 0 {
		ways = append(ways, fmt.Sprintf("give more time with --budget (in %[2]d of these searches the time ended before the A/A test had %[1]d rounds)", policy.MaxAA, short))
	}
	// The factor 1.25 allows for a wider spread in the next sweep.
	if band := math.Ceil(100*1.25*largest) / 100; band <= widestBand {
		ways = append(ways, fmt.Sprintf("sweep again with --band %.0f%%, so that times with smaller differences count as equal", 100*band))
	}
	return fmt.Sprintf("no table: in %d of %d searches two measurements of the default differ by more than the band of %.0f %%, and the largest difference is %.1f %%; %s",
		len(noisy), len(s.searches), 100*policy.Band, 100*largest, strings.Join(append(ways, "quiet the machine"), ", or "))
}

func (s *sweeper) unusableReason() string {
	count := map[record.Cause]int{}
	for _, c := range s.searches {
		count[c.result.Decision.Cause]++
	}
	all := len(s.searches)
	if count[record.NoDefault] == all {
		return "no default runs here"
	}
	var out []string
	for _, c := range []struct {
		cause record.Cause
		says  string
	}{
		{record.NoDefault, "the default does not run"},
		{record.Failed, "a needed config failed"},
		{record.Noisy, "too noisy to decide"},
	} {
		if n := count[c.cause]; n > 0 {
			out = append(out, fmt.Sprintf("%s (%d)", c.says, n))
		}
	}
	return fmt.Sprintf("no search can be used: %s; see summary.md", strings.Join(out, ", "))
}

func (s *sweeper) table() (*table.Table, string, error) {
	why, spread := s.whyNoTable()
	if why != "" {
		return nil, why, nil
	}
	log, err := record.HashLog(s.dir.Path())
	if err != nil {
		return nil, "", err
	}
	return &table.Table{
		Schema: table.Schema,
		Header: table.Header{
			Tool: s.opts.Tool, Created: time.Now(), ABI: s.run.ABI, Space: s.run.Space, Machine: s.run.Machine,
			Policy: s.run.Policy, Band: s.run.Band, AA: spread, TrialLog: log, Fallback: []string{"routing"}, MaxSMs: s.opts.MaxSMs,
			Hooks: kernels.SpellHooks(s.harness.planner.allKernels, s.opts.Params),
		},
		Rows: s.rowMaker().rows(),
	}, "", nil
}

// ABI returns the build of a backend's kernels, or "".
func ABI(b kernels.Backend) ep.ABI {
	if v, ok := b.(kernels.Versioned); ok {
		return v.ABI()
	}
	return ""
}
