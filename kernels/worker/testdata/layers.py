"""Checks op layer on tensors. It compares the weights with plain Python, and checks that a wrong layer is found. Layers
run in layouts rank and masked on one rank, in BF16 and FP8. Stand-ins replace DeepEP, and DeepGEMM for FP8. Needs
PyTorch."""

import base64
import pathlib
import struct
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness import layers, payload  # noqa: E402
from harness.judge import GPUSession  # noqa: E402
from harness.moves import Order  # noqa: E402
from harness.tensors import dequantized, quantized  # noqa: E402
from libraries import deepep  # noqa: E402

SEED, TOKENS, CAPACITY, HIDDEN, WIDTH, TOPK, EXPERTS = 3, 5, 7, 256, 128, 2, 6
CPU = torch.device("cpu")
# Expert 1 gets no token, and token 3 has one selection.
IDS = [(0, 5), (2, 0), (5, 3), (4, -1), (0, 2)]
WEIGHTS = [(0.5, 0.25), (1.0, 0.125), (0.75, 0.5), (0.25, 0.0), (1.5, 0.5)]


def unscaled(rows):
    """Returns FP8 rows (numbers, scales) [..., n, k] in float32."""
    return dequantized(rows[0].reshape(-1, rows[0].shape[-1]), rows[1].reshape(-1, rows[1].shape[-1])).view(rows[0].shape)


class DeepGEMM:
    """The module deep_gemm. Rows without an expert have no result."""

    @staticmethod
    def m_grouped_fp8_gemm_nt_contiguous(x, w, out, owners):
        assert len(x[0]) % 128 == 0 and w[1].shape[1:] == (w[0].shape[1] // 128, w[0].shape[2] // 128)
        for e in range(len(w[0])):
            out[owners == e] = (unscaled(x)[owners == e] @ (w[0][e].float() * w[1][e, 0, 0]).t()).to(torch.bfloat16)

    @staticmethod
    def m_grouped_fp8_gemm_nt_masked(x, w, out, counts, expected):
        for e, n in enumerate(counts.tolist()):
            out[e, :n] = (unscaled(x)[e, :n] @ (w[0][e].float() * w[1][e, 0, 0]).t()).to(torch.bfloat16)


class Buffer:
    """deep_ep.Buffer of one rank. Unused rows hold NaN, as memory of a GPU may hold anything."""

    def get_dispatch_layout(self, ids, experts):
        return None, None, None, None, None

    def dispatch(self, x, topk_idx, topk_weights, num_worst_tokens, **_):
        if isinstance(x, tuple):
            got = tuple(torch.full((num_worst_tokens, t.shape[1]), float("nan")).to(t.dtype) for t in x)
            got[0][:TOKENS], got[1][:TOKENS] = x
            _, ids, weights, *_ = self.dispatch(torch.zeros(TOKENS, HIDDEN, dtype=torch.bfloat16), topk_idx, topk_weights, num_worst_tokens)
            return got, ids, weights, None, None, None
        got = torch.full((num_worst_tokens, HIDDEN), float("nan"), dtype=torch.bfloat16)
        ids, weights = torch.full((num_worst_tokens, TOPK), -1), torch.full((num_worst_tokens, TOPK), float("nan"))
        got[:TOKENS], ids[:TOKENS], weights[:TOKENS] = x, topk_idx, topk_weights
        return got, ids, weights, None, None, None

    def combine(self, y, handle, config):
        return (y[:TOKENS].clone(),)

    def low_latency_dispatch(self, x, ids, capacity, experts, use_fp8, return_recv_hook):
        got, counts = torch.full((experts, capacity, HIDDEN), float("nan"), dtype=torch.bfloat16), torch.zeros(experts, dtype=torch.int32)
        self.places = []
        for t, k in torch.nonzero(ids >= 0).tolist():
            e = int(ids[t, k])
            got[e, counts[e]] = x[t]
            self.places.append((t, k, e, int(counts[e])))
            counts[e] += 1
        if use_fp8:
            q, scales = quantized(got.nan_to_num().view(-1, HIDDEN))
            got = q.view(got.shape), scales.view(*got.shape[:2], -1)
        return got, counts, None, None, None

    def low_latency_combine(self, y, ids, weights, handle, return_recv_hook, out):
        total = torch.zeros(out.shape)
        for t, k, e, at in self.places:
            total[t] += weights[t, k] * y[e, at].float()
        out.copy_(total)
        return None, None, None


def alone(mode):
    """A library on the only rank, as start leaves it."""
    library = deepep.Library(mode)
    library.rank, library.device, library.streams, library.clock = 0, CPU, None, "wall"
    library.ranks = types.SimpleNamespace(rank=0, ranks=1, barrier=lambda: None, exchange=lambda x: [x])
    library.graphs = types.SimpleNamespace(forget=lambda: None)
    library.deep_ep = types.SimpleNamespace(Config=lambda *values: values)
    library.buffer, library.shape = Buffer(), (CAPACITY, HIDDEN, EXPERTS)
    library.buffer.clean_low_latency_buffer = lambda *shape: None
    return library


def opened(mode, dtype="bf16"):
    library = alone(mode)
    numbers = lambda form, rows: base64.b64encode(struct.pack("<%d%s" % (TOKENS * TOPK, form), *sum(rows, ()))).decode()
    problem = {"op": "layer", "ranks": 1, "hidden": HIDDEN, "intermediate": WIDTH, "top_k": TOPK, "experts": EXPERTS, "max_tokens": CAPACITY, "dispatch": dtype}
    ranks = [{"tokens": TOKENS, "experts": numbers("i", IDS), "weights": numbers("f", WEIGHTS)}]
    return GPUSession(library, {"problem": problem, "seed": SEED, "ranks": ranks}, None)


def weights():
    for e, m in ((0, 0), (5, 1)):
        whole = layers.weight(SEED, e, m, HIDDEN, WIDTH, CPU).view(torch.int16)
        for row in (0, 1, len(whole) - 1):
            got = whole[row].numpy().tobytes()
            assert got == payload.weight_row(SEED, e, m, row, HIDDEN, WIDTH), "row %d of matrix %d of expert %d" % (row, m, e)


def right(mode, config, dtype="bf16"):
    session = opened(mode, dtype)
    session.prepare(config)
    reply = session.verify(config, [{"rank": 0, "token": 1, "k": -1}])
    assert reply["wrong"] == 0 and reply["rows"] == TOKENS, reply
    assert 0 < reply["max_err"] < 0.05, reply
    run = session.run(config, 2, 1)
    names = [s["name"] for s in run["stages"]]
    moves = (["arrange"], ["reduce"]) if mode == "normal" or dtype == "bf16" else ([], [])
    assert names == ["dispatch", *moves[0], "first", "swiglu", "second", *moves[1], "combine"], names
    assert "stages" not in session.run(config, 1, 1)
    return session


def wrong(mode, config):
    """A layer is wrong if one expert computes nothing, if one is an eighth off, or if nothing is computed."""
    session = opened(mode)
    w2 = session.library.layers.experts(session.work, CPU).w2
    kept = w2[5].clone()
    w2[5] = 0
    assert session.verify(config, [])["wrong"] == 2, "expert 5 computed nothing"
    w2[5] = kept * 1.125
    assert session.verify(config, [])["wrong"] == 2, "expert 5 is an eighth off"
    w2[5] = kept
    assert session.verify(config, [])["wrong"] == 0
    session.library.layer = lambda half: [("nothing", lambda: None)]
    assert session.verify(config, [])["wrong"] == TOKENS, "nothing was computed"


def wrong_in_fp8(mode, config):
    session = opened(mode, "fp8")
    experts = session.library.layers.experts(session.work, CPU)
    experts.w2[5] = 0
    assert session.verify(config, [])["wrong"] == 2, "expert 5 computed nothing"
    session = opened(mode, "fp8")
    experts.scales[0][2] *= 2
    session.library.layers.kept = session.library.layers.kept[0], experts
    assert session.verify(config, [])["wrong"] >= 2, "the scales of expert 2 are wrong"


def order():
    """Groups begin at multiples of the alignment, and owners name the experts."""
    ids = torch.tensor(IDS)
    o = Order(ids.shape, EXPERTS, 64, CPU, alignment=8, owned=True)
    o.place(ids)
    assert o.ends.tolist() == [3, 8, 10, 17, 25, 34], o.ends
    assert [int(o.owners[s]) for s in o.slots[ids >= 0]] == ids[ids >= 0].tolist()


weights()
order()
for mode, values in (("normal", {"sms": 20, "products": "torch"}), ("ll", {"products": "torch"})):
    right(mode, {"kernel": "k", "values": values})
    wrong(mode, {"kernel": "k", "values": values})
sys.modules["deep_gemm"] = DeepGEMM
for mode in ("normal", "ll"):
    config = {"kernel": "k", "values": {"sms": 20, "products": "deepgemm"}}
    right(mode, config, "fp8")
    wrong_in_fp8(mode, config)
