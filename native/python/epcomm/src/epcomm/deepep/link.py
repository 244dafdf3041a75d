"""Defines Link, a communicator that writes to tensors of PyTorch."""

import os

import torch

from .. import native
from ..comm import DTYPES, LAYOUTS, Comm, EpcommError, lib
from . import events
from .config import NotServed
from .slow import BF16, FP8, Slow

DISAGREE = 5


class Misread(Exception):
    """Raised if a tensor's device, dtype or shape does not fit a kernel."""


_left = []


def leave(comm):
    """Keeps a communicator until give_back_left frees it. Freeing memory during a capture would end the capture
    with an error."""
    _left.append(comm)


def give_back_left():
    """Frees the communicators of deleted Buffers. It must not be called during a capture."""
    while _left:
        _left.pop().abandon()


class Link:
    """A Comm whose calls run on torch's current stream. The operators of the C++ extension take `number` to name the
    Link."""

    def __init__(self, pack, shape, rank, ranks, device, all_gather, deadline, lane, agreement=None, survivors="none", precision="reduced"):
        self.shape, self.device, self.deadline, self.agreement = shape, device, deadline, agreement
        self.index = device.index if device.index is not None else rank
        self.gpu = self.index if device.type == "cuda" else -1
        self.debug = os.environ.get("EPCOMM_DEBUG") == "1"
        self.comm = Comm(pack, rank, ranks, self.index, all_gather, nodes=1, deadline=deadline, own_outputs=True, precision=precision,
                         debug=self.debug, survivors=survivors, ordered=True)
        try:
            self._learn(rank, ranks, lane)
        except BaseException:
            self.comm.abandon()
            raise

    def _learn(self, rank, ranks, lane):
        self.info = i = self.comm.info
        self.rank, self.ranks, self.hidden, self.topk = rank, ranks, i.hidden, i.topk
        self.local_experts, self.max_tokens, self.groups = i.local_experts, i.max_tokens, i.groups
        self._sizes = {d: self.comm.outputs(0, d) for d in (BF16, FP8) if i.dtypes >> d & 1}
        self.halves = [None, None]  # last dispatch and combine that Python sent: (call, capture)
        self.begun = [None, None]   # dispatch and combine not yet received: Half, Hook or None
        self.nothing = torch.empty(0, dtype=torch.int32, device=self.device)
        self.told, self._lane = (0, 0, []), lane
        self.now = events.current_raw(self.device) if lane.native else lambda: events.raw_stream(self.device)
        self.ops, self.number = (native.operators(), self._native(lane)) if lane.native else (Slow(self.device), self)

    def _native(self, lane):
        sizes = []
        for d in (BF16, FP8):
            o = self._sizes.get(d)
            sizes += [o.max_rows, o.out_bytes, o.scales, o.src_info_bytes // 4] if o else [0] * 4
        numbers = [self.ranks, self.local_experts, self.hidden, self.topk, self.max_tokens, LAYOUTS[self.info.layout] == "masked", *sizes,
                   int(1000 * self.deadline), self.debug]
        board = None
        if self.agreement is not None:
            a = self.agreement
            board = native.load().epcomm_native_board(a.verdict_at, a.records_at, a.rank, a.ranks)
        number = native.new_link(lib(), self.comm.handle, lane.native, board, numbers)
        self.said = native.said(number)
        return number

    def serves(self, shape):
        """Returns whether calls of `shape` may use this link."""
        return self.shape._replace(dtype=shape.dtype) == shape and DTYPES[shape.dtype] in self._sizes

    def sizes(self, dtype):
        return self._sizes[dtype]

    def rows_shape(self, fp8):
        """Returns the shape of a low-latency dispatch's output: (local experts, rows of an expert, hidden)."""
        return self.local_experts, self._sizes[FP8 if fp8 else BF16].max_rows // self.local_experts, self.hidden

    def call(self, op, *arguments):
        try:
            return op(self.number, *arguments)
        except RuntimeError as e:
            raise self.reason(e) from None

    def used(self, tensors):
        events.record(events.tensors_in(tensors), self.device)

    def reason(self, error):
        if not self._lane.native or isinstance(error, (EpcommError, NotServed)):
            return error
        status = self.said[0]
        if status == DISAGREE and self.agreement is not None:
            try:
                self.agreement.refuse()
            except EpcommError as e:
                return e
        if status == native.MISREAD:
            return Misread()
        if status == native.NEEDS_WORST:
            return self.needs_worst()
        if status == native.ELSEWHERE:
            return self.elsewhere()
        return EpcommError(status, lib().epcomm_error(self.comm.handle).decode(errors="replace")) if status else error

    @staticmethod
    def needs_worst():
        return NotServed("dispatch in a CUDA graph without num_worst_tokens", "the host cannot wait for counts there; give num_worst_tokens, "
                         "or a handle")

    @staticmethod
    def elsewhere():
        return RuntimeError("hook: the call was sent in another CUDA graph, or only the call or only the hook is in a graph; "
                            "capture the call and its hook in the same graph, or neither")

    # ---- calls by ctypes ----

    def launch_only(self, f, *arguments):
        self.comm.check(f(self.comm.handle, *arguments, events.raw_stream(self.device)))

    def launch(self, f, *arguments):
        try:
            self.launch_only(f, *arguments)
        finally:
            self._lane.settle()  # even if the launch raised

    def capturing(self):
        return events.capture_here(self.device) != 0

    def send(self, op, f, call):
        self.launch(f, call)
        self.halves[op] = call, events.capture_here(self.device)

    def sent_in(self, op):
        if self._lane.native:
            return native.load().epcomm_native_sent_in(self.number, op)
        return self.halves[op][1]

    def receive(self, op, f):
        """Receives the dispatch (op 0) or combine (op 1) that was sent last. Raises RuntimeError if the call was sent
        in another capture."""
        call, capture = self.halves[op]
        if capture != events.capture_here(self.device):
            raise self.elsewhere()
        self.launch(f, call)


class Half:
    """A call that was sent and is still to be received. finish() receives it on the current stream, and afterwards
    calls the function `then`. `tensors` must not change before finish() is called."""

    __slots__ = ("_link", "_op", "_stream", "_rest", "_lost")

    def __init__(self, link, op, stream, tensors, stats=None, then=None):
        self._link, self._op, self._stream, self._lost = link, op, stream, False
        self._rest = tensors, stats, then
        link.begun[op] = self

    @property
    def pending(self):
        return self._rest is not None

    def lose(self):
        self._rest, self._lost = None, True

    def finish(self):
        if self._lost:
            raise RuntimeError("hook: ranks left or came back after the call was sent, so the call is lost; make it again")
        if self._rest is None:
            return
        link, op, (tensors, stats, then) = self._link, self._op, self._rest
        stream = link.now()
        try:
            link.ops.ll_receive(link.number, stream, op, stats)
        except RuntimeError as e:
            if link.sent_in(op):
                self._rest = None
            raise link.reason(e) from None
        if then is not None:
            then()
        if stream != self._stream:
            events.record(tensors, link.device)
        self._rest = None
        if link.begun[op] is self:
            link.begun[op] = None


def receive_before(link, op):
    """Receives a sent call that was not received yet, because the next call uses the same memory."""
    half, link.begun[op] = link.begun[op], None
    if half is not None:
        try:
            half.finish()
        except RuntimeError:
            if half.pending:
                link.begun[op] = half
            raise
