package cpu

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func activationKernel() kernels.Kernel {
	return kernels.Kernel{
		Name:   "activation",
		Op:     ep.Activation,
		Doc:    "SwiGLU of each row, rounded to the dtype.",
		Params: activationParams(),
		Check:  checkActivation,
		Default: func(m ep.Machine, p ep.Problem) ep.Config {
			c := kernels.Kernel{Name: "activation", Params: activationParams()}.DefaultConfig(m, p)
			if p.Ranks < m.SMs {
				c = c.With("blocks", "2")
			}
			return c
		},
	}
}

func activationParams() []kernels.Param {
	return append([]kernels.Param{
		{Name: "blocks", Doc: "workers of a rank", Unit: "workers", Values: []ep.Value{"1", "2", "4"}, Default: "1",
			Binding: kernels.Launch, Class: kernels.Speed, Cost: kernels.SMCost},
		{Name: "tile_tokens", Doc: "rows claimed at a time", Unit: "tokens", Values: []ep.Value{"4", "32"}, Default: "4",
			Binding: kernels.Launch, Class: kernels.Speed},
	}, kernels.ActivationParams()...)
}

func checkActivation(_ ep.Machine, p ep.Problem, c ep.Config) error {
	return cmp.Or(checkProblem(p),
		kernels.CheckNames(c, activationParams()),
		kernels.CheckRange(c, "blocks", 1, maxBlocks),
		kernels.CheckRange(c, "tile_tokens", 1, maxTile),
		kernels.CheckActivation(p, c))
}

func (s *Session) makeGates(r *rank) error {
	d := s.oracle.Dispatch(r.id)
	b, err := s.arena.bytes(d.End * 4 * s.Hidden)
	if err != nil {
		return err
	}
	r.in = halves(b)
	r.offsets, r.blocks = d.RowOffsets, d.ScaleOffsets
	for row := range d.End {
		s.workload.Gates(r.id, row, r.in[row*2*s.Hidden:][:2*s.Hidden])
	}
	return nil
}

func activationStages(c ep.Config) []stage {
	how := ref.ActivationOf(c)
	return []stage{{decode(c), func(w *worker, l launch, _ int) bool {
		w.activate(l, how)
		return true
	}}}
}

func (w *worker) activate(l launch, how ref.Activation) {
	s, r := &w.s.shape, w.r
	z, scales := make([]float32, s.Hidden), make([]byte, s.encoding.Scales*s.encoding.ScaleBytes)
	group := 0
	for row := range l.claimRows(&r.move, int(r.offsets[s.groups])) {
		for row >= int(r.offsets[group+1]) {
			group++
		}
		swiglu(how, r.in[row*2*s.Hidden:][:2*s.Hidden], z)
		out := r.out[row*s.encoding.Payload:][:s.encoding.Payload]
		if s.encoding.Group == 0 {
			for i, v := range z {
				binary.LittleEndian.PutUint16(out[2*i:], narrow(v))
			}
			continue
		}
		quantizeFloats(s.encoding, z, out, scales, workloads.ActivationScale(group))
		r.placeScales(s, group, row, scales)
	}
	if w.id == 0 {
		r.clearPadding(s)
	}
}

func swiglu(how ref.Activation, in []uint16, z []float32) {
	for i := range z {
		gate, up := widen(in[i]), float32(0)
		if how.Interleaved {
			gate, up = widen(in[2*i]), widen(in[2*i+1])
		} else {
			up = widen(in[len(z)+i])
		}
		alpha := float32(1)
		if c := how.Clamp; c != nil {
			gate, up, alpha = min(gate, c.Limit), min(max(up, -c.Limit), c.Limit)+1, c.Alpha
		}
		z[i] = gate / (1 + float32(math.Exp(float64(-alpha*gate)))) * up
	}
}

func quantizeFloats(l dtype.Encoding, z []float32, payload, scales []byte, global float32) {
	for g := range l.Scales {
		group, factor, m := z[g*l.Group:(g+1)*l.Group], float32(0), float32(0)
		for _, v := range group {
			m = max(m, v, -v)
		}
		out := payload[g*l.Group*l.Payload/l.Hidden:]
		switch l.DType {
		case ep.FP8:
			s := max(m, 1e-4) / 448
			binary.LittleEndian.PutUint32(scales[4*g:], math.Float32bits(s))
			for i, v := range group {
				out[i] = e4m3(v / s)
			}
			continue
		case ep.MXFP4:
			scales[g] = evenScale(m)
			factor = exponent(254 - int(scales[g]))
		case ep.NVFP4:
			if scales[g] = e4m3(global * (m * (1. / 6))); scales[g] != 0 {
				factor = 1 / (fromE4M3(scales[g]) * (1 / global))
			}
		}
		for i := 0; i < len(group); i += 2 {
			out[i/2] = e2m1(group[i]*factor) | e2m1(group[i+1]*factor)<<4
		}
	}
}

// clearPadding zeroes the NVFP4 scales after each group's last row. It does not write the other bytes of the
// last block, because other workers write them.
func (r *rank) clearPadding(s *shape) {
	for g := range s.groups {
		start, rows := int(r.offsets[g]), int(r.offsets[g+1]-r.offsets[g])
		r.clearScaleTail(s, start/dtype.ScaleBlockRows+int(r.blocks[g]), rows, true)
	}
}

func (s *Session) runPoisonedActivation(ctx context.Context, c ep.Config) error {
	for _, r := range s.ranks {
		fill(r.out[:min(int(r.offsets[s.groups])+beyondRows, s.maxRows)*s.encoding.Payload])
		fill(r.scales)
	}
	_, err := s.start(ctx, activationStages(c), kernels.RunSpec{Rounds: 1, Fold: 1}, s.backend.faulty(c))
	return err
}

// beyondRows is the number of unused rows after the last valid row that the check also reads.
const beyondRows = 2

func (s *Session) checkActivation(r *rank, c ep.Config) kernels.Comparison {
	size, end := s.encoding.Payload, int(r.offsets[s.groups])
	return s.oracle.CheckActivation(r.id, ref.Activated{
		MaxRows: s.maxRows, Payload: ref.Flat(r.out, size), Scales: r.scales,
		Beyond: r.out[end*size : min(end+beyondRows, s.maxRows)*size], Poison: poison,
	}, ref.ActivationOf(c), sample(size))
}
