"""Implements the operators of the C++ extension with ctypes, for hosts on which the extension cannot be loaded."""

import ctypes
import time

import torch

from ..comm import EpcommError, lib
from ..library import Announce, Call, LayoutOf, Received, Return, Told

BF16, FP8 = 1, 2
PAIR, HALVES = 0, 3


def _padded(n):
    return (n + 255) // 256 * 256


def _bits(ids):
    return 64 if ids.dtype is torch.int64 else 32


_none = (ctypes.c_uint64 * 8)()


def _at(t):
    """Returns a tensor's address. For an empty tensor it returns the address of unused memory and not 0."""
    return t.data_ptr() or ctypes.addressof(_none)


def _view(index, at, dtype, *shape):
    size = torch.empty(0, dtype=dtype).element_size()
    n = 1
    for s in shape:
        n *= s
    return index[at:at + n * size].view(dtype).view(shape)


class Slow:
    def __init__(self, device):
        self.device = device

    def _empty(self, dtype, *shape):
        return torch.empty(shape, dtype=dtype, device=self.device)

    def _note(self, link, key):
        if link.agreement is not None and key:
            link.agreement.step(key)

    # ---- normal calls ----

    def layout(self, link, stream, ids, experts, ranks):
        per_rank, per_expert = self._empty(torch.int32, ranks), self._empty(torch.int32, experts)
        in_rank = self._empty(torch.bool, ids.shape[0], ranks)
        call = LayoutOf(topk_ids=_at(ids), ids_bits=_bits(ids), tokens=ids.shape[0], topk=ids.shape[1], experts=experts, ranks=ranks,
                        per_rank=_at(per_rank), per_expert=_at(per_expert), in_rank=_at(in_rank))
        link.launch(lib().epcomm_layout, call)
        return per_rank, per_expert, in_rank

    def _normal_places(self, link, dtype, tokens):
        src_info = _padded(4 * (link.ranks + 1))
        ids = src_info + _padded(link.sizes(dtype).src_info_bytes)
        before = ids + _padded(4 * tokens * link.topk)
        return src_info, ids, before, before + _padded(4 * link.ranks * link.ranks)

    def _normal_call(self, link, dtype, tokens, fullest, index):
        base = _at(index)
        src_info, ids, _, _ = self._normal_places(link, dtype, tokens)
        fullest = fullest or (0 if link.debug else max(tokens, 1))
        return Call(dtype=dtype, tokens=tokens, fullest=fullest, ids_bits=32, topk_ids=base + ids, weights=base + ids,
                    row_offsets=base, src_info=base + src_info, out=base, out_scales=base, expert_ids=base + src_info, scale_offsets=base)

    def _wait(self, link):
        told, end = Told(), time.monotonic() + 2 * link.deadline
        while not told.ready:
            link.comm.check(lib().epcomm_told(link.comm.handle, told))
            if link.agreement is not None:
                link.agreement.look()
            if time.monotonic() > end:
                raise EpcommError(7, "dispatch: the counts of the ranks did not arrive; check whether the stream of this call waits for other work")
        link.told = told.rows, told.fullest, (ctypes.c_uint32 * link.local_experts).from_address(told.per_expert)[:]

    def _rows(self, link, dtype, rows, direct):
        elements = torch.bfloat16 if dtype == BF16 else torch.float8_e4m3fn
        scales = self._empty(torch.float32, rows, link.sizes(dtype).scales) if dtype == FP8 else self._empty(torch.float32, 0)
        return (self._empty(elements, rows, link.hidden), scales, self._empty(torch.int64 if direct else torch.int32, rows, link.topk),
                self._empty(torch.float32, rows, link.topk), *([self._empty(torch.int32, rows)] if direct else []))

    def _place(self, link, call, x, scales, rows):
        call.x, call.input_scale = _at(x), _at(scales) if scales is not None else None
        call.out, call.out_scales, call.expert_ids, call.scale_offsets, call.row_tokens = (*(_at(t) for t in rows), None)[:5]
        call.rows = rows[0].shape[0]
        link.launch(lib().epcomm_dispatch, call)

    def dispatch(self, link, stream, key, x, scales, per_rank, per_expert, in_rank, ids, weights, align, worst):
        self._note(link, key)
        if not worst and link.capturing():
            raise link.needs_worst()
        dtype, tokens, given = FP8 if scales is not None else BF16, x.shape[0], ids.shape[1] if ids is not None else 0
        pads = weights is not None and given != link.topk
        src_info, ids_at, before_at, size = self._normal_places(link, dtype, tokens)
        index = self._empty(torch.uint8, size)
        wide = self._empty(torch.float32, tokens, link.topk) if pads else weights
        link.launch_only(lib().epcomm_announce, Announce(
            per_rank=_at(per_rank), per_expert=_at(per_expert), topk_ids=_at(ids) if ids is not None else None, in_rank=_at(in_rank),
            weights=_at(weights) if weights is not None else None, ids_bits=_bits(ids) if ids is not None else 32, topk=given, tokens=tokens,
            align=align, worst=worst, ids=_at(index) + ids_at, padded=_at(wide) if pads else None, before=_at(index) + before_at))
        link.told = worst, 0, []
        if not worst:
            self._wait(link)
        here, direct = link.told[0], not worst and given in (0, link.topk)
        rows = self._rows(link, dtype, here, direct)
        call = self._normal_call(link, dtype, tokens, link.told[1], index)
        if weights is not None:
            call.weights = _at(wide)
        self._place(link, call, x, scales, rows)
        before = _view(index, before_at, torch.int32, link.ranks, link.ranks)
        if direct:
            return (*rows, before, index), *link.told
        local, sources = self._empty(torch.int64, here if given else 0, given), self._empty(torch.int32, here)
        cut = self._empty(torch.float32, here, given) if pads else rows[3]
        link.launch(lib().epcomm_received, Received(
            expert_ids=call.expert_ids, weights=_at(rows[3]), src_info=call.src_info, row_offsets=call.row_offsets, rows=here, topk=given,
            ids=_at(local) if given else None, cut=_at(cut) if pads else None, tokens=_at(sources)))
        return (rows[0], rows[1], local, cut, sources, before, index), *link.told

    def dispatch_again(self, link, stream, key, x, scales, index, tokens, received, fullest):
        self._note(link, key)
        dtype = FP8 if scales is not None else BF16
        rows = self._rows(link, dtype, received, True)
        self._place(link, self._normal_call(link, dtype, tokens, fullest, index), x, scales, rows)
        return rows[:2]

    def combine(self, link, stream, key, fp8, tokens, received, fullest, y, index, weights):
        self._note(link, key)
        combined = self._empty(torch.bfloat16, tokens, link.hidden)
        call = self._normal_call(link, FP8 if fp8 else BF16, tokens, fullest, index)
        call.y, call.combined = _at(y), _at(combined)
        link.launch(lib().epcomm_combine, call)
        if weights is None:
            return combined, combined
        back = self._empty(torch.float32, tokens, weights.shape[1])
        link.launch(lib().epcomm_return_weights, Return(
            weights=_at(weights), src_info=call.src_info, row_offsets=call.row_offsets, ids=call.topk_ids, tokens=tokens,
            topk=weights.shape[1], out=_at(back)))
        return combined, back

    # ---- low-latency calls ----

    def _low_places(self, link, dtype):
        e = link.local_experts
        ranges = _padded(4 * (e + 1))
        offsets = ranges + _padded(8 * e * link.ranks)
        src_info = offsets + _padded(4 * e)
        return ranges, offsets, src_info, src_info + _padded(link.sizes(dtype).src_info_bytes)

    def _low_call(self, link, dtype, ids, later, base):
        """Returns the arguments of a low-latency call. `fullest` is 0 so that all ranks take the same kernels."""
        ranges, offsets, src_info, _ = self._low_places(link, dtype)
        return Call(dtype=dtype, tokens=ids.shape[0], fullest=0, purpose=HALVES if later else PAIR, ids_bits=_bits(ids), topk_ids=_at(ids),
                    weights=base, row_offsets=base, expert_ids=base + ranges, scale_offsets=base + offsets,
                    src_info=base + src_info, out=base, out_scales=base)

    def ll_dispatch(self, link, stream, key, x, scales, ids, fp8, later, stats):
        self._note(link, key)
        dtype, e = FP8 if fp8 else BF16, link.local_experts
        o = link.sizes(dtype)
        room = o.max_rows // e
        ranges, _, src_info, size = self._low_places(link, dtype)
        index, out = self._empty(torch.uint8, size), self._empty(torch.float8_e4m3fn if fp8 else torch.bfloat16, e, room, link.hidden)
        given = self._empty(torch.float32, e, o.scales, room) if fp8 else index
        call = self._low_call(link, dtype, ids, later, _at(index))
        call.x, call.input_scale, call.out, call.out_scales = _at(x), _at(scales) if scales is not None else None, _at(out), _at(given)
        if later:
            link.send(0, lib().epcomm_dispatch_send, call)
        else:
            link.launch(lib().epcomm_dispatch, call)
            self._count(link, call, stats)
        whole = _view(index, src_info, torch.int32, e, room, 2)
        return (out, given.transpose(1, 2) if fp8 else index, _view(index, 0, torch.int32, e), whole[:, :, 0],
                _view(index, ranges, torch.int64, e, link.ranks))

    def _count(self, link, call, stats):
        if stats is not None:
            link.launch(lib().epcomm_add_counts, call.row_offsets, _at(stats), link.local_experts)

    def ll_combine(self, link, stream, key, fp8, tokens, later, y, ids, weights, src_info, given):
        self._note(link, key)
        combined = given if given is not None else self._empty(torch.bfloat16, tokens, link.hidden)
        dtype = FP8 if fp8 else BF16
        call = self._low_call(link, dtype, ids, later, _at(src_info) - self._low_places(link, dtype)[2])
        call.y, call.weights, call.combined = _at(y), _at(weights), _at(combined)
        if later:
            link.send(1, lib().epcomm_combine_send, call)
        else:
            link.launch(lib().epcomm_combine, call)
        return combined

    def ll_receive(self, link, stream, op, stats):
        link.receive(op, lib().epcomm_combine_recv if op else lib().epcomm_dispatch_recv)
        if op == 0:
            self._count(link, link.halves[0][0], stats)
