//go:build cuda

package main

// #cgo CFLAGS: -std=gnu99 -I${SRCDIR}/../../native/include
// #include <stdlib.h>
// #include "ep_args.h"
import "C"

import (
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"
	"unsafe"

	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/native/epcomm"
	"github.com/epbench/epbench/native/epcomm/gpu"
)

// rank is the state of a rank process, on one GPU.
type rank struct {
	place  place
	in     *gob.Decoder
	out    *gob.Encoder
	stream gpu.Stream
	inputs inputs
	comm   *epcomm.Comm
	outs   epcomm.Outputs         // addresses of the library's outputs
	parts  map[string]gpu.Pointer // device memory of inputs and outputs, by name
	expert gpu.Kernel             // the kernel that stands in for the experts
	module gpu.Module
}

// serveRank answers requests until the worker sends End or closes the input.
func serveRank(in io.Reader, out io.Writer) error {
	r := &rank{in: gob.NewDecoder(in), out: gob.NewEncoder(out), parts: map[string]gpu.Pointer{}}
	for {
		var q request
		if err := r.in.Decode(&q); errors.Is(err, io.EOF) || err == nil && q.End {
			return nil
		} else if err != nil {
			return err
		}
		a, err := r.answer(q)
		if err != nil {
			a.Error = err.Error()
			var refused *epcomm.Error
			a.Fault = errors.As(err, &refused) && refused.Status == epcomm.Faulted
		}
		if err := r.out.Encode(a); err != nil {
			return err
		}
	}
}

func (r *rank) answer(q request) (reply, error) {
	switch {
	case q.Place != nil:
		r.place = *q.Place
		gpu.Use(r.place.Device)
		r.stream = gpu.NewStream()
		return reply{}, nil
	case q.Inputs != nil:
		r.take(*q.Inputs)
		return reply{}, nil
	case q.Load != nil:
		return reply{}, r.load(*q.Load)
	case q.Prove != nil:
		return reply{}, r.prove(*q.Prove)
	case q.Fetch != nil:
		data, err := r.fetch(*q.Fetch)
		return reply{Data: data}, err
	case q.Run != nil:
		times, err := r.run(*q.Run)
		return reply{Times: times}, err
	}
	return reply{}, errors.New("an empty request")
}

// gather sends this rank's bytes to the worker and returns the bytes of all ranks.
func (r *rank) gather(mine []byte) ([]byte, error) {
	if err := r.out.Encode(reply{Gather: mine, Asks: true}); err != nil {
		return nil, err
	}
	var q request
	err := r.in.Decode(&q)
	if err == nil && len(q.Gather) != r.place.Ranks*len(mine) {
		err = errors.New("another rank has ended")
	}
	return q.Gather, err
}

// take uploads new inputs and destroys the old communicator.
func (r *rank) take(in inputs) {
	r.unload()
	for _, p := range r.parts {
		gpu.Free(p)
	}
	clear(r.parts)
	if r.module != nil {
		gpu.Unload(r.module)
		r.module, r.expert = nil, nil
	}
	r.inputs = in
	hidden, capacity := int64(in.Hidden), int64(max(in.Capacity, 1))
	for part, bytes := range map[string]int64{
		"x": 2 * hidden * capacity, "ids": 4 * int64(in.TopK) * capacity, "weights": 4 * int64(in.TopK) * capacity,
		"scale": 4, "bias": 2 * hidden, "combined": 2 * hidden * capacity,
	} {
		r.parts[part] = gpu.Alloc(bytes)
	}
	gpu.Upload(r.parts["x"], in.X, r.stream)
	gpu.Upload(r.parts["ids"], in.IDs, r.stream)
	gpu.Upload(r.parts["weights"], in.Weights, r.stream)
	gpu.Upload(r.parts["scale"], []float32{1}, r.stream)
	gpu.Upload(r.parts["bias"], in.Bias, r.stream)
	for part, data := range map[string][]byte{"cast": in.Cast, "cast scales": in.CastScales} {
		r.parts[part] = gpu.Alloc(int64(max(len(data), 4)))
		gpu.Upload(r.parts[part], data, r.stream)
	}
	if len(in.Expert) > 0 {
		r.module = gpu.Load(in.Expert)
		r.expert = gpu.Function(r.module, "ep_expert")
	}
}

func (r *rank) unload() {
	if r.comm != nil {
		_ = r.comm.Destroy()
		r.comm = nil
	}
	if y := r.parts["y"]; y != 0 {
		gpu.Free(y)
		delete(r.parts, "y")
	}
}

func (r *rank) load(l load) (err error) {
	r.unload()
	r.comm, err = epcomm.Create(epcomm.Options{
		Pack: l.Pack, Nodes: l.Nodes, Rank: r.place.Rank, Ranks: r.place.Ranks, Device: r.place.Device,
		Deadline: time.Duration(l.Deadline), Reduced: l.Reduced, Gather: r.gather,
	})
	if err != nil {
		return err
	}
	if r.outs, err = r.comm.Outputs(0, r.inputs.DType); err != nil {
		return err
	}
	if r.outs.Y == 0 { // the library allocates Y only if there are several nodes
		r.parts["y"] = gpu.Alloc(2 * r.outs.MaxRows * int64(r.inputs.Hidden))
	}
	return nil
}

func (r *rank) call() epcomm.Call {
	at := func(part string) epcomm.Pointer { return epcomm.Pointer(r.parts[part]) }
	x, scale := at("x"), at("scale")
	if r.comm.Info().Raw && len(r.inputs.Cast) > 0 {
		x, scale = at("cast"), at("cast scales")
	}
	return epcomm.Call{
		DType: r.inputs.DType, Tokens: r.inputs.Tokens, Fullest: r.inputs.Fullest, Routing: r.inputs.Routing,
		Purpose: r.inputs.Purpose, X: x, IDs: at("ids"), Weights: at("weights"), InputScale: scale,
		Y: r.rows(), Combined: at("combined"), Bias: at("bias"), Scale: r.inputs.Scale,
	}
}

func (r *rank) rows() epcomm.Pointer { return max(r.outs.Y, epcomm.Pointer(r.parts["y"])) }

func (r *rank) onStream() epcomm.Stream { return epcomm.Stream(uintptr(r.stream)) }

// prove fills the outputs with 0xff bytes and runs one call, so that the oracle sees what the call wrote.
func (r *rank) prove(p prove) error {
	o := r.outs
	groups := int64(r.inputs.Groups)
	index := r.inputs.Index
	for at, bytes := range map[epcomm.Pointer]int64{
		o.Out: o.OutBytes, o.Scales: o.ScaleBytes, o.RowOffsets: 4 * (groups + 1), o.ExpertIDs: index.ExpertIDs,
		o.SrcInfo: index.SrcInfo, o.ScaleOffsets: index.ScaleOffsets, r.rows(): 2 * o.MaxRows * int64(r.inputs.Hidden),
		epcomm.Pointer(r.parts["combined"]): 2 * int64(max(r.inputs.Capacity, 1)*r.inputs.Hidden),
	} {
		if at != 0 {
			gpu.Fill(gpu.Pointer(at), 0xff, bytes, r.stream)
		}
	}
	k := r.call()
	err := errors.Join(r.comm.Barrier(r.onStream()), r.comm.Dispatch(k, r.onStream()))
	if err == nil && p.Combine {
		r.experts()
		err = r.comm.Combine(k, r.onStream())
	}
	if err == nil {
		err = r.comm.Barrier(r.onStream())
	}
	gpu.Wait(r.stream)
	return cmp.Or(r.comm.Fault(), err) // the fault describes the wait that failed
}

func (r *rank) experts() {
	a := (*C.EpArgs)(C.calloc(1, C.sizeof_EpArgs))
	defer C.free(unsafe.Pointer(a))
	in, o := r.inputs, r.outs
	a.rank, a.ranks, a.max_rows = C.int32_t(r.place.Rank), C.int32_t(r.place.Ranks), C.int64_t(o.MaxRows)
	a.max_tokens = C.int32_t(max(in.Capacity, 1))
	for field, at := range map[unsafe.Pointer]epcomm.Pointer{
		unsafe.Pointer(&a.out): o.Out, unsafe.Pointer(&a.out_scales): o.Scales, unsafe.Pointer(&a.row_offsets): o.RowOffsets,
		unsafe.Pointer(&a.expert_ids):    o.ExpertIDs,
		unsafe.Pointer(&a.scale_offsets): o.ScaleOffsets, unsafe.Pointer(&a.y): r.rows(),
		unsafe.Pointer(&a.input_scales): epcomm.Pointer(r.parts["scale"]),
	} {
		*(*uintptr)(field) = uintptr(at)
	}
	gpu.Launch(r.expert, max(1, min(in.Fullest, 256)), 256, unsafe.Pointer(a), r.stream)
}

func (r *rank) fetch(f fetch) ([]byte, error) {
	o := r.outs
	at := map[string]epcomm.Pointer{
		ref.PartOut: o.Out, ref.PartScales: o.Scales, ref.PartRowOffsets: o.RowOffsets, ref.PartExpertIDs: o.ExpertIDs,
		ref.PartSrcInfo: o.SrcInfo, ref.PartScaleOffsets: o.ScaleOffsets, ref.PartCombined: epcomm.Pointer(r.parts["combined"]),
	}[f.Part]
	if at == 0 {
		return nil, fmt.Errorf("%s: this rank has no such part", f.Part)
	}
	out := make([]byte, 0, len(f.Offsets)*f.Bytes)
	for _, offset := range f.Offsets {
		out = append(out, gpu.Download(gpu.Pointer(at)+gpu.Pointer(offset), int64(f.Bytes), r.stream)...)
	}
	return out, nil
}
