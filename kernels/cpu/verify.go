package cpu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// poison fills memory before a verified call. As BF16 the value is large and negative, so that it changes
// every sum.
const poison = 0xd5

// verifyBytes is how many bytes of each rank's output Verify compares.
const verifyBytes = 8 << 20

// Verify runs a candidate once from poisoned buffers and compares the outputs with the oracle's.
func (s *Session) Verify(ctx context.Context, c ep.Config) (kernels.Comparison, error) {
	stop := s.beside.background()
	err := s.runPoisoned(ctx, c)
	stop()
	if err != nil {
		var f *kernels.Failure
		if errors.As(err, &f) && f.Status == ep.Mismatch {
			return kernels.Comparison{Wrong: 1, Detail: f.Reason}, nil
		}
		return kernels.Comparison{}, err
	}
	var v kernels.Comparison
	if s.Op == ep.Activation {
		for _, r := range s.ranks {
			v = ref.Merge(v, s.checkActivation(r, c))
		}
		return v, ctx.Err()
	}
	_, combine, err := s.halves(c)
	if err != nil {
		return v, err
	}
	for _, r := range s.ranks {
		if s.Op != ep.Combine {
			v = ref.Merge(v, s.checkDispatch(r))
		}
		if combine != nil {
			v = ref.Merge(v, s.checkCombine(r, combine.dedup))
		}
	}
	return v, ctx.Err()
}

func (s *Session) runPoisoned(ctx context.Context, c ep.Config) error {
	if err := s.Prepare(ctx, c); err != nil {
		return err
	}
	if s.Op == ep.Activation {
		return s.runPoisonedActivation(ctx, c)
	}
	d, k, err := s.halves(c)
	if err != nil {
		return err
	}
	once, fault := kernels.RunSpec{Rounds: 1, Fold: 1}, s.backend.faulty(c)
	for _, r := range s.ranks {
		r.poison(s.shape, s.arrivalsOf(r))
	}
	if d != nil {
		program := dispatchStages(*d)
		if k != nil {
			program = append(program, stage{launch{blocks: 1, tile: 4}, (*worker).actAsExperts})
		}
		if _, err := s.start(ctx, program, once, fault); err != nil {
			return err
		}
	} else {
		s.returned = false
		if err := s.setUp(ctx); err != nil {
			return err
		}
	}
	if k != nil {
		_, err = s.start(ctx, combineStages(*k), once, fault)
	}
	return err
}

// arrivalsOf counts each expert's rows from each source. It reads the routing, because a candidate's counts may be
// wrong.
func (s *Session) arrivalsOf(r *rank) []int {
	counts := make([]int, s.local*s.sources)
	for source := range s.sources {
		from := s.ranks[source]
		for _, e := range from.experts {
			if e >= 0 && int(e)/s.local == r.id {
				counts[int(e)%s.local*s.sources+source]++
			}
		}
	}
	return counts
}

func (r *rank) poison(s shape, arrivals []int) {
	for i := range sets {
		in, back := &r.inbox[i], &r.returns[i]
		for pair, n := range arrivals {
			if in.slots != nil {
				fill(in.slots[pair*s.MaxTokens*s.header.Bytes:][:n*s.header.Bytes])
			}
		}
		fill(in.messages)
		fill(back.rows[:min(len(back.rows), r.tokens*s.TopK*s.rowBytes)])
		fill(back.partials)
	}
	for _, rows := range written(s, r.shared.count, arrivals) {
		fill(r.out[rows.start*s.encoding.Payload:][:rows.count*s.encoding.Payload])
		if r.y != nil {
			fill(octets(r.y)[rows.start*s.rowBytes:][:rows.count*s.rowBytes])
		}
	}
	fill(r.scales)
	fill(octets(r.combined))
	clear(r.offsets)
	clear(r.ranges)
	for _, index := range [][]int32{r.srcInfo, r.localExpert} {
		for i := range index {
			index[i] = -2
		}
	}
}

func written(s shape, shared int, arrivals []int) []span {
	if s.byRank {
		return []span{{0, s.maxRows}}
	}
	all, rows := 0, make([]int, s.local)
	for pair, n := range arrivals {
		all += n
		rows[pair/s.sources] += n
	}
	if s.room == 0 {
		return []span{{0, min(all+shared+dtype.RowPad(s.Problem)*s.groups, s.maxRows)}}
	}
	var out []span
	for e, n := range rows {
		out = append(out, span{e * s.room, n})
	}
	return out
}

func fill(b []byte) {
	for i := range min(len(b), 4096) {
		b[i] = poison
	}
	for done := 4096; done < len(b); done += 4096 {
		copy(b[done:], b[:4096])
	}
}

func (s *Session) checkDispatch(r *rank) kernels.Comparison {
	return s.oracle.CheckDispatch(r.id, s.delivered(r), ref.Compare{MaxRows: sample(s.encoding.Payload)})
}

func (s *Session) delivered(r *rank) ref.Output {
	out := ref.Output{
		RowOffsets: r.offsets, ExpertIDs: r.ids, SrcInfo: r.srcInfo,
		MaxRows: s.maxRows, Scales: r.scales,
		Payload: ref.Flat(r.out, s.encoding.Payload),
	}
	if s.encoding.DType == ep.NVFP4 {
		out.ScaleOffsets = r.blocks
	}
	out.Ranges, out.Experts, out.Weights = r.ranges, r.localExpert, r.localWeight
	return out
}

// Probe returns one row of the last Verify, [hidden] BF16 values: the combined row for k = -1, else the row that the
// k-th expert received.
func (s *Session) Probe(rank, token, k int) ([]uint16, error) {
	if s.Op == ep.Activation {
		return nil, fmt.Errorf("probe: op activation has no rows of tokens; probe dispatch, combine or pair")
	}
	if k < 0 {
		return s.ranks[rank].combined[token*s.Hidden : (token+1)*s.Hidden], nil
	}
	return s.oracle.Received(rank, token, k, func(owner int) (ref.Output, error) { return s.delivered(s.ranks[owner]), nil })
}

func (s *Session) checkCombine(r *rank, dedup bool) kernels.Comparison {
	token := func(t int) []uint16 { return r.combined[t*s.Hidden : (t+1)*s.Hidden] }
	c := ref.Compare{MaxRows: sample(s.rowBytes * s.TopK), Bits: !dedup || s.byRank}
	if dedup {
		c.Partial = ref.BF16Partial
	}
	return s.oracle.CheckCombine(r.id, token, c)
}

func sample(rowBytes int) int { return max(verifyBytes/rowBytes, 16) }

// Digest runs a candidate from poisoned buffers and hashes all outputs.
func (s *Session) Digest(ctx context.Context, c ep.Config) (string, error) {
	if err := s.runPoisoned(ctx, c); err != nil {
		return "", err
	}
	h := sha256.New()
	for _, r := range s.ranks {
		if s.Op == ep.Activation {
			h.Write(r.out[:int(r.offsets[s.groups])*s.encoding.Payload])
			h.Write(r.scales)
			continue
		}
		h.Write(octets(r.combined))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
