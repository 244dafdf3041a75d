"""One communicator as the calls of Buffer use it: with outputs of torch's."""

import typing

import torch

from ..comm import LAYOUTS, PURPOSES, Call, Comm, lib
from ..ep import _emulated_wait
from . import events

BF16, FP8 = 1, 2


class Rows(typing.NamedTuple):
    """What a dispatch leaves, as EpcommOutputs names it. Combine needs it again."""

    out: torch.Tensor
    scales: torch.Tensor
    row_offsets: torch.Tensor
    expert_ids: torch.Tensor
    src_info: torch.Tensor
    scale_offsets: torch.Tensor


class Half:
    """A call whose messages are on their way. finish() receives them on the current stream;
    until then the call holds no SMs, and `tensors` stay as they are. then() runs behind
    the receiver, on its stream."""

    def __init__(self, link, receive, call, tensors, then=None):
        self._link, self._capture = link, link.capture()
        self._rest = receive, call, tensors, then  # None once it is received

    def finish(self):
        """Receives, the first time. Lane lets whoever calls it later wait for that."""
        if self._rest is None:
            return
        if self._link.capture() != self._capture:
            self._refuse()
        receive, call, tensors, then = self._rest
        self._link.launch(receive, call)
        if then is not None:
            then()
        if self._link.device.type == "cuda":
            for t in tensors:
                t.record_stream(torch.cuda.current_stream())  # it may be another than they were made on
        self._rest = None  # what was received is the caller's alone

    def _refuse(self):
        """A graph that receives what it does not send would wait at every replay. What was sent
        in a capture that has ended cannot be received any more."""
        if self._capture:
            self._rest = None
        raise RuntimeError("hook: its call was made in another CUDA graph, or outside the one that is captured now; call the hook "
                           "before that capture begins or ends")


class Link:
    """A Comm on a device, with calls on torch's current stream."""

    def __init__(self, pack, rank, ranks, device, all_gather, deadline):
        self.device = device
        index = device.index if device.index is not None else rank
        self.comm = Comm(pack, rank, ranks, index, all_gather, nodes=1, deadline=deadline, own_outputs=True, precision="reduced")
        try:
            self._learn(rank, ranks, index)
        except BaseException:
            self.comm.abandon()  # nobody else knows of it, and it holds memory of the device
            raise

    def _learn(self, rank, ranks, index):
        self.info = self.comm.info
        self.rank, self.ranks, self.hidden, self.topk = rank, ranks, self.info.hidden, self.info.topk
        self.local_experts, self.max_tokens, self.groups = self.info.local_experts, self.info.max_tokens, self.info.groups
        self._sizes = {d: self.comm.outputs(0, d) for d in (BF16, FP8)}
        self._settle = _emulated_wait(index) if self.device.type == "cpu" else None
        self._sent = {}  # by op: the Half that was begun last

    def sizes(self, dtype):
        """EpcommOutputs of a dtype: bytes and rows."""
        return self._sizes[dtype]

    def bytes(self, n):
        return torch.empty(n, dtype=torch.uint8, device=self.device)

    def index(self, dtype):
        """New row_offsets and src_info."""
        o = self.sizes(dtype)
        return (torch.empty(self.groups + 1, dtype=torch.int32, device=self.device),
                torch.empty(o.src_info_bytes // 4, dtype=torch.int32, device=self.device))

    def _call(self, dtype, ids, weights, rows):
        """DeepEP's callers do not know the fullest rank's count. In layout masked rows for other
        counts may name kernels that do not understand each other, so that every rank asks for the
        pack's capacity, which is 0. In rank:packed they understand each other."""
        at = lambda t: t.data_ptr()
        n = ids.shape[0]
        fullest = 0 if LAYOUTS[self.info.layout] == "masked" else max(n, 1)
        return Call(dtype=dtype, tokens=n, fullest=fullest, ids_bits=32, topk_ids=at(ids), weights=at(weights), out=at(rows.out),
                    out_scales=at(rows.scales), row_offsets=at(rows.row_offsets), expert_ids=at(rows.expert_ids),
                    src_info=at(rows.src_info), scale_offsets=at(rows.scale_offsets))

    def launch(self, f, call):
        stream = 0 if self._settle else torch.cuda.current_stream(self.device).cuda_stream
        self.comm.check(f(self.comm.handle, call, stream))
        if self._settle:
            self._settle()

    def _whole(self, op, f, call):
        self._receive_before(op)
        self.launch(f, call)

    def _half(self, op, send, receive, call, tensors, then=None):
        self._receive_before(op)
        call.purpose = PURPOSES["halves"]
        self.launch(send, call)
        self._sent[op] = Half(self, receive, call, tensors, then)
        return self._sent[op]

    def capture(self):
        """The capture that the current stream is in, 0 outside captures."""
        return events.capture_of(torch.cuda.current_stream(self.device)) if self.device.type == "cuda" else 0

    def _receive_before(self, op):
        """A call of an op begins when the one before has been received: they share memory.
        A caller with two of one op in flight gets the first received here."""
        if op in self._sent:
            self._sent[op].finish()
            del self._sent[op]

    def _dispatch_call(self, dtype, x, scales, ids, weights, rows):
        call = self._call(dtype, ids, weights, rows)
        call.x, call.input_scale = x.data_ptr(), scales.data_ptr() if scales is not None else None
        return call

    def _combine_call(self, dtype, y, ids, weights, rows, combined):
        call = self._call(dtype, ids, weights, rows)
        call.y, call.combined = y.data_ptr(), combined.data_ptr()
        return call

    def dispatch(self, dtype, x, scales, ids, weights, rows):
        """x: bfloat16, or with scales float8_e4m3fn [tokens, hidden]; ids: int32 and weights:
        float32 [tokens, topk]."""
        self._whole("dispatch", lib().epcomm_dispatch, self._dispatch_call(dtype, x, scales, ids, weights, rows))

    def send_dispatch(self, dtype, x, scales, ids, weights, rows, then):
        """dispatch, up to where everything is on its way. Returns the Half that receives."""
        tensors = (x, ids, *rows) if scales is None else (x, scales, ids, *rows)
        call = self._dispatch_call(dtype, x, scales, ids, weights, rows)
        return self._half("dispatch", lib().epcomm_dispatch_send, lib().epcomm_dispatch_recv, call, tensors, then)

    def combine(self, dtype, y, ids, weights, rows, combined):
        self._whole("combine", lib().epcomm_combine, self._combine_call(dtype, y, ids, weights, rows, combined))

    def send_combine(self, dtype, y, ids, weights, rows, combined):
        """combine, up to where every row is on its way. Returns the Half that receives."""
        call = self._combine_call(dtype, y, ids, weights, rows, combined)
        return self._half("combine", lib().epcomm_combine_send, lib().epcomm_combine_recv, call, (y, ids, weights, *rows, combined))
