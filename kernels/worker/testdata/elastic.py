"""Runs DeepEP V2's worker over a stand-in for deep_ep.ElasticBuffer on one rank. It checks all layouts and dtypes, with
and without a wait for the counts, and that a library that stops writing is found. Needs PyTorch."""

import base64
import pathlib
import struct
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness.judge import GPUSession  # noqa: E402
from harness.session import Half  # noqa: E402
from libraries import deepep2  # noqa: E402

SEED, TOKENS, CAPACITY, HIDDEN, TOPK, EXPERTS, ANALYTIC = 1, 5, 7, 256, 2, 6, 22
CPU = torch.device("cpu")
# Expert 1 gets no token, and token 3 has one selection.
IDS = [(0, 5), (2, 0), (5, 3), (4, -1), (0, 2)]
WEIGHTS = [(0.5, 0.25), (1.0, 0.125), (0.75, 0.5), (0.25, 0.0), (1.5, 0.5)]


def aligned(n, to):
    return -(-n // to) * to


class ElasticBuffer:
    """The buffer of one rank. Unused rows hold NaN, as memory of a GPU may hold anything."""

    writes, asked = True, []

    def __init__(self, group, num_max_tokens_per_rank, hidden, num_topk, allow_hybrid_mode, allow_multiple_reduction, explicitly_destroy):
        assert not allow_hybrid_mode and explicitly_destroy
        self.reductions, self.last = allow_multiple_reduction, None

    def get_theoretical_num_sms(self, experts, topk):
        assert (experts, topk) == (EXPERTS, TOPK)
        return ANALYTIC

    def destroy(self):
        pass

    def dispatch(self, x, topk_idx, topk_weights, num_experts, num_max_tokens_per_rank, expert_alignment, num_sms, do_cpu_sync, do_expand):
        self.asked.append(("dispatch", num_sms, expert_alignment, do_cpu_sync, do_expand))
        if not self.writes:
            return self.last
        parts = x if isinstance(x, tuple) else (x,)
        here = [t for t in reversed(range(TOKENS)) if (topk_idx[t] >= 0).any()]  # V2 promises no order
        ends, begins, at = [], [], 0
        for e in range(EXPERTS):
            begins.append(at)
            ends.append(at + int((topk_idx == e).sum()))
            at = aligned(ends[-1], expert_alignment)
        most = CAPACITY * TOPK + EXPERTS * expert_alignment if do_expand else CAPACITY
        rows = most if not do_cpu_sync else at if do_expand else len(here)
        got = [torch.full((rows, p.shape[1]), float("nan")).to(p.dtype) for p in parts]
        weights, ids = torch.full((rows,) if do_expand else (rows, TOPK), float("nan")), torch.full((rows, TOPK), -7)
        meta = torch.full((len(here) if do_cpu_sync else CAPACITY, 2 + TOPK), -1, dtype=torch.int32)
        for r, t in enumerate(here):
            meta[r, 0] = t
            if not do_expand:
                ids[r], weights[r] = topk_idx[t], topk_weights[t]
            for k in range(TOPK if do_expand else 1):
                slot = r
                if do_expand:
                    if topk_idx[t, k] < 0:
                        continue
                    e = int(topk_idx[t, k])
                    slot, begins[e] = begins[e], begins[e] + 1
                    meta[r, 2 + k], weights[slot] = slot, topk_weights[t, k]
                for to, p in zip(got, parts):
                    to[slot] = p[t]
        handle = types.SimpleNamespace(recv_src_metadata=meta, psum_num_recv_tokens_per_scaleup_rank=torch.tensor([len(here)], dtype=torch.int32),
                                       psum_num_recv_tokens_per_expert=torch.tensor(ends, dtype=torch.int32), expand=do_expand, sms=num_sms)
        self.last = tuple(got) if len(got) > 1 else got[0], None if do_expand else ids, weights, handle, None
        return self.last

    def combine(self, y, handle, num_sms):
        self.asked.append(("combine", num_sms, self.reductions))
        out, meta = torch.zeros(TOKENS, HIDDEN), handle.recv_src_metadata
        for r in range(int(handle.psum_num_recv_tokens_per_scaleup_rank[-1])):
            for row in [s for s in meta[r, 2:].tolist() if s >= 0] if handle.expand else [r]:
                out[meta[r, 0]] += y[row].float()
        self.asked.append(y.shape[0])
        return out.to(torch.bfloat16), None, None


def opened(mode, layout, op, dtype):
    library = deepep2.Library(mode)
    library.rank, library.device, library.streams, library.clock, library.version = 0, CPU, None, "wall", "2.1.0"
    library.ranks = types.SimpleNamespace(rank=0, ranks=1, barrier=lambda: None, exchange=lambda x: [x])
    library.graphs, library.group = types.SimpleNamespace(forget=lambda: None), None
    library.deep_ep, library.buffers, library.shape = types.SimpleNamespace(ElasticBuffer=ElasticBuffer), {}, None
    library.machine = lambda: {"sms": 132}
    ids, weights = (b"".join(struct.pack(code, *row) for row in rows) for code, rows in (("<2i", IDS), ("<2f", WEIGHTS)))
    routing = {"tokens": TOKENS, "experts": base64.b64encode(ids).decode(), "weights": base64.b64encode(weights).decode()}
    problem = {"op": op, "ranks": 1, "hidden": HIDDEN, "experts": EXPERTS, "top_k": TOPK, "max_tokens": CAPACITY, "dispatch": dtype}
    if op == "layer":
        problem["intermediate"] = 64
    if layout != "expert":  # the protocol leaves out layout expert
        problem["layout"] = layout
    worker = types.SimpleNamespace(default=lambda op, beside: Half("k", {"sms": 0}))
    return library, GPUSession(library, {"problem": problem, "seed": SEED, "ranks": [routing]}, worker)


def config(op, sms):
    if op != "pair":
        return {"kernel": "k", "values": {"sms": sms}}
    return {"kernel": "k+k", "values": {"dispatch.sms": sms, "combine.sms": 0, "combine.reductions": 0}}


def check(mode, layout, op, dtype):
    library, session = opened(mode, layout, op, dtype)
    c = config(op, 24)
    session.prepare(c)
    for _ in range(2):
        reply = session.verify(c, [])
        assert reply["rows"] and reply["wrong"] == 0, (mode, layout, op, dtype, reply)
    ElasticBuffer.writes = False
    reply = session.verify(c, [])
    ElasticBuffer.writes = True
    assert reply["wrong"] >= TOKENS - 1, ("rows of an earlier call pass", mode, layout, op, dtype, reply)
    library.close()


for layout in ("rank:packed", "expert", "expert:128"):
    for mode in ("graph", "counts"):
        for dtype in ("bf16", "fp8"):
            for op in ("dispatch", "combine", "pair"):
                ElasticBuffer.asked = []
                check(mode, layout, op, dtype)
                sent = [a for a in ElasticBuffer.asked if isinstance(a, tuple)]
                alignment = 128 if layout == "expert:128" else 1
                if op != "combine":
                    assert ("dispatch", 24, alignment, mode == "counts", layout != "rank:packed") in sent, sent
                if op != "dispatch":
                    assert ("combine", ANALYTIC, False) in sent if op == "pair" else ("combine", 24, True) in sent, sent

for name in ("deepep2", "deepep2-expand"):
    library, session = opened("graph", "expert", "layer", "bf16")
    c = {"kernel": name, "values": {"sms": 24, "products": "torch"}}
    session.prepare(c)
    for _ in range(2):
        reply = session.verify(c, [])
        assert reply["rows"] == TOKENS and reply["wrong"] == 0 and 0 < reply["max_err"] < 0.05, (name, reply)
    library.layers.experts(session.work, CPU).w2[5] = 0
    assert session.verify(c, [])["wrong"] == 2, "expert 5 computed nothing"
    library.close()

library, _ = opened("graph", "expert", "dispatch", "bf16")
declared = {(k["name"], k["op"]): k for k in library.kernels()}
assert declared["deepep2", "combine"]["accepts"] == ["deepep2"], declared
assert declared["deepep2-expand", "dispatch"]["layouts"] == ["expert", "expert:128"], declared
sms = declared["deepep2", "dispatch"]["params"][0]
assert sms["default"] == 0 and sms["values"][0] == 0 and sms["values"][-1] == 132, sms
