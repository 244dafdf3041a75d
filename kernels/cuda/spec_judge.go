//go:build cuda

package cuda

import (
	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// How this package judges answers, for workers that run the same kernels in
// another way.

// EpilogueScale is EpArgs.epilogue_scale of every verification.
const EpilogueScale = epilogueScale

// Bias is EpArgs.bias of every verification.
func Bias(hidden int) []uint16 { return makeBias(hidden) }

// CompareOf is how far a config's output may be from the oracle's.
func CompareOf(p ep.Problem, c ep.Config) (ref.Compare, error) {
	f, err := findFamily(families(), c.Kernel)
	if err != nil {
		return ref.Compare{}, err
	}
	out := ref.Compare{}
	if f.compare != nil {
		out = f.compare(c)
	}
	out.MaxRows = max(judgedElements/p.Hidden, 1)
	return out, nil
}

// JudgeCombine compares combined tokens of a rank, by their index, with the
// oracle, behind the config's epilogue where it has one. fetch brings the tokens
// that it names.
func JudgeCombine(o *ref.Oracle, rank int, c ep.Config, compare ref.Compare, fetch func(tokens []int) ([][]uint16, error)) (kernels.Comparison, error) {
	hook := c.Str("epilogue")
	if epilogues[hook] != 0 {
		compare.MaxRows = 0
	}
	picked := o.CombinePicks(rank, compare)
	rows, err := fetch(picked)
	if err != nil {
		return kernels.Comparison{}, err
	}
	at := make(map[int][]uint16, len(rows))
	for i, t := range picked {
		at[t] = rows[i]
	}
	row := func(t int) []uint16 { return at[t] }
	if epilogues[hook] != 0 {
		return judgeEpilogue(o, rank, len(picked), hook, row, compare), nil
	}
	return o.CheckCombine(rank, row, compare), nil
}
