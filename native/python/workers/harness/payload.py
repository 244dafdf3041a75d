"""Computes the values of tokens and the outputs of experts as the worker protocol defines them. It uses
plain Python, for short rows. harness.tensors computes the same on tensors."""

import struct

MASK = (1 << 64) - 1


def mix(x):
    """Returns SplitMix64's increment and finalizer applied to x."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def token_row(seed, rank, token, hidden):
    """Returns one token as BF16 bytes."""
    base, out = mix(seed ^ rank << 40 ^ token), []
    for c in range(0, hidden, 4):
        h = mix((base + c) & MASK)
        for _ in range(min(4, hidden - c)):
            out.append((h & 0x807F) | (124 + (h >> 8 & 3)) << 7)
            h >>= 16
    return struct.pack("<%dH" % hidden, *out)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def floats(row):
    """Returns the numbers of a row of BF16 bytes."""
    return [struct.unpack("<f", struct.pack("<I", u << 16))[0] for u in struct.unpack("<%dH" % (len(row) // 2), row)]


def bf16(values):
    """Returns numbers as BF16 bytes, rounded to nearest, ties to even."""
    bits = struct.unpack("<%dI" % len(values), struct.pack("<%df" % len(values), *values))
    return struct.pack("<%dH" % len(values), *((u + 0x7FFF + (u >> 16 & 1)) >> 16 & 0xFFFF for u in bits))


def gain(expert):
    """Returns the factor by which an expert multiplies a token."""
    return 0.5 + expert % 64 / 64


def expert_row(row, expert):
    """Returns the output of one expert for a row, as BF16 bytes."""
    g = gain(expert)
    return bf16([f32(v * g) for v in floats(row)])


def weighted(rows, weights):
    """Returns the sum of BF16 rows times their weights. It is computed in float32 and rounded to BF16
    once."""
    total = [0.0] * (len(rows[0]) // 2)
    for row, weight in zip(rows, weights):
        total = [f32(a + f32(weight * v)) for a, v in zip(total, floats(row))]
    return bf16(total)
