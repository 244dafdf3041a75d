"""Checks the workers of libraries that compute a whole layer, flashinfer_push, flashinfer_pull and deepgemm, over
stand-ins for the libraries on one rank. Needs PyTorch."""

import base64
import pathlib
import struct
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness import Failure  # noqa: E402
from harness.judge import GPUSession  # noqa: E402
from harness.layers import weight  # noqa: E402
from harness.tensors import dequantized  # noqa: E402
from libraries import deepgemm, flashinfer_pull, flashinfer_push  # noqa: E402

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


class Pull:
    """The module pull_style_cutedsl_megakernel. Each buffer keeps how often it was compiled and destroyed."""

    @staticmethod
    def get_symm_buffer_for_hopper_fp8_mega_moe(experts, tokens, topk, hidden, intermediate, rank, ranks, fp8_scale_mode):
        assert (rank, ranks, fp8_scale_mode) == (0, 1, "blockwise")
        buffer = types.SimpleNamespace(tokens=tokens, shape=(experts, hidden, intermediate), compiled=0, destroyed=0)
        buffer.x, buffer.x_sf = torch.zeros(tokens, hidden).to(torch.float8_e4m3fn), torch.zeros(tokens, -(-hidden // 512) * 4)
        buffer.topk_idx, buffer.topk_weights = torch.full((tokens, topk), 0), torch.ones(tokens, topk)
        buffer.output_activation = torch.zeros(tokens, hidden, dtype=torch.bfloat16)
        buffer.destroy = lambda: setattr(buffer, "destroyed", buffer.destroyed + 1)
        return buffer

    @staticmethod
    def hopper_fp8_mega_launch_thunk(first, second, buffer):
        buffer.compiled += 1

    @classmethod
    def hopper_fp8_mega_moe(cls, y, first, second, buffer, num_tokens):
        assert y is None and bool((buffer.topk_idx[num_tokens:] == -1).all()), "rows without a token go to an expert"
        w1, w2 = cls.numbers(*first), cls.numbers(*second)
        gate, up = w1.view(len(w1), -1, 2, 8, w1.shape[2]).transpose(1, 2).flatten(2, 3).unbind(1)
        x = dequantized(buffer.x, buffer.x_sf[:, :buffer.x.shape[1] // 128])
        buffer.output_activation.zero_()
        for t, k in torch.nonzero(buffer.topk_idx >= 0).tolist():
            e = buffer.topk_idx[t, k]
            h = torch.nn.functional.silu(gate[e] @ x[t]) * (up[e] @ x[t]) * buffer.topk_weights[t, k]
            buffer.output_activation[t] += (w2[e] @ cls.rounded(h)).to(torch.bfloat16)
        return buffer.output_activation[:num_tokens]

    @staticmethod
    def numbers(w, scales, *none):
        """Returns float32 weights [experts, outputs, inputs], as the kernel understands its arguments."""
        assert none == (None, None) and w.dtype == torch.float8_e4m3fn and w.stride(1) == 1
        assert scales.is_contiguous() and scales.shape == (len(w), w.shape[2] // 128, w.shape[1] // 128)
        return w.transpose(1, 2).float() * scales.repeat_interleave(128, 1).repeat_interleave(128, 2)

    @staticmethod
    def rounded(h):
        """Rounds to FP8 with a scale for 64 numbers."""
        groups = h.view(-1, 64)
        scale = groups.abs().amax(1, keepdim=True).clamp(min=1e-12) / 448
        return ((groups / scale).to(torch.float8_e4m3fn).float() * scale).view(-1)


def opened(library, dtype, ids=IDS, capacity=CAPACITY):
    library.rank, library.device, library.streams, library.clock, library.group = 0, CPU, None, "wall", None
    library.ranks = types.SimpleNamespace(rank=0, ranks=1, barrier=lambda: None, exchange=lambda x: [x], line=types.SimpleNamespace())
    library.graphs = types.SimpleNamespace(forget=lambda: None)
    numbers = lambda form, rows: base64.b64encode(struct.pack("<%d%s" % (TOKENS * TOPK, form), *sum(rows, ()))).decode()
    problem = {"op": "layer", "ranks": 1, "hidden": HIDDEN, "intermediate": WIDTH, "top_k": TOPK, "experts": EXPERTS, "max_tokens": capacity, "dispatch": dtype}
    ranks = [{"tokens": TOKENS, "experts": numbers("i", ids), "weights": numbers("f", WEIGHTS)}]
    return GPUSession(library, {"problem": problem, "seed": SEED, "ranks": ranks}, None)


def right(session, values, stages, most=0.05):
    config = {"kernel": "k", "values": values}
    session.prepare(config)
    reply = session.verify(config, [{"rank": 0, "token": 1, "k": -1}])
    assert reply["wrong"] == 0 and reply["rows"] == TOKENS and 0 < reply["max_err"] < most, reply
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


def pull():
    library, full = flashinfer_pull.Library(), [(0, 5), (2, 0), (5, 3), (4, 1), (0, 2)]
    library.pull = Pull
    session, config = right(opened(library, "fp8", full), {}, ["copy", "kernel"])
    # The library gets exactly the weights of the oracle: gate and up alternate in eights, and scales are powers of two.
    for m, packed in enumerate(library.packed):
        found, order = Pull.numbers(*packed), torch.arange(2 * WIDTH).view(2, -1, 8).transpose(0, 1).flatten()
        for e in range(EXPERTS):
            wanted = weight(SEED, e, m, HIDDEN, WIDTH, CPU, fp8=True).float()
            assert torch.equal(found[e], wanted if m else wanted[order]) == (m == 0 or e != 5)  # right() set W2 of expert 5 to 0
    assert session.verify(config, [])["wrong"] == 2, "expert 5 computed nothing"
    small = library.buffer
    assert (small.tokens, small.shape, small.compiled) == (8, (EXPERTS, HIDDEN, WIDTH), 1)
    library.close()
    try:
        opened(library, "fp8").prepare(config)
        raise AssertionError("a masked selection was accepted")
    except Failure as e:
        assert e.status == "illegal"
    opened(library, "fp8", full, capacity=100)
    assert library.buffer.tokens == 100 and not small.destroyed, "a buffer of another size is kept"
    library.shape = None
    opened(library, "fp8", full)
    assert small.destroyed == 1 and len(library.buffers) == 1, "buffers of another shape are freed"


push()
pull()
mega()
