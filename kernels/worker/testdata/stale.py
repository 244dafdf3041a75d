"""Runs DeepEP's and FlashInfer's workers over stand-ins for these libraries. The stand-ins return an earlier call's
rows, or deliver too early. Needs PyTorch."""

import base64
import pathlib
import struct
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness import tensors  # noqa: E402
from harness.judge import GPUSession  # noqa: E402
from harness.session import Half  # noqa: E402
from libraries import deepep, flashinfer  # noqa: E402

SEED, TOKENS, HIDDEN, TOPK, EXPERTS = 1, 4, 256, 1, 4
CPU = torch.device("cpu")
CONFIG = {"kernel": "k", "values": {"by": "map"}}  # FlashInfer's stand-in ignores it


def alone(library):
    """A library on the only rank, as start leaves it."""
    library.rank, library.device, library.streams, library.clock = 0, CPU, None, "wall"
    library.ranks = types.SimpleNamespace(rank=0, ranks=1, barrier=lambda: None, exchange=lambda x: [x])
    library.graphs = types.SimpleNamespace(forget=lambda: None)
    return library


class DeepEP:
    """deep_ep.Buffer of one rank. All calls return rows in one tensor, because an allocator may give the same memory to
    each call. With `early`, a call returns the rows of the call before it."""

    writes, early = True, False

    def __init__(self, fp8):
        dtypes = (torch.float8_e4m3fn, torch.float32) if fp8 else (torch.bfloat16,)
        self.got = tuple(torch.zeros(TOKENS, n, dtype=t) for n, t in zip((HIDDEN, HIDDEN // 128), dtypes))

    def get_dispatch_layout(self, ids, experts):
        return None, None, None, None, None

    def dispatch(self, x, topk_idx, topk_weights, **_):
        before = tuple(t.clone() for t in self.got)
        for to, sent in zip(self.got, x if isinstance(x, tuple) else (x,)):
            if self.writes:
                to.copy_(sent)
        handle, got = (torch.tensor([[TOKENS]]), None, None, torch.arange(TOKENS)), before if self.early else self.got
        return got if len(got) > 1 else got[0], topk_idx.clone(), topk_weights.clone(), None, handle, None

    def combine(self, y, handle, config):
        return (y.clone(),)


class FlashInfer:
    """The compiled module of one rank, and the functions moe_a2a_* that the worker uses. Payloads lie in the workspace
    one after the other."""

    writes = True

    def moe_a2a_dispatch(self, ids, payloads, workspace, *_):
        offsets, sizes, at = [], [], 0
        for p in payloads:
            raw = p.contiguous().view(torch.uint8).flatten()
            if self.writes:
                workspace[at:at + len(raw)] = raw
            offsets.append(at)
            sizes.append(len(raw))
            at += len(raw)
        return offsets, sizes, at, -1, 0

    def moe_a2a_combine(self, y, *_):
        return y.view(TOKENS, HIDDEN).clone()

    @staticmethod
    def moe_a2a_wrap_payload_tensor_in_workspace(workspace, shape, begin, end, dtype):
        return workspace.flatten()[begin:end].view(dtype).view(*shape, -1)

    @staticmethod
    def moe_a2a_sanitize_expert_ids(*_):
        pass


def with_deepep(fp8):
    library = alone(deepep.Library("own"))
    library.buffer, library.exports = DeepEP(fp8), {"map": lambda op: None}
    return library, library.buffer


def with_flashinfer(fp8):
    library, module = alone(flashinfer.Library()), FlashInfer()
    library.a2a = types.SimpleNamespace(
        moe_a2a_wrap_payload_tensor_in_workspace=module.moe_a2a_wrap_payload_tensor_in_workspace,
        moe_a2a_sanitize_expert_ids=module.moe_a2a_sanitize_expert_ids, SfLayout=types.SimpleNamespace(layout_linear=types.SimpleNamespace(value=0)),
        moe_a2a_get_workspace_size_per_rank=lambda ranks, capacity, row, back: capacity * (row + back),
        MoeAlltoAll=lambda *_, workspace_size_per_rank, **__: types.SimpleNamespace(
            workspace=torch.zeros(workspace_size_per_rank, dtype=torch.uint8), metainfo=None))
    library.mapping = library.config = None
    library.module = lambda half: module
    library.slots = lambda: library.workspace[library.back:library.back + 2 * TOKENS * HIDDEN].view(torch.bfloat16).view(1, TOKENS, HIDDEN)
    return library, module


def opened(library, op, dtype):
    ids, weights = struct.pack("<%di" % TOKENS, *range(TOKENS)), struct.pack("<%df" % TOKENS, *[1.0] * TOKENS)
    routing = {"tokens": TOKENS, "experts": base64.b64encode(ids).decode(), "weights": base64.b64encode(weights).decode()}
    problem = {"op": op, "ranks": 1, "hidden": HIDDEN, "experts": EXPERTS, "top_k": TOPK, "max_tokens": TOKENS, "dispatch": dtype}
    worker = types.SimpleNamespace(default=lambda op, beside: Half(**CONFIG))
    return GPUSession(library, {"problem": problem, "seed": SEED, "ranks": [routing]}, worker)


def stops_writing(make, dtype):
    """After two right answers nothing is written: the rows of the last call are still there."""
    library, stub = make(dtype == "fp8")
    for op in ("dispatch", "combine"):
        stub.writes = True
        session = opened(library, op, dtype)
        for _ in range(2):
            reply = session.verify(CONFIG, [])
            assert reply["rows"] and reply["wrong"] == 0, (make, dtype, op, reply)
        stub.writes = False
        reply = session.verify(CONFIG, [])
        assert reply["wrong"] >= TOKENS, (make, dtype, op, reply)
        assert torch.equal(library.x, tensors.tokens(SEED, 0, TOKENS, HIDDEN, CPU)), "the tokens are not the rank's own again"


def delivers_early():
    """A call delivers what the call before received."""
    library, stub = with_deepep(False)
    session = opened(library, "dispatch", "bf16")
    stub.early = True
    for _ in range(2):  # the second finds the right rows of the first
        reply = session.verify(CONFIG, [])
        assert reply["wrong"] == TOKENS, reply


for make in (with_deepep, with_flashinfer):
    for dtype in ("bf16", "fp8"):
        stops_writing(make, dtype)
delivers_early()
