package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// noisyShare of the searches above which a machine is too noisy for a table.
const noisyShare = 0.25

// table makes the tuned table, or says why there is none.
func (s *sweeper) table(ctx context.Context) (*table.Table, string, error) {
	noisy, failed, spread := 0, 0, 0.0
	for _, c := range s.searches {
		switch c.result.Decision.Cause {
		case record.Noisy:
			noisy++
		case record.Failed, record.NoDefault:
			failed++
		default:
			spread = max(spread, c.aa.Spread)
		}
	}
	switch {
	case float64(noisy) > noisyShare*float64(len(s.searches)):
		return nil, fmt.Sprintf("no table: in %d of %d searches the default against itself varies by more than the band of %.0f %%; "+
			"quiet the machine, or give each search more time with --budget", noisy, len(s.searches), 100*s.lab.policy.Band), nil
	case noisy+failed == len(s.searches):
		return nil, "no table: no default runs here", nil
	}
	rows, err := s.rows(ctx)
	if err != nil {
		return nil, "", err
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
		},
		Rows: rows,
	}, "", nil
}

// ABI is a backend's kernel hash, empty where it has none.
func ABI(b kernels.Backend) string {
	if v, ok := b.(kernels.Versioned); ok {
		return v.ABI()
	}
	return ""
}
