//go:build cuda

package drive

import (
	"cmp"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/epbench/epbench/kernels/cuda/declare"
)

// upload copies the inputs to every rank. Every verification calls upload, because a wrong kernel may have overwritten
// the inputs.
func (s *session) upload() error {
	if s.copies == nil {
		s.copies = make([]cu.DevicePtr, len(s.ranks.local))
	}
	put := s.putInputs
	if s.activation != nil {
		put = s.putActivation
	}
	return sideBySide(len(s.ranks.local), func(rank int) error {
		// Synchronize waits for the copies, because the streams of calls do not.
		return s.ranks.local[rank].gpu.do(func() error { return cmp.Or(put(rank), cu.Synchronize()) })
	})
}

// putInputs copies the inputs to a rank. Call putInputs on the GPU's thread. It does not wait for the copies.
func (s *session) putInputs(rank int) error {
	in := s.workload.Ranks[s.workload.BatchRank(s.ranks.rankOf(rank))]
	return cmp.Or(
		s.putTokens(rank),
		s.putCast(rank),
		put(s.ranks, rank, declare.PartIDs, in.Experts),
		put(s.ranks, rank, declare.PartWeights, in.Weights),
		put(s.ranks, rank, declare.PartInputScale, []float32{s.backend.options.InputScale}),
		put(s.ranks, rank, declare.PartBias, declare.Bias(s.problem.Hidden)))
}

type castTokens struct{ payload, scales []byte }

func (s *session) castAll() []castTokens {
	out := make([]castTokens, len(s.ranks.local))
	_ = sideBySide(len(out), func(i int) error {
		out[i].payload, out[i].scales = s.oracle.Cast(s.ranks.rankOf(i))
		return nil
	})
	return out
}

func (s *session) putCast(rank int) error {
	if s.cast == nil {
		return nil
	}
	of := s.cast[rank]
	return cmp.Or(put(s.ranks, rank, declare.PartCast, of.payload), put(s.ranks, rank, declare.PartCastScales, of.scales))
}

// putTokens copies the tokens to a rank. It also keeps a copy on the GPU, from which later uploads are faster.
func (s *session) putTokens(rank int) error {
	data := s.tokens[rank]
	if len(data) == 0 {
		return nil
	}
	bytes := int64(len(data)) * int64(unsafe.Sizeof(data[0]))
	to := s.ranks.at(rank, declare.PartX)
	if s.copies[rank] != 0 {
		return copyOnGPU(rank, to, s.copies[rank], bytes)
	}
	if err := put(s.ranks, rank, declare.PartX, data); err != nil {
		return err
	}
	var err error
	if s.copies[rank], err = cu.MemAlloc(bytes); err != nil {
		s.copies[rank] = 0
		return nil // too little memory for a copy
	}
	return copyOnGPU(rank, s.copies[rank], to, bytes)
}

// copyOnGPU copies within a GPU. Call copyOnGPU on the GPU's thread. It does not wait for the copy.
func copyOnGPU(rank int, to, from cu.DevicePtr, bytes int64) error {
	if err := cu.MemcpyDtoD(to, from, bytes); err != nil {
		return fmt.Errorf("rank %d: copy inputs: %w", rank, err)
	}
	return nil
}

func (s *session) freeCopies() {
	for rank, at := range s.copies {
		if at != 0 {
			_ = s.ranks.local[rank].gpu.do(func() error { return cu.MemFree(at) })
		}
	}
}
