//go:build cuda

package cuda

import (
	"unsafe"

	"github.com/epbench/epbench/kernels"
)

// judgeCombine compares what a combine left on a rank with the oracle.
func (s *session) judgeCombine(c *call, rank int) (kernels.Comparison, error) {
	compare, hook := s.compare(c), c.config.Str("epilogue")
	if epilogues[hook] != 0 {
		compare.MaxRows = 0
	}
	picked := s.oracle.CombinePicks(rank, compare)
	rows, err := s.combined(rank, picked)
	if err != nil {
		return kernels.Comparison{}, err
	}
	at := make(map[int][]uint16, len(rows))
	for i, t := range picked {
		at[t] = rows[i]
	}
	row := func(t int) []uint16 { return at[t] }
	if epilogues[hook] != 0 {
		return judgeEpilogue(s.oracle, rank, len(picked), hook, row, compare), nil
	}
	return s.proven[rank].check(compare, rows, func() kernels.Comparison { return s.oracle.CheckCombine(rank, row, compare) }), nil
}

// combined downloads tokens of a rank's combined output, [len(tokens)][hidden].
// The next call overwrites them.
func (s *session) combined(rank int, tokens []int) ([][]uint16, error) {
	hidden := s.problem.Hidden
	buf, err := s.rig.gatherRows(rank, partCombined, tokens, 2*hidden)
	if err != nil {
		return nil, err
	}
	rows := make([][]uint16, len(tokens))
	for i := range rows {
		rows[i] = unsafe.Slice((*uint16)(unsafe.Pointer(&buf[2*hidden*i])), hidden)
	}
	return rows, nil
}
