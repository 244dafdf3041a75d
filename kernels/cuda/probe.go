//go:build cuda

package cuda

import "fmt"

// Probe implements worker.Prober: one output row of the last verification, as
// hidden BF16 values. With k = -1 it is the combined row of a token, otherwise
// what the expert at top-k position k of that token received.
func (s *session) Probe(rank, token, k int) ([]uint16, error) {
	p := s.problem
	if rank < 0 || rank >= len(s.rig.seats) || token < 0 || token >= s.workload.Ranks[s.workload.Batch(rank)].Tokens || k >= p.TopK {
		return nil, fmt.Errorf("probe: rank %d token %d k %d is not there", rank, token, k)
	}
	if k < 0 {
		return download[uint16](s.rig, rank, partCombined, token*p.Hidden, p.Hidden)
	}
	if s.fetched == nil {
		return nil, fmt.Errorf("probe: nothing was verified since the last run")
	}
	e := int(s.workload.Ranks[s.workload.Batch(rank)].Experts[token*p.TopK+k])
	got, err := s.dispatched(s.oracle.Owner(rank, e))
	if err != nil {
		return nil, err
	}
	row, err := s.oracle.Received(rank, token, k, got.Output)
	if got.err != nil {
		return nil, got.err
	}
	return row, err
}
