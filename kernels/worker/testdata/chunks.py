"""Tests how the worker epcomm computes layers in chunks. A stand-in with one rank replaces the library epcomm. The test
checks the outputs, the order of the calls, and that no call overwrites rows that a later call reads. Needs PyTorch."""

import base64
import pathlib
import struct
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness.judge import GPUSession  # noqa: E402
from libraries import epcomm  # noqa: E402

SEED, TOKENS, CAPACITY, HIDDEN, WIDTH, TOPK, EXPERTS = 3, 5, 7, 256, 64, 2, 6
IDS = [(0, 5), (2, 0), (5, 3), (4, -1), (0, 2)]
WEIGHTS = [(0.5, 0.25), (1.0, 0.125), (0.75, 0.5), (0.25, 0.0), (1.5, 0.5)]


class EP:
    """epcomm.EP of one rank with two slots."""

    info = types.SimpleNamespace(hidden=HIDDEN, experts=EXPERTS, topk=TOPK, ranks=1, max_tokens=CAPACITY)
    max_tokens = CAPACITY

    def __init__(self):
        self.slots, self.calls = {}, []

    def max_rows(self, dtype):
        return CAPACITY * TOPK

    def dispatch(self, x, ids, weights, *, fullest, slot=0, **_):
        assert slot not in self.slots, "rows that combine has not read yet"
        assert fullest >= len(x)
        self.calls.append("dispatch %d" % slot)
        at = torch.nonzero(ids >= 0)
        at = at[ids[at[:, 0], at[:, 1]].argsort(stable=True)]
        out = torch.full((CAPACITY * TOPK, HIDDEN), float("nan"), dtype=torch.bfloat16)
        out[:len(at)] = x[at[:, 0]]
        ends = torch.stack([(ids == e).sum() for e in range(EXPERTS)]).cumsum(0)
        self.slots[slot] = at, weights
        return types.SimpleNamespace(out=out, row_offsets=torch.cat([torch.zeros(1), ends]).int())

    def combine(self, y, ids, weights, *, out, slot=0, **_):
        self.calls.append("combine %d" % slot)
        at, gates = self.slots.pop(slot)
        total = torch.zeros(out.shape)
        for row, (t, k) in enumerate(at.tolist()):
            total[t] += gates[t, k] * y[row].float()
        out.copy_(total)


def opened():
    library = epcomm.Library("pack", "chunks")
    library.rank, library.device, library.streams, library.clock, library.ep, library.version = 0, torch.device("cpu"), None, "wall", EP(), "1"
    library.ranks = types.SimpleNamespace(rank=0, ranks=1, barrier=lambda: None, exchange=lambda x: [x])
    library.graphs = types.SimpleNamespace(forget=lambda: None)
    numbers = lambda form, rows: base64.b64encode(struct.pack("<%d%s" % (TOKENS * TOPK, form), *sum(rows, ()))).decode()
    problem = {"op": "layer", "ranks": 1, "hidden": HIDDEN, "intermediate": WIDTH, "top_k": TOPK, "experts": EXPERTS, "max_tokens": CAPACITY, "dispatch": "bf16"}
    ranks = [{"tokens": TOKENS, "experts": numbers("i", IDS), "weights": numbers("f", WEIGHTS)}]
    return GPUSession(library, {"problem": problem, "seed": SEED, "ranks": ranks}, None)


def grouped(x, w, offs):
    """Computes torch._grouped_mm, which PyTorch's CPU version may lack. Unused rows are NaN."""
    out, begin = torch.full((len(x), w.shape[2]), float("nan"), dtype=torch.bfloat16), 0
    for e, end in enumerate(offs.tolist()):
        out[begin:end], begin = (x[begin:end].float() @ w[e].float()).to(torch.bfloat16), end
    return out


torch._grouped_mm = grouped
for chunks in (1, 2, 4):
    session, config = opened(), {"kernel": "epcomm", "values": {"products": "torch", "chunks": chunks}}
    session.prepare(config)
    reply = session.verify(config, [])
    assert reply["wrong"] == 0 and 0 < reply["max_err"] < 0.05, reply
    ep = session.library.ep
    ep.calls.clear()
    names = [s["name"] for s in session.run(config, 1, 1)["stages"]]
    assert names == (["dispatch", "first", "swiglu", "second", "combine"] if chunks == 1 else ["chunks"]), names
    want = ["dispatch 0"] + [c for n in range(chunks) for c in (["dispatch %d" % ((n + 1) % 2)] if n + 1 < chunks else []) + ["combine %d" % (n % 2)]]
    assert ep.calls[:2 * chunks] == want and not ep.slots, ep.calls
    session.library.layers.experts(session.work, session.library.device).w2[5] = 0
    assert session.verify(config, [])["wrong"] == 2, "the weights of expert 5 were 0, but verify did not find its 2 tokens wrong"
values = {k["name"]: [p["values"] for p in k["params"] if p["name"] == "chunks"] for k in session.library.kernels() if k["op"] == "layer"}
assert values == {"epcomm": [[1, 2, 4]]}, values
session.library.in_flight = 1
assert [p["values"] for k in session.library.kernels() for p in k["params"] if p["name"] == "chunks"] == [[1]]
