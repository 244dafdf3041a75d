"""Checks the workers of libraries that compute a whole layer, flashinfer_push and deepgemm, over stand-ins for the
libraries on one rank. Needs PyTorch."""

import base64
import pathlib
import struct
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness.judge import GPUSession  # noqa: E402
from harness.tensors import dequantized  # noqa: E402
from libraries import deepgemm, flashinfer_push  # noqa: E402

SEED, TOKENS, CAPACITY, HIDDEN, WIDTH, TOPK, EXPERTS = 3, 5, 7, 256, 128, 2, 6
CPU = torch.device("cpu")
IDS = [(0, 5), (2, 0), (5, 3), (4, -1), (0, 2)]
WEIGHTS = [(0.5, 0.25), (1.0, 0.125), (0.75, 0.5), (0.25, 0.0), (1.5, 0.5)]


def layer(x, ids, weights, w1, w2):
    """Computes a layer in float32 from tokens [n, hidden] and the weights of all experts."""
    out = torch.zeros(x.shape)
    for t, k in torch.nonzero(ids >= 0).tolist():
        gate, up = (w1[ids[t, k]].float() @ x[t].float()).chunk(2)
        out[t] += weights[t, k] * (w2[ids[t, k]].float() @ (gate / (1 + torch.exp(-gate)) * up))
    return out.to(torch.bfloat16)


class Runner:
    """FlashInfer's Sm90CakeBf16MoERunner. A round is stage_inputs, then compute."""

    def __init__(self, pipe, weights, combine_wire):
        self.pipe, self.experts, self.wire, self.staged, self.destroyed = pipe, weights, combine_wire, None, False

    def stage_inputs(self, x, ids, weights):
        assert self.staged is None and ids.dtype == torch.int32
        self.staged = x, ids, weights

    def compute(self, output):
        output.copy_(layer(*self.staged, *self.experts))
        self.staged = None

    def destroy(self):
        self.destroyed = True


class Mega:
    """The module deep_gemm with its SM90 kernel."""

    @staticmethod
    def get_symm_buffer_for_mega_moe(group, experts, capacity, topk, hidden, intermediate):
        memory = lambda dtype, *shape: torch.zeros(capacity, *shape).to(dtype)
        return types.SimpleNamespace(x=memory(torch.float8_e4m3fn, hidden), x_sf=memory(torch.float32, hidden // 128), topk_idx=memory(torch.int64, topk),
                                     topk_weights=memory(torch.float32, topk), destroy=lambda: None)

    @staticmethod
    def transform_weights_for_mega_moe_sm90(first, second):
        return tuple(w.float() * scales.repeat_interleave(128, 1).repeat_interleave(128, 2) for w, scales in (first, second))

    @staticmethod
    def fp8_mega_moe(y, w1, w2, buffer):
        n = len(y)
        y.copy_(layer(dequantized(buffer.x[:n], buffer.x_sf[:n]), buffer.topk_idx[:n], buffer.topk_weights[:n], w1, w2))
        buffer.x[:n] = 0  # the kernel may overwrite its inputs


def opened(library, dtype):
    library.rank, library.device, library.streams, library.clock, library.group = 0, CPU, None, "wall", None
    library.ranks = types.SimpleNamespace(rank=0, ranks=1, barrier=lambda: None, exchange=lambda x: [x])
    library.graphs = types.SimpleNamespace(forget=lambda: None)
    numbers = lambda form, rows: base64.b64encode(struct.pack("<%d%s" % (TOKENS * TOPK, form), *sum(rows, ()))).decode()
    problem = {"op": "layer", "ranks": 1, "hidden": HIDDEN, "intermediate": WIDTH, "top_k": TOPK, "experts": EXPERTS, "max_tokens": CAPACITY, "dispatch": dtype}
    ranks = [{"tokens": TOKENS, "experts": numbers("i", IDS), "weights": numbers("f", WEIGHTS)}]
    return GPUSession(library, {"problem": problem, "seed": SEED, "ranks": ranks}, None)


def right(session, values, stages):
    config = {"kernel": "k", "values": values}
    session.prepare(config)
    reply = session.verify(config, [{"rank": 0, "token": 1, "k": -1}])
    assert reply["wrong"] == 0 and reply["rows"] == TOKENS and 0 < reply["max_err"] < 0.05, reply
    assert [s["name"] for s in session.run(config, 2, 1)["stages"]] == stages
    session.library.layers.experts(session.work, CPU).w2[5] = 0
    return session, config


def push():
    library = flashinfer_push.Library()
    configs = lambda **named: types.SimpleNamespace(**named)
    library.push = types.SimpleNamespace(Sm90PushConfig=configs, Sm90PushPipe=configs, Sm90PushPayload=types.SimpleNamespace(BF16=1), Sm90PushCombine=types.SimpleNamespace(BF16=1))
    library.cake = types.SimpleNamespace(Sm90CakeBf16MoERunner=Runner, make_sm90_cake_bf16_weights=lambda w1, w2: (w1, w2))
    session, config = right(opened(library, "bf16"), {"wire": "prereduced"}, ["dispatch", "products and combine"])
    assert session.verify(config, [])["wrong"] == 2, "expert 5 computed nothing"
    first = library.runners["prereduced"]
    session.prepare({"kernel": "k", "values": {"wire": "per_route"}})
    assert library.runners["prereduced"] is first and library.runners["per_route"].wire == "per_route"
    assert (first.pipe.token_capacity, first.pipe.top_k, first.pipe.num_local_experts) == (CAPACITY, TOPK, EXPERTS)
    library.drop()
    assert first.destroyed and not library.runners


def mega():
    library = deepgemm.Library()
    library.gemm = Mega
    session, config = right(opened(library, "fp8"), {}, ["copy", "kernel"])
    library.packed[1][5] = 0
    assert session.verify(config, [])["wrong"] == 2, "expert 5 computed nothing"


push()
mega()
