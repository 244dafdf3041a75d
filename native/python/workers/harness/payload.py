"""Computes the values of tokens and the outputs of experts in plain Python, as the worker protocol defines them.
harness.tensors computes the same values on tensors."""

import math
import struct

MASK = (1 << 64) - 1


def mix(x):
    """Returns the output of the generator SplitMix64 for the state x."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def token_row(seed, rank, token, hidden):
    base, out = mix(seed ^ rank << 40 ^ token), []
    for c in range(0, hidden, 4):
        h = mix((base + c) & MASK)
        for _ in range(min(4, hidden - c)):
            out.append((h & 0x807F) | (124 + (h >> 8 & 3)) << 7)
            h >>= 16
    return struct.pack("<%dH" % hidden, *out)


def weight_row(seed, expert, matrix, row, hidden, intermediate):
    """Returns a row of a weight matrix as BF16 bytes. Matrix 0 is W1 [2 * intermediate, hidden], in which the rows
    for the gate come first. Matrix 1 is W2 [hidden, intermediate]."""
    length = intermediate if matrix else hidden
    low, base, out = lowest_exponent(length), mix(seed ^ 1 << 62 ^ expert << 1 ^ matrix), []
    for c in range(row * length, (row + 1) * length, 4):
        h = mix((base + c) & MASK)
        for _ in range(4):
            out.append((h & 0x807F) | (low + (h >> 8 & 3)) << 7)
            h >>= 16
    return struct.pack("<%dH" % length, *out)


def lowest_exponent(length):
    """Returns the lowest biased exponent of weights. It is lower for longer rows, so that the outputs of a matrix
    product have about the magnitude of the tokens."""
    return 124 - (length.bit_length() - 1) // 2


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def floats(row):
    return [struct.unpack("<f", struct.pack("<I", u << 16))[0] for u in struct.unpack("<%dH" % (len(row) // 2), row)]


def bf16(values):
    bits = struct.unpack("<%dI" % len(values), struct.pack("<%df" % len(values), *values))
    return struct.pack("<%dH" % len(values), *((u + 0x7FFF + (u >> 16 & 1)) >> 16 & 0xFFFF for u in bits))


def gain(expert):
    return 0.5 + expert % 64 / 64


def expert_row(row, expert):
    g = gain(expert)
    return bf16([f32(v * g) for v in floats(row)])


def weighted(rows, weights):
    """Returns the weighted sum of BF16 rows, in float32, rounded to BF16 once."""
    total = [0.0] * (len(rows[0]) // 2)
    for row, weight in zip(rows, weights):
        total = [f32(a + f32(weight * v)) for a, v in zip(total, floats(row))]
    return bf16(total)


BF16_UNIT = 1 / 256  # relative error of rounding to BF16
FP8_UNIT = 1 / 16  # relative error of rounding to E4M3
LAYER_SPREAD = 4  # largest error in standard deviations, as in kernels/ref/layer.go


def swiglu(gate, up):
    """Returns silu(gate) * up, and the standard deviation that roundings to BF16 cause in it."""
    silu = gate / (1 + math.exp(-gate))
    return silu * up, BF16_UNIT * abs(up) * math.sqrt((1.1 * gate) ** 2 + 3 * silu**2)


def expert_output(x, expert, seed, intermediate):
    """Returns an expert's output for one token x, and the variance that roundings cause in each value."""
    hidden = len(x)
    row = lambda matrix, i: floats(weight_row(seed, expert, matrix, i, hidden, intermediate))
    dot = lambda i: sum(w * v for w, v in zip(row(0, i), x))
    h, deviation = zip(*(swiglu(dot(i), dot(intermediate + i)) for i in range(intermediate)))
    y, variance = [], []
    for c in range(hidden):
        w = row(1, c)
        y.append(sum(a * b for a, b in zip(w, h)))
        variance.append(sum((a * b) ** 2 for a, b in zip(w, deviation)))
    return y, variance


def layer_row(parts, hidden):
    """Returns a token's layer output, and a bound for the error of each value. `parts` has (rank, weight, y,
    variance) for each of the token's experts."""
    want, bound = [0.0] * hidden, []
    partials = {rank: [0.0] * hidden for rank, _, _, _ in parts}
    for rank, weight, y, _ in parts:
        want = [a + weight * b for a, b in zip(want, y)]
        partials[rank] = [a + weight * b for a, b in zip(partials[rank], y)]
    for c, x in enumerate(want):
        squares = [weight**2 * (variance[c] + (BF16_UNIT * y[c]) ** 2) for _, weight, y, variance in parts]
        squares += [(BF16_UNIT * p[c]) ** 2 for p in partials.values()]
        bound.append(LAYER_SPREAD * math.sqrt(sum(squares) + (BF16_UNIT * x) ** 2) + 1e-6)
    return want, bound
