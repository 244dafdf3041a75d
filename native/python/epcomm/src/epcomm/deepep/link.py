"""One communicator as the calls of Buffer use it: with outputs of torch's."""

import typing

import torch

from ..comm import Call, Comm, lib
from ..ep import _emulated_wait

BF16, FP8 = 1, 2


class Rows(typing.NamedTuple):
    """What a dispatch leaves, as EpcommOutputs names it. Combine needs it again."""

    out: torch.Tensor
    scales: torch.Tensor
    row_offsets: torch.Tensor
    expert_ids: torch.Tensor
    src_info: torch.Tensor
    scale_offsets: torch.Tensor


class Link:
    """A Comm on a device, with calls on torch's current stream."""

    def __init__(self, pack, rank, ranks, device, all_gather, deadline):
        self.device = device
        index = device.index if device.index is not None else rank
        self.comm = Comm(pack, rank, ranks, index, all_gather, deadline=deadline, own_outputs=True, precision="reduced")
        self.info = self.comm.info
        self.rank, self.ranks, self.hidden, self.topk = rank, ranks, self.info.hidden, self.info.topk
        self.local_experts, self.max_tokens, self.groups = self.info.local_experts, self.info.max_tokens, self.info.groups
        self._sizes = {d: self.comm.outputs(0, d) for d in (BF16, FP8)}
        self._settle = _emulated_wait(index) if device.type == "cpu" else None

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
        at = lambda t: t.data_ptr()
        n = ids.shape[0]
        return Call(dtype=dtype, tokens=n, fullest=max(n, 1), ids_bits=32, topk_ids=at(ids), weights=at(weights), out=at(rows.out),
                    out_scales=at(rows.scales), row_offsets=at(rows.row_offsets), expert_ids=at(rows.expert_ids),
                    src_info=at(rows.src_info), scale_offsets=at(rows.scale_offsets))

    def _launch(self, f, call):
        stream = 0 if self._settle else torch.cuda.current_stream(self.device).cuda_stream
        self.comm.check(f(self.comm.handle, call, stream))
        if self._settle:
            self._settle()

    def dispatch(self, dtype, x, scales, ids, weights, rows):
        """x: bfloat16, or with scales float8_e4m3fn [tokens, hidden]; ids: int32 and weights:
        float32 [tokens, topk]."""
        call = self._call(dtype, ids, weights, rows)
        call.x, call.input_scale = x.data_ptr(), scales.data_ptr() if scales is not None else None
        self._launch(lib().epcomm_dispatch, call)

    def combine(self, dtype, y, ids, weights, rows, combined):
        call = self._call(dtype, ids, weights, rows)
        call.y, call.combined = y.data_ptr(), combined.data_ptr()
        self._launch(lib().epcomm_combine, call)
