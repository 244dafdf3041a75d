//go:build cuda

package drive

// #include "ep_shim.h"
import "C"

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

// partGates names the part of the heap that holds the input of an activation.
const partGates = "gates"

// rotatedBytes is the total size of the copies of a call's rows. Calls use the copies in turn, so that no call
// finds its rows in the L2 cache.
const rotatedBytes = declare.FlushBytes

const maxCopies = 64

type activation struct {
	oracle *ref.Oracle
	rows   int // rows for which every buffer has room
	copies int // copies of the rows, see rotatedBytes
}

// openActivation returns what a session of op activation needs, or nil if w has another op.
func openActivation(w *workloads.Workload, o *ref.Oracle) *activation {
	if w.Problem.Op != ep.Activation {
		return nil
	}
	a, bytes := &activation{oracle: o}, max(w.BytesActivation(), 1)
	for rank := range w.Ranks {
		a.rows = max(a.rows, o.Dispatch(rank).End)
	}
	a.rows = (a.rows + 7) / 4 * 4 // 4 fp8 scales of a column are a 16-byte vector
	a.copies = int(max(1, min(maxCopies, (rotatedBytes+bytes-1)/bytes)))
	return a
}

// part returns the name of copy `number` of the part `name`. Verification uses copy 0, which has the part's own name.
func (a *activation) part(name string, number int) string {
	if number %= a.copies; number > 0 {
		return fmt.Sprintf("%s %d", name, number)
	}
	return name
}

func (a *activation) parts(p ep.Problem) []declare.Region {
	groups := int64(dtype.Groups(p))
	out := []declare.Region{
		declare.Zeroed(declare.PartRowOffsets, (groups+1)*4),
		declare.Zeroed(declare.PartScaleOffsets, groups*4),
		declare.Zeroed(declare.PartInputScale, groups*4),
	}
	for i := range a.copies {
		out = append(out, declare.Zeroed(a.part(partGates, i), int64(a.rows)*int64(p.Hidden)*4))
		out = append(out, a.outputs(p, i)...)
	}
	if p.Mode == ep.Cold {
		out = append(out, declare.Zeroed(declare.PartFlush, declare.FlushBytes))
	}
	return out
}

func (a *activation) outputs(p ep.Problem, number int) []declare.Region {
	l := dtype.Of(p.Dispatch, p.Hidden)
	return []declare.Region{
		declare.Poisoned(a.part(declare.PartOut, number), int64(a.rows*l.Payload)),
		declare.Poisoned(a.part(declare.PartScales, number), int64(dtype.OutputScaleBytes(l, dtype.Groups(p), a.rows))),
	}
}

func (a *activation) gates(w *workloads.Workload, rank int) []uint16 {
	n, end := 2*w.Problem.Hidden, a.oracle.Dispatch(rank).End
	out := make([]uint16, end*n)
	for row := range end {
		w.Gates(rank, row, out[row*n:(row+1)*n])
	}
	return out
}

// putActivation copies the inputs to a rank. Call putActivation on the GPU's thread. It does not wait
// for the copies.
func (s *session) putActivation(rank int) error {
	d := s.activation.oracle.Dispatch(rank)
	scales := make([]float32, len(d.Groups))
	for g := range scales {
		scales[g] = workloads.ActivationScale(g)
	}
	gates, bytes := s.tokens[rank], 2*int64(len(s.tokens[rank]))
	first := s.activation.part(partGates, 0)
	if err := put(s.ranks, rank, first, gates); err != nil {
		return err
	}
	for i := 1; i < s.activation.copies && bytes > 0; i++ {
		if err := copyOnGPU(rank, s.ranks.at(rank, s.activation.part(partGates, i)), s.ranks.at(rank, first), bytes); err != nil {
			return err
		}
	}
	return cmp.Or(
		put(s.ranks, rank, declare.PartRowOffsets, d.RowOffsets),
		put(s.ranks, rank, declare.PartScaleOffsets, d.ScaleOffsets),
		put(s.ranks, rank, declare.PartInputScale, scales))
}

func (s *session) siluArgs(rank, n int) C.EpSiluArgs {
	clamp := ref.GptOss()
	args := C.EpSiluArgs{
		max_rows: C.int64_t(s.activation.rows), groups: C.int32_t(dtype.Groups(s.problem)),
		limit: C.float(clamp.Limit), alpha: C.float(clamp.Alpha),
	}
	point(&args.in, s.ranks.at(rank, s.activation.part(partGates, n)))
	point(&args.out, s.ranks.at(rank, s.activation.part(declare.PartOut, n)))
	point(&args.scales, s.ranks.at(rank, s.activation.part(declare.PartScales, n)))
	point(&args.row_offsets, s.ranks.at(rank, declare.PartRowOffsets))
	point(&args.input_scales, s.ranks.at(rank, declare.PartInputScale))
	point(&args.scale_offsets, s.ranks.at(rank, declare.PartScaleOffsets))
	return args
}

func (s *session) judgeActivation(c ep.Config) (kernels.Comparison, error) {
	var sum kernels.Comparison
	for rank := range s.ranks.local {
		v, err := s.judgeActivated(rank, ref.ActivationOf(c))
		if err != nil {
			return sum, err
		}
		sum = ref.Merge(sum, v)
	}
	return sum, nil
}

func (s *session) judgeActivated(rank int, how ref.Activation) (v kernels.Comparison, err error) {
	a, l, limit := s.activation, dtype.Of(s.problem.Dispatch, s.problem.Hidden), max(declare.JudgedElements/s.problem.Hidden, 1)
	picked, end := a.oracle.ActivationPicks(rank, limit), a.oracle.Dispatch(rank).End
	offsets, place := make([]int, len(picked)), make(map[int]int, len(picked))
	for i, row := range picked {
		offsets[i], place[row] = row*l.Payload, i
	}
	rows, err := s.read(rank, declare.PartOut, l.Payload, offsets...)
	if err != nil {
		return v, err
	}
	got := ref.Activated{MaxRows: a.rows, Poison: 0xff, Payload: func(row int) []byte { return rows[place[row]] }}
	if got.Beyond, err = download[byte](s.ranks, rank, declare.PartOut, end*l.Payload, (a.rows-end)*l.Payload); err != nil {
		return v, err
	}
	if got.Scales, err = download[byte](s.ranks, rank, declare.PartScales, 0, dtype.OutputScaleBytes(l, dtype.Groups(s.problem), a.rows)); err != nil {
		return v, err
	}
	return a.oracle.CheckActivation(rank, got, how, limit), nil
}

func (s *session) digestActivation() (string, error) {
	h := sha256.New()
	for rank := range s.ranks.local {
		for _, part := range s.activation.outputs(s.problem, 0) {
			b, err := download[byte](s.ranks, rank, part.Name, 0, int(part.Bytes))
			if err != nil {
				return "", err
			}
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
