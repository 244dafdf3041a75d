//go:build cuda

package epcomm

// #include "epcomm.h"
import "C"

import (
	"unsafe"

	"github.com/epbench/epbench/tune/ep"
)

// Call holds the arguments of a dispatch and of the combine that follows it. epcomm.h describes them at EpcommCall.
type Call struct {
	Slot       int
	DType      int // EpcommDType; 0: the pack's first dtype
	Tokens     int // of this rank
	Fullest    int // largest number of tokens of a rank; all ranks pass the same value
	Routing    int // EpcommRouting
	Purpose    int // EpcommPurpose
	WideIDs    bool
	X          Pointer // [tokens, hidden] BF16
	IDs        Pointer // [tokens, topk] int32, or int64 if WideIDs
	Weights    Pointer // [tokens, topk] float32
	InputScale Pointer // [1] float32, nvfp4
	Own        Outputs // the caller's outputs; zero: the library's
	Y          Pointer // [max_rows, hidden] BF16; with several nodes it must lie in Outputs.Y or epcomm_extra memory
	Combined   Pointer // [tokens, hidden] BF16
	Bias       Pointer // [hidden] BF16, for epilogue=bias
	Scale      float32 // for epilogue=scale
}

// Outputs holds the addresses to which dispatch writes. epcomm.h describes them at EpcommOutputs.
type Outputs struct {
	Out, Scales, RowOffsets, ExpertIDs, SrcInfo, ScaleOffsets Pointer

	Y Pointer // for experts' outputs with several nodes, else 0

	MaxRows, RowBytes, OutBytes, ScaleBytes int64
}

func (p Pointer) c() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func (k Call) c() C.EpcommCall {
	call := C.EpcommCall{
		slot: C.int(k.Slot), dtype: C.int(k.DType), tokens: C.int(k.Tokens), fullest: C.int(k.Fullest),
		routing: C.int(k.Routing), purpose: C.int(k.Purpose), ids_bits: 32,
		x: k.X.c(), topk_ids: k.IDs.c(), weights: (*C.float)(k.Weights.c()), input_scale: (*C.float)(k.InputScale.c()),
		out: k.Own.Out.c(), out_scales: k.Own.Scales.c(), row_offsets: (*C.uint32_t)(k.Own.RowOffsets.c()),
		expert_ids: (*C.int32_t)(k.Own.ExpertIDs.c()), src_info: (*C.int32_t)(k.Own.SrcInfo.c()),
		scale_offsets: (*C.uint32_t)(k.Own.ScaleOffsets.c()), y: k.Y.c(), combined: k.Combined.c(),
		bias: k.Bias.c(), epilogue_scale: C.float(k.Scale),
	}
	call.size = C.sizeof_EpcommCall
	if k.WideIDs {
		call.ids_bits = 64
	}
	return call
}

// Dispatch sends tokens to the ranks of their experts.
func (c *Comm) Dispatch(k Call, s Stream) error {
	call := k.c()
	return c.check(C.epcomm_dispatch(c.c, &call, C.EpcommStream(Pointer(s).c())))
}

// Combine sends rows back to the ranks of their tokens and sums them.
func (c *Comm) Combine(k Call, s Stream) error {
	call := k.c()
	return c.check(C.epcomm_combine(c.c, &call, C.EpcommStream(Pointer(s).c())))
}

// DispatchSend begins a dispatch. DispatchRecv completes its outputs.
func (c *Comm) DispatchSend(k Call, s Stream) error {
	call := k.c()
	return c.check(C.epcomm_dispatch_send(c.c, &call, C.EpcommStream(Pointer(s).c())))
}

// DispatchRecv ends the dispatch that DispatchSend began.
func (c *Comm) DispatchRecv(k Call, s Stream) error {
	call := k.c()
	return c.check(C.epcomm_dispatch_recv(c.c, &call, C.EpcommStream(Pointer(s).c())))
}

// CombineSend begins a combine. CombineRecv completes its outputs.
func (c *Comm) CombineSend(k Call, s Stream) error {
	call := k.c()
	return c.check(C.epcomm_combine_send(c.c, &call, C.EpcommStream(Pointer(s).c())))
}

// CombineRecv ends the combine that CombineSend began.
func (c *Comm) CombineRecv(k Call, s Stream) error {
	call := k.c()
	return c.check(C.epcomm_combine_recv(c.c, &call, C.EpcommStream(Pointer(s).c())))
}

// Barrier makes each rank's stream wait for the streams of all ranks.
func (c *Comm) Barrier(s Stream) error {
	return c.check(C.epcomm_barrier(c.c, C.EpcommStream(Pointer(s).c())))
}

// Stamp launches a kernel that writes the GPU's clock, in ns, to 8 bytes of device memory.
func (c *Comm) Stamp(at Pointer, s Stream) error {
	return c.check(C.epcomm_stamp(c.c, (*C.uint64_t)(at.c()), C.EpcommStream(Pointer(s).c())))
}

// Outputs returns the library's own outputs for a slot and a dtype.
func (c *Comm) Outputs(slot, dtype int) (Outputs, error) {
	o := C.EpcommOutputs{size: C.sizeof_EpcommOutputs}
	err := c.check(C.epcomm_outputs(c.c, C.int(slot), C.int(dtype), &o))
	at := func(p unsafe.Pointer) Pointer { return Pointer(uintptr(p)) }
	return Outputs{
		Out: at(o.out), Scales: at(o.out_scales), RowOffsets: at(unsafe.Pointer(o.row_offsets)),
		ExpertIDs: at(unsafe.Pointer(o.expert_ids)), SrcInfo: at(unsafe.Pointer(o.src_info)),
		ScaleOffsets: at(unsafe.Pointer(o.scale_offsets)), Y: at(o.y),
		MaxRows: int64(o.max_rows), RowBytes: int64(o.row_bytes), OutBytes: int64(o.out_bytes), ScaleBytes: int64(o.scale_bytes),
	}, err
}

// Info holds the properties of a pack and of this rank's memory.
type Info struct {
	Rank, Ranks, Nodes, Hidden, Experts, LocalExperts, TopK, MaxTokens, Groups, LargestGrid int

	Raw       bool // fp8 tokens are passed with scales
	HeapBytes int64
	Digest    string
	ABI       ep.ABI // identifies the build of the kernels
}

// Info returns the properties that the library reports.
func (c *Comm) Info() Info {
	i := C.EpcommInfo{size: C.sizeof_EpcommInfo}
	C.epcomm_info(c.c, &i)
	return infoOf(i)
}

// ReadPack returns the properties of a pack. It needs no GPU.
func ReadPack(data []byte) (Info, error) {
	i := C.EpcommInfo{size: C.sizeof_EpcommInfo}
	var text [C.EPCOMM_TEXT]C.char
	if s := C.epcomm_check_pack(unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), &i, &text[0]); s != C.EPCOMM_OK {
		return Info{}, &Error{Status(s), C.GoString(&text[0])}
	}
	return infoOf(i), nil
}

// MachineKey returns the key by which tables name this host's GPUs.
func MachineKey() (string, error) {
	m := C.EpcommMachine{size: C.sizeof_EpcommMachine}
	var text [C.EPCOMM_TEXT]C.char
	if s := C.epcomm_machine(&m, &text[0]); s != C.EPCOMM_OK {
		return "", &Error{Status(s), C.GoString(&text[0])}
	}
	return C.GoString(&m.key[0]), nil
}

func infoOf(i C.EpcommInfo) Info {
	return Info{
		Rank: int(i.rank), Ranks: int(i.ranks), Nodes: int(i.nodes), Hidden: int(i.hidden), Experts: int(i.experts),
		LocalExperts: int(i.local_experts), TopK: int(i.topk), MaxTokens: int(i.max_tokens), Groups: int(i.groups),
		LargestGrid: int(i.largest_grid), Raw: i.raw != 0, HeapBytes: int64(i.heap_bytes), Digest: C.GoString(&i.digest[0]), ABI: ep.ABI(C.GoString(&i.kernels[0])),
	}
}

// Explanation says which kernels a call launches, and why. epcomm.h describes it at EpcommExplanation.
type Explanation struct {
	Dispatch, Combine, Why string
	First, Last, Plan      int
}

// Explain returns which kernels a call would launch.
func (c *Comm) Explain(k Call) (Explanation, error) {
	call := k.c()
	x := C.EpcommExplanation{size: C.sizeof_EpcommExplanation}
	err := c.check(C.epcomm_explain(c.c, &call, &x))
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{C.GoString(x.dispatch), C.GoString(x.combine), C.GoString(x.why), int(x.first), int(x.last), int(x.plan)}, nil
}
