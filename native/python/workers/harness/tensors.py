"""Tokens, experts and casts to fp8 on tensors; payload has the same for short rows."""

import torch

GROUP = 128  # values that share one scale in fp8
# Largest relative difference of x / s between another fp8 cast and ours: three roundings of
# float32 are at most 3 * 2^-24. DeepEP's low-latency kernels compute x * (448 / amax).
CAST_SLACK = 2.0**-21


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def mix(x):
    """payload.mix on int64 tensors, which wrap as uint64 does."""
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * signed(0x94D049BB133111EB)
    return x ^ (x >> 31 & (1 << 33) - 1)


def tokens(seed, rank, count, hidden, device):
    """BF16 [count, hidden]: the tokens of a rank."""
    t = torch.arange(count, dtype=torch.int64, device=device)
    c = torch.arange(0, hidden, 4, dtype=torch.int64, device=device)
    h = mix(mix(t ^ signed((seed ^ rank << 40) & (1 << 64) - 1))[:, None] + c)
    lanes = torch.stack([h >> s & 0xFFFF for s in (0, 16, 32, 48)], -1).flatten(1)[:, :hidden]
    bits = (lanes & 0x807F) | (124 + (lanes >> 8 & 3)) << 7
    return bits.to(torch.int16).view(torch.bfloat16)


def gain(experts):
    """float32: what each expert multiplies by."""
    return 0.5 + (experts % 64).float() / 64


def grouped(x):
    """float32 [n, groups, 128]. n may be 0, of which view(0, -1) can tell no size."""
    return x.float().unflatten(-1, (x.shape[-1] // GROUP, GROUP))


def quantized(x):
    """Returns x as fp8 [n, hidden] and its scales float32 [n, hidden / 128], bit for bit as
    epbench computes them: s = max(amax, 1e-4) / 448, q = e4m3(x / s)."""
    most = grouped(x).abs().amax(-1).clamp(min=1e-4)
    # On a GPU torch multiplies by 1/448 where the divisor is a Python number; that rounds
    # differently.
    scales = most / torch.full_like(most, 448)
    return quotients(x, scales).to(torch.float8_e4m3fn).view(x.shape), scales


def quotients(x, scales):
    """float32 [n, groups, 128]: what is rounded to fp8."""
    return grouped(x) / scales[..., None]


def other_cast(x):
    """Returns float32: x as an expert may also see it where a library casts by itself. Elements
    that lie between two codes, within CAST_SLACK, have the code that quantized did not
    choose."""
    q, scales = quantized(x)
    low, high = ((quotients(x, scales) * (1 + d)).to(torch.float8_e4m3fn).view(x.shape).float() for d in (-CAST_SLACK, CAST_SLACK))
    return dequantized(torch.where(low == q.float(), high, low), scales)


def dequantized(q, scales):
    """float32: rounded to BF16 here, an expert's row would be rounded twice."""
    return (grouped(q) * scales[..., None].float()).view(q.shape)
