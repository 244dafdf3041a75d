"""One communicator as the calls of Buffer use it: with outputs of torch's."""

import os

import torch

from .. import native
from ..comm import DTYPES, LAYOUTS, Comm, EpcommError, lib
from . import events
from .config import NotServed
from .slow import BF16, FP8, Slow

DISAGREE = 5  # a status of the library


class Misread(Exception):
    """A tensor does not fit; which one is for the caller to find out."""

_left = []  # communicators whose Buffer is gone


def leave(comm):
    """Keeps a communicator until it can be given back. Python's collector may end a Buffer at any
    time, also while a CUDA graph is captured, which a call of the driver would spoil."""
    _left.append(comm)


def give_back_left():
    """Frees what Buffers left. Only where calls of the driver are no danger: where a Buffer is made,
    gets a new communicator, or is destroyed."""
    while _left:
        _left.pop().abandon()


class Link:
    """A Comm on a device, with calls on torch's current stream. number stands for it in operators."""

    def __init__(self, pack, shape, rank, ranks, device, all_gather, deadline, lane, agreement=None, survivors="none"):
        self.shape, self.device, self.deadline, self.agreement = shape, device, deadline, agreement
        self.index = device.index if device.index is not None else rank
        self.debug = os.environ.get("EPCOMM_DEBUG") == "1"
        self.comm = Comm(pack, rank, ranks, self.index, all_gather, nodes=1, deadline=deadline, own_outputs=True, precision="reduced",
                         debug=self.debug, survivors=survivors, ordered=True)
        try:
            self._learn(rank, ranks, lane)
        except BaseException:
            self.comm.abandon()  # nobody else knows of it, and it holds memory of the device
            raise

    def _learn(self, rank, ranks, lane):
        self.info = i = self.comm.info
        self.rank, self.ranks, self.hidden, self.topk = rank, ranks, i.hidden, i.topk
        self.local_experts, self.max_tokens, self.groups = i.local_experts, i.max_tokens, i.groups
        self._sizes = {d: self.comm.outputs(0, d) for d in (BF16, FP8) if i.dtypes >> d & 1}
        self.halves = [None, None]  # by op: (call, capture) that was sent last, of calls by ctypes
        self.begun = [None, None]   # by op: the Half that was sent last
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
        """Whether calls of another shape may use this communicator: only the dtype differs."""
        return self.shape._replace(dtype=shape.dtype) == shape and DTYPES[shape.dtype] in self._sizes

    def sizes(self, dtype):
        """EpcommOutputs of a dtype: bytes and rows."""
        return self._sizes[dtype]

    def unless_misread(self, error):
        """Raises the exception for a failed operator, unless the operator only refused a tensor before
        anything was sent."""
        if self.said[0] != native.MISREAD:
            raise self.reason(error) from None

    def call(self, op, *arguments):
        """What an operator returns; of one that fails the exception that fits."""
        try:
            return op(self.number, *arguments)
        except RuntimeError as e:
            raise self.reason(e) from None

    def reason(self, error):
        """The exception that says why an operator failed."""
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
        return RuntimeError("hook: its call was made in another CUDA graph, or outside the one that is captured now; call the hook "
                            "before that capture begins or ends")

    # ---- calls by ctypes ----

    def launch_only(self, f, *arguments):
        self.comm.check(f(self.comm.handle, *arguments, events.raw_stream(self.device)))

    def launch(self, f, *arguments):
        try:
            self.launch_only(f, *arguments)
        finally:
            self._lane.settle()  # after a fault too: kernels then overwrite the outputs

    def capturing(self):
        return events.capture_here(self.device) != 0

    def send(self, op, f, call):
        self.launch(f, call)
        self.halves[op] = call, events.capture_here(self.device)

    def sent_in(self, op):
        """The capture that the last half of an op was sent in, 0 outside captures."""
        if self._lane.native:
            return native.load().epcomm_native_sent_in(self.number, op)
        return self.halves[op][1]

    def receive(self, op, f):
        """A graph that receives a call that it does not send would wait forever at every replay.
        What was sent in a capture that has ended cannot be received any more."""
        call, capture = self.halves[op]
        if capture != events.capture_here(self.device):
            raise self.elsewhere()
        self.launch(f, call)


class Half:
    """A call whose messages are on their way. finish() receives them on the current stream; until
    then the call holds no SMs, and `tensors` stay as they are. then() runs behind the receiver."""

    __slots__ = ("_link", "_op", "_stream", "_rest")

    def __init__(self, link, op, stream, tensors, stats=None, then=None):
        self._link, self._op, self._stream = link, op, stream
        self._rest = tensors, stats, then  # None once it is received
        link.begun[op] = self

    def finish(self):
        """Receives, the first time."""
        if self._rest is None:
            return
        link, op, (tensors, stats, then) = self._link, self._op, self._rest
        stream = link.now()
        try:
            link.ops.ll_receive(link.number, stream, op, stats)
        except RuntimeError as e:
            if link.sent_in(op):  # a capture: if that has ended, nobody can receive it any more
                self._rest = None
            raise link.reason(e) from None
        if then is not None:
            then()
        if stream != self._stream:
            events.record(tensors, link.device)
        self._rest = None  # what was received is the caller's alone
        if link.begun[op] is self:
            link.begun[op] = None


def receive_before(link, op):
    """A call of an op begins when the one before has been received: they share memory. A caller with
    two of one op in flight gets the first received here."""
    half, link.begun[op] = link.begun[op], None
    if half is not None:
        try:
            half.finish()
        except RuntimeError:
            if half._rest is not None:
                link.begun[op] = half
            raise
