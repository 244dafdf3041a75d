"""Computes the experts of a layer on tensors. A layer is a dispatch, the experts and a combine. The module has the
weights, the grouped products (the matrix products of all experts in one call), and the expected outputs.

Grouped products come from PyTorch, or from DeepGEMM if deep_gemm is installed. Only DeepGEMM multiplies FP8. FP8 rows
are a pair of tensors: E4M3 numbers, and float32 scales, one for each 128 numbers.
"""

import contextlib
import functools

import torch

from . import moves
from .moves import Order
from .payload import BF16_UNIT, FP8_UNIT, LAYER_SPREAD, lowest_exponent
from .protocol import Failure
from .tensors import mix, signed

GEMM_ALIGNMENT = 128  # DeepGEMM wants each expert's first row at a multiple of this number
PART = 4096  # largest number of tokens of an expert that are computed together


def weight(seed, expert, matrix, hidden, intermediate, device, fp8=False):
    """Returns a weight matrix in BF16: W1 [2 * intermediate, hidden] or W2 [hidden, intermediate]. With `fp8`, each
    weight is an E4M3 number times a power of two. This power is the same for all weights of the matrix."""
    shape = (hidden, intermediate) if matrix else (2 * intermediate, hidden)
    base = mix(torch.tensor(signed((seed ^ 1 << 62 ^ expert << 1 ^ matrix) & (1 << 64) - 1), device=device))
    h = mix(base + torch.arange(0, shape[0] * shape[1], 4, device=device))
    out = torch.empty(len(h), 4, dtype=torch.int16, device=device)
    low, keep = lowest_exponent(shape[1]), 0x8070 if fp8 else 0x807F
    for lane in range(4):
        bits = h >> 16 * lane & 0xFFFF
        out[:, lane] = ((bits & keep) | (low + (bits >> 8 & 3)) << 7).to(torch.int16)
    return out.view(torch.bfloat16).view(shape)


class Experts:
    """The experts of a rank: w1 [local, 2 * intermediate, hidden] and w2 [local, hidden, intermediate]. In FP8, the
    attribute `scales` holds float32 scales, one for each block of 128 x 128 weights."""

    def __init__(self, work, device):
        first, h, i = work.rank * work.local, work.hidden, work.intermediate
        self.fp8 = work.problem["dispatch"] == "fp8"
        dtype = torch.float8_e4m3fn if self.fp8 else torch.bfloat16
        self.w1 = torch.empty(work.local, 2 * i, h, dtype=dtype, device=device)
        self.w2 = torch.empty(work.local, h, i, dtype=dtype, device=device)
        self.scales = []
        for m, w in enumerate((self.w1, self.w2)):
            scale = 2.0 ** (lowest_exponent(w.shape[2]) - 127) if self.fp8 else 1
            for e in range(work.local):
                w[e] = (weight(work.seed, first + e, m, h, i, device, self.fp8) / scale).to(dtype)
            self.scales.append(torch.full((work.local, *(-(-n // 128) for n in w.shape[1:])), scale, dtype=torch.float32, device=device))


@functools.cache
def deep_gemm():
    with contextlib.suppress(ImportError):
        import deep_gemm as found
        return found


def products():
    """Returns the names of the installed libraries that can compute grouped products."""
    return ["torch"] + ["deepgemm"] * (deep_gemm() is not None)


class Products:
    """The two grouped products of a layer, with SwiGLU between them. `by` is the name of the library that computes
    the products. `rows` is the largest number of rows. In layout masked it is a pair: the number of local experts,
    and the largest number of rows of one expert. `expected` is the mean number of rows of an expert. The stages leave
    their result in the attribute `y`, in BF16."""

    def __init__(self, by, experts, rows, expected):
        self.by, self.experts, self.masked, self.expected = by, experts, isinstance(rows, tuple), max(int(expected), 1)
        if self.masked and by == "torch":
            raise Failure("illegal", "products: PyTorch has no grouped product of layout masked; pack the rows first")
        if experts.fp8 and by == "torch":
            raise Failure("illegal", "products: PyTorch has no grouped product of FP8 rows with scales of 128 numbers; set products=deepgemm")
        memory = lambda width, dtype=torch.bfloat16: torch.zeros(*(rows if self.masked else (rows,)), width, dtype=dtype, device=experts.w1.device)
        local, double, hidden = experts.w1.shape
        self.both = self.y = None  # PyTorch's product allocates its result
        if by != "torch":
            self.both, self.y = memory(double), memory(hidden)
        self.h = memory(double // 2)
        if experts.fp8:
            self.h = memory(double // 2, torch.float8_e4m3fn), memory(double // 256, torch.float32)

    def stages(self, rows, where, owners=None, weights=None):
        """Returns the stages as pairs (name, function). rows() returns the input. where() returns the index after
        each expert's last row. In layout masked it returns each expert's number of rows. `owners` has the expert of
        each row, which DeepGEMM needs. weights() returns a factor for each row."""
        def activate():
            if self.masked:
                moves.swiglu_masked(self.both, self.h, where())
            else:
                moves.swiglu(self.both, self.h, where(), weights and weights())

        def first():
            self.both = self.multiply(rows(), 0, self.both, where(), owners)

        def second():
            self.y = self.multiply(self.h, 1, self.y, where(), owners)

        return [("first", first), ("swiglu", activate), ("second", second)]

    def multiply(self, x, matrix, out, where, owners):
        """Returns x times the experts' W1 (matrix 0) or W2 (matrix 1)."""
        w = self.experts.w2 if matrix else self.experts.w1
        if self.by == "torch":
            return torch._grouped_mm(x, w.transpose(1, 2), offs=where)
        dtype = "bf16"
        if self.experts.fp8:
            dtype, w = "fp8", (w, self.experts.scales[matrix])
        if self.masked:
            getattr(deep_gemm(), "m_grouped_%s_gemm_nt_masked" % dtype)(x, w, out, where, min(self.expected, out.shape[1]))
        else:
            getattr(deep_gemm(), "m_grouped_%s_gemm_nt_contiguous" % dtype)(x, w, out, owners)
        return out


class RankLayer:
    """Computes the experts between dispatch and combine in layout rank. It copies a received row once for each of its
    experts here, and adds the experts' weighted outputs."""

    def __init__(self, by, experts, rows, topk, expected):
        local, hidden = experts.w2.shape[:2]
        aligned = by == "deepgemm"
        capacity = rows * min(topk, local)
        if aligned:
            capacity = -(-capacity // GEMM_ALIGNMENT) * GEMM_ALIGNMENT + local * GEMM_ALIGNMENT
        device = experts.w1.device
        self.order = Order((rows, topk), local, capacity, device, GEMM_ALIGNMENT if aligned else 1, owned=aligned)
        self.rows = torch.zeros(capacity, hidden, dtype=experts.w1.dtype, device=device)
        if experts.fp8:
            self.rows = self.rows, torch.zeros(capacity, hidden // 128, dtype=torch.float32, device=device)
        self.products = Products(by, experts, capacity, expected)

    def stages(self, rows, ids, weights, out):
        """Returns the stages as pairs (name, function). The last stage writes the sums to out. ids() and weights()
        return tensors [rows, topk]. An id is -1 for an expert of another rank."""
        def arrange():
            self.order.place(ids())
            if isinstance(self.rows, tuple):
                for received, own in zip(rows(), self.rows):
                    self.order.spread(received, own)
            else:
                self.order.spread(rows(), self.rows)

        return [("arrange", arrange), *self.products.stages(lambda: self.rows, lambda: self.order.ends, self.order.owners),
                ("reduce", lambda: self.order.gather(self.products.y, weights(), out))]


class MaskedLayer:
    """Computes the experts between dispatch and combine in layout masked. PyTorch's grouped product needs rows
    without gaps, so for this product it packs the rows first."""

    def __init__(self, by, experts, room, expected):
        local, hidden = experts.w2.shape[:2]
        device = experts.w1.device
        self.packs = by == "torch"
        if self.packs:
            self.rows = torch.zeros(local * room, hidden, dtype=torch.bfloat16, device=device)
            self.ends = torch.zeros(local, dtype=torch.int32, device=device)
        self.products = Products(by, experts, local * room if self.packs else (local, room), expected)
        self.y = self.products.y

    def stages(self, rows, counts):
        """Returns the stages as pairs (name, function). They leave the outputs in self.y. rows() returns the received
        rows, [local experts, room, hidden]. counts() returns the number of rows of each expert. With PyTorch's
        product the outputs replace the received rows."""
        if not self.packs:
            return self.products.stages(rows, counts)

        def arrange():
            torch.cumsum(counts(), 0, dtype=torch.int32, out=self.ends)
            moves.pack(rows(), self.rows, counts(), self.ends)

        def unpack():
            self.y = rows()
            moves.pack(self.y, self.products.y, counts(), self.ends, back=True)

        return [("arrange", arrange), *self.products.stages(lambda: self.rows, lambda: self.ends), ("reduce", unpack)]


class Layers:
    """Keeps the objects that compute layers. A rank's experts are kept from one session to the next, because their
    weights take long to compute."""

    def __init__(self):
        self.kept, self.made = None, {}

    def experts(self, work, device):
        shape = work.seed, work.rank, work.local, work.hidden, work.intermediate, work.problem["dispatch"]
        if self.kept is None or self.kept[0] != shape:
            self.kept = None
            self.kept = shape, Experts(work, device)
        return self.kept[1]

    def get(self, name, make):
        """Returns what make() returned for this name. It calls make() only at the first use of the name in a
        session."""
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def close(self):
        self.made = {}


def mean_rows(work):
    """Returns the mean number of rows of an expert."""
    return sum(work.counts) * work.topk / work.problem["experts"]


def expected_outputs(lib):
    """Returns the expected outputs of this rank's tokens, and a bound for the error of each value. Both are float64
    [tokens, hidden]. kernels/ref/layer.go computes the same."""
    w, ids = lib.work, lib.ids
    x, gates = lib.seen(lib.rank).double(), lib.weights.double()
    want, squares = torch.zeros_like(x), torch.zeros_like(x)
    for rank in range(w.ranks):
        partial = torch.zeros_like(x)
        for e in range(rank * w.local, (rank + 1) * w.local):
            at, k = torch.nonzero(ids == e, as_tuple=True)
            if len(at) == 0:
                continue
            w1, w2 = (weight(w.seed, e, m, w.hidden, w.intermediate, x.device, lib.fp8).double() for m in (0, 1))
            for token, gate in zip(at.split(PART), gates[at, k].split(PART)):
                y, variance = expert_output(x[token], w1, w2, FP8_UNIT if lib.fp8 else 0)
                partial[token] += gate[:, None] * y
                squares[token] += gate[:, None] ** 2 * (variance + (BF16_UNIT * y) ** 2)
        want += partial
        squares += (BF16_UNIT * partial) ** 2
    return want, LAYER_SPREAD * (squares + (BF16_UNIT * want) ** 2).sqrt() + 1e-6


def expert_output(x, w1, w2, unit):
    """Returns one expert's outputs for the tokens x, and the variance that roundings cause in each output. `unit` is
    the largest relative error of a cast between the two products, or 0 if there is no cast."""
    gate, up = (x @ w1.t()).chunk(2, 1)
    silu = gate / (1 + torch.exp(-gate))
    variance = (BF16_UNIT * up) ** 2 * ((1.1 * gate) ** 2 + 3 * silu**2) + (unit * silu * up) ** 2
    return (silu * up) @ w2.t(), variance @ (w2**2).t()
