"""EP runs epcomm's dispatch and combine kernels on PyTorch tensors.

Dispatch sends each token to the ranks (GPUs) that hold its experts. Combine brings the experts' outputs back. In code
that torch.compile compiles, call this module's functions dispatch and combine in place of EP's methods.
"""

import contextlib
import ctypes
import itertools
import typing

import torch

from . import native
from .comm import DTYPES, LAYOUTS, PURPOSES, ROUTINGS, Call, Comm, EpcommError, lib, word

_ELEMENTS = {1: torch.bfloat16, 2: torch.float8_e4m3fn, 3: torch.uint8, 4: torch.uint8}
_HALVES = {"": 0, "_send": 1, "_recv": 2}


def _numbers(dtype, routing, purpose):
    """Converts names such as "fp8" to the library's numbers."""
    return (DTYPES[dtype] if dtype.__class__ is str else dtype, ROUTINGS[routing] if routing.__class__ is str else routing,
            PURPOSES[purpose] if purpose.__class__ is str else purpose)


class Dispatched(typing.NamedTuple):
    """The outputs of dispatch. Each row is one token for one expert of this rank. A group is the rows of one expert.
    Group g begins at row row_offsets[g] and ends before row row_offsets[g + 1]. Only the first row_offsets[-1] rows
    hold data."""

    out: torch.Tensor          # [max_rows, hidden]; fp4: [max_rows, hidden/2] bytes
    scales: torch.Tensor       # fp8: float32 [hidden/128, max_rows]; fp4: bytes; bf16: empty
    row_offsets: torch.Tensor  # int32 [groups + 1]
    expert_ids: torch.Tensor   # int32 [groups]: each group's local expert
    src_info: torch.Tensor     # int32 [max_rows, 2]: token on its source rank, top-k position of the expert


class _Memory:
    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def _bytes(address, size, device):
    if not address or not size:
        return torch.empty(0, dtype=torch.uint8, device=device)
    if device.type == "cpu":
        return torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=torch.uint8)
    return torch.as_tensor(_Memory(address, size), device=device)


def _group_gather(group):
    import torch.distributed as dist

    def gather(mine):
        parts = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, mine, group=group)
        return b"".join(parts)

    return gather


class EP:
    """One rank of expert parallelism on one GPU.

    `group` is a torch.distributed group, or None for the default group. Without torch.distributed, pass `rank`,
    `ranks` and a function all_gather(bytes) -> bytes. `pack` is the path of a file that `epbench pack` makes, with
    layout expert or expert:128. Comm explains all further options.

    Calls in different slots can run at the same time. dispatch returns views of its slot's memory, which are valid
    until the next dispatch in this slot. If you pass a stream to a call, first make this stream wait for the work
    that writes the call's tensors. Keep these tensors until the call has ended.
    """

    def __init__(self, group=None, pack=None, *, device=None, rank=None, ranks=None, all_gather=None, **options):
        if pack is None:
            raise ValueError("pack: give the path of a pack; `epbench pack` makes one")
        if all_gather is None and ranks != 1:
            import torch.distributed as dist

            rank, ranks, all_gather = dist.get_rank(group), dist.get_world_size(group), _group_gather(group)
        if device is None:
            device = torch.device("cuda", torch.cuda.current_device())
        self.device = torch.device(device)
        self._kind = self.device.type
        index = self.device.index if self.device.index is not None else rank if self.device.type == "cpu" else torch.cuda.current_device()
        if self.device.type == "cuda":
            torch.empty(1, device=self.device)  # makes torch create the CUDA context with torch's flags
        self.comm = Comm(pack, rank or 0, ranks, index, all_gather, **options)
        self.info = i = self.comm.info
        self._check_layout()
        self.hidden, self.topk, self.max_tokens, self.groups = i.hidden, i.topk, i.max_tokens, i.groups
        self.experts, self.local_experts, self.rank, self.ranks = i.experts, i.local_experts, i.rank, i.ranks
        self._calls = [Call(slot=s) for s in range(i.in_flight)]
        self._begun = [None] * i.in_flight  # for each slot: output of a combine that was sent but not received
        self._views, self._rows = {}, {}
        self._index = index
        self._settle = native.emulated_context(index)[1] if self.device.type == "cpu" else None
        self._native, self._said = self._extension() if native.load() else (None, None)
        self.id = _register(self)

    def _extension(self):
        numbers = [self.ranks, self.local_experts, self.hidden, self.topk, self.max_tokens] + [0] * 11
        number = native.new_link(lib(), self.comm.handle, None, None, numbers)
        return (native.operators().call, number), ctypes.c_int32.from_address(native.load().epcomm_native_said(number))

    def _call_natively(self, which, rows, ids, weights, out, *numbers, stream):
        """Makes a call with the C++ extension. Returns False if the extension cannot make it."""
        if self._native is None:
            return False
        self.comm.handle  # noqa: B018  raises if the EP was destroyed
        operator, number = self._native
        try:
            operator(number, self._stream(stream), which, rows, ids, weights, out, *numbers)
        except RuntimeError:
            if self._said.value == native.MISREAD:
                return False
            raise EpcommError(self._said.value, lib().epcomm_error(self.comm.handle).decode(errors="replace")) from None
        return True

    def _check_layout(self):
        layout = LAYOUTS[self.info.layout]
        if layout not in ("expert", "expert:128"):
            self.comm.destroy()
            raise ValueError(f"pack: layout {layout}, EP takes expert and expert:128; make a pack with --layout expert, or use "
                             "epcomm.deepep.Buffer or epcomm.Comm")

    def _view(self, slot, dtype):
        dtype = dtype or self.info.default_dtype
        view = self._views.get((slot, dtype))
        if view is None:
            o = self.comm.outputs(slot, dtype)
            b = lambda address, size: _bytes(address, size, self.device)
            scales = b(o.out_scales, o.scale_bytes)
            if dtype == 2:
                scales = scales.view(torch.float32).view(o.scales, o.max_rows)
            view = self._views[(slot, dtype)] = Dispatched(
                b(o.out, o.out_bytes).view(_ELEMENTS[dtype]).view(o.max_rows, -1), scales,
                b(o.row_offsets, 4 * (self.groups + 1)).view(torch.int32), b(o.expert_ids, 4 * self.groups).view(torch.int32),
                b(o.src_info, 8 * o.max_rows).view(torch.int32).view(-1, 2))
        return view

    def _stream(self, stream):
        if stream is not None:
            return stream.cuda_stream
        return 0 if self.device.type == "cpu" else torch._C._cuda_getCurrentRawStream(self._index)

    def _call(self, ids, weights, fullest, slot, dtype, routing, purpose):
        call = self._calls[slot]
        if ids.dtype is torch.int32:
            call.ids_bits = 32
        elif ids.dtype is torch.int64:
            call.ids_bits = 64
        else:
            raise TypeError(f"topk_ids: {ids.dtype}, give int32 or int64")
        if weights.dtype is not torch.float32:
            raise TypeError(f"weights: {weights.dtype}, give float32")
        if not (ids.is_contiguous() and weights.is_contiguous()):
            raise ValueError("topk_ids, weights: not contiguous; pass .contiguous()")
        if {ids.device.type, weights.device.type} != {self._kind}:
            raise ValueError(f"topk_ids, weights: on {ids.device} and {weights.device}; give tensors on {self.device}")
        if ids.shape != weights.shape or ids.shape[1] != self.topk:
            raise ValueError(f"topk_ids, weights: {tuple(ids.shape)} and {tuple(weights.shape)}, want [tokens, {self.topk}]")
        call.tokens, call.fullest = ids.shape[0], fullest
        call.topk_ids, call.weights = ids.data_ptr(), weights.data_ptr()
        call.dtype, call.routing, call.purpose = dtype, routing, purpose
        return call

    def _check_rows(self, name, t, rows):
        if t.dtype is not torch.bfloat16 or not t.is_contiguous() or t.shape[-1] != self.hidden or t.shape[0] < rows:
            raise ValueError(f"{name}: {t.dtype} {tuple(t.shape)}, want contiguous bfloat16 [at least {rows}, {self.hidden}]")
        if t.device.type != self._kind:
            raise ValueError(f"{name}: on {t.device}; give a tensor on {self.device}")

    def dispatch(self, x, topk_ids, weights, *, fullest=0, slot=0, dtype=0, routing=0, purpose=0, stream=None, half=""):
        """Sends tokens to the ranks of their experts.

        x: bfloat16 [tokens, hidden]. topk_ids: int32 or int64 [tokens, topk], with -1 for no expert. weights: float32
        [tokens, topk]. `fullest` is the token count of the fullest rank in this call, or 0 for max_tokens. All ranks
        must pass the same number. `half` is "" for a whole call. To send and receive in two calls, pass "_send" and
        then "_recv".
        """
        dtype, routing, purpose = _numbers(dtype, routing, purpose)
        if not self._call_natively(_HALVES[half], x, topk_ids, weights, None, fullest, slot, dtype, routing, purpose, stream=stream):
            call = self._call(topk_ids, weights, fullest, slot, dtype, routing, purpose)
            if call.tokens:
                self._check_rows("x", x, call.tokens)
            call.x = x.data_ptr()
            self._launched(getattr(lib(), "epcomm_dispatch" + half)(self.comm.handle, call, self._stream(stream)))
        elif self._settle:
            self._settle()
        return self._view(slot, dtype)

    def combine(self, y, topk_ids, weights, *, out=None, fullest=0, slot=0, dtype=0, routing=0, purpose=0, stream=None, half=""):
        """Sends the experts' outputs back to the ranks of their tokens. Returns the weighted sum for each token,
        bfloat16 [tokens, hidden].

        y: bfloat16 [max_rows, hidden], the experts' output for each row of the dispatch. On several nodes, combine
        copies y to the memory self.y(slot), unless y is this memory. topk_ids, weights, fullest, slot, dtype, routing
        and purpose must be the arguments of the dispatch. `out` is the tensor for the result. To send and receive in
        two calls, pass `out` only with "_send".
        """
        dtype, routing, purpose = _numbers(dtype, routing, purpose)
        self._check_rows("y", y, 0)
        out = self._combined(out, slot, topk_ids.shape[0], half, stream)
        y = self._readable(y, slot, half, stream)
        if not self._call_natively(3 + _HALVES[half], y, topk_ids, weights, out, fullest, slot, dtype, routing, purpose, stream=stream):
            call = self._call(topk_ids, weights, fullest, slot, dtype, routing, purpose)
            self._check_rows("out", out, call.tokens)
            call.y, call.combined = y.data_ptr(), out.data_ptr()
            self._launched(getattr(lib(), "epcomm_combine" + half)(self.comm.handle, call, self._stream(stream)))
        elif self._settle:
            self._settle()
        self._begun[slot] = out if half == "_send" else None
        return out

    def _launched(self, status):
        if self._settle:
            self._settle()
        self.comm.check(status)

    def _on(self, stream):
        return torch.cuda.stream(stream) if stream is not None and self.device.type == "cuda" else contextlib.nullcontext()

    def _new_rows(self, rows, stream):
        with self._on(stream):
            out = torch.empty((rows, self.hidden), dtype=torch.bfloat16, device=self.device)
        if stream is not None and self.device.type == "cuda":
            out.record_stream(torch.cuda.current_stream(self.device))
        return out

    def _combined(self, out, slot, tokens, half, stream):
        begun = self._begun[slot] if half == "_recv" else None
        if begun is None:
            return out if out is not None else self._new_rows(tokens, stream)
        if out is not None and out.data_ptr() != begun.data_ptr():
            raise ValueError("out: not the tensor that the send had; pass this argument only to the send")
        if self.device.type == "cuda":
            begun.record_stream(stream or torch.cuda.current_stream(self.device))
        return begun

    def y(self, slot=0):
        """Returns the library's memory for the argument y of combine, bfloat16 [max_rows, hidden], or None on one
        node. If the experts write their outputs to this memory, combine need not copy the outputs."""
        view = self._rows.get(slot)
        if view is None and self.info.nodes > 1:
            address, rows = self.comm.outputs(slot).y, max(self.max_rows(d) for d in range(1, 5) if self.info.dtypes >> d & 1)
            view = self._rows[slot] = _bytes(address, 2 * rows * self.hidden, self.device).view(torch.bfloat16).view(rows, self.hidden)
        return view

    def _readable(self, y, slot, half, stream):
        room = self.y(slot)
        if room is None or room.data_ptr() <= y.data_ptr() < room.data_ptr() + 2 * room.numel():
            return y
        if half != "_recv":
            with self._on(stream):
                room[:y.shape[0]].copy_(y)
        return room

    def max_rows(self, dtype=0):
        return self._view(0, word(DTYPES, dtype, "dtype")).out.shape[0]

    def barrier(self, stream=None):
        self.comm.barrier(self._stream(stream))

    def stamp(self, at, stream=None):
        """Makes the stream write the GPU's clock, in ns, to `at`, an int64 tensor of one element."""
        self.comm.stamp(at.data_ptr(), self._stream(stream))

    def explain(self, tokens, *, dtype=0, routing=0, purpose=0):
        """Calls Comm.explain for `tokens` tokens on the fullest rank."""
        return self.comm.explain(Call(
            fullest=tokens, dtype=word(DTYPES, dtype, "dtype"), routing=word(ROUTINGS, routing, "routing"),
            purpose=word(PURPOSES, purpose, "purpose")))

    def fault(self):
        return self.comm.fault()

    def check(self):
        """Raises EpcommError if a kernel of this rank has waited longer than the deadline. In this case the outputs
        are NaN. After each replay of a CUDA graph, wait for the stream, then call check."""
        self.comm.check(lib().epcomm_fault(self.comm.handle, None))

    def reset(self):
        self.comm.reset()
        self._begun = [None] * self.info.in_flight

    def destroy(self):
        _known.pop(self.id, None)
        self.comm.destroy()

    def abandon(self):
        _known.pop(self.id, None)
        self.comm.abandon()


# ---- custom operators: their argument ep is the number of an EP in _known ----

_known, _next = {}, itertools.count()


def _register(ep):
    """Gives an EP a number that no EP had before, because compiled functions may hold the number of a destroyed EP."""
    number = next(_next)
    _known[number] = ep
    return number


def _ep(number):
    if number not in _known:
        raise EpcommError(1, "the EP of this compiled function was destroyed; compile it again")
    return _known[number]


@torch.library.custom_op("epcomm::dispatch", mutates_args=("out", "scales", "row_offsets", "expert_ids", "src_info"))
def _dispatch_op(x: torch.Tensor, topk_ids: torch.Tensor, weights: torch.Tensor, out: torch.Tensor, scales: torch.Tensor,
                 row_offsets: torch.Tensor, expert_ids: torch.Tensor, src_info: torch.Tensor, ep: int, fullest: int, slot: int,
                 dtype: int, routing: int, purpose: int) -> None:
    _ep(ep).dispatch(x, topk_ids, weights, fullest=fullest, slot=slot, dtype=dtype, routing=routing, purpose=purpose)


@_dispatch_op.register_fake
def _(x, topk_ids, weights, out, scales, row_offsets, expert_ids, src_info, ep, fullest, slot, dtype, routing, purpose):
    return None


@torch.library.custom_op("epcomm::combine", mutates_args=("src_info",))
def _combine_op(y: torch.Tensor, topk_ids: torch.Tensor, weights: torch.Tensor, src_info: torch.Tensor, ep: int, fullest: int,
                slot: int, dtype: int, routing: int, purpose: int) -> torch.Tensor:
    return _ep(ep).combine(y, topk_ids, weights, fullest=fullest, slot=slot, dtype=dtype, routing=routing, purpose=purpose)


@_combine_op.register_fake
def _(y, topk_ids, weights, src_info, ep, fullest, slot, dtype, routing, purpose):
    return y.new_empty((topk_ids.shape[0], y.shape[1]), dtype=torch.bfloat16)


def dispatch(ep, x, topk_ids, weights, *, fullest=0, slot=0, dtype=0, routing=0, purpose=0):
    """Calls EP.dispatch as a custom operator. torch.compile knows that the operator writes its outputs, so code that
    reads these outputs stays behind the operator."""
    view = ep._view(slot, word(DTYPES, dtype, "dtype"))
    torch.ops.epcomm.dispatch(
        x, topk_ids, weights, *view, ep.id, fullest, slot, word(DTYPES, dtype, "dtype"), word(ROUTINGS, routing, "routing"),
        word(PURPOSES, purpose, "purpose"))
    return view


def combine(ep, y, topk_ids, weights, *, fullest=0, slot=0, dtype=0, routing=0, purpose=0):
    """Calls EP.combine as a custom operator. The operator takes src_info, an output of dispatch, so torch.compile
    does not move the operator before dispatch."""
    src_info = ep._view(slot, word(DTYPES, dtype, "dtype")).src_info
    return torch.ops.epcomm.combine(
        y, topk_ids, weights, src_info, ep.id, fullest, slot, word(DTYPES, dtype, "dtype"), word(ROUTINGS, routing, "routing"),
        word(PURPOSES, purpose, "purpose"))
