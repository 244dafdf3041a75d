"""The values of tokens, outputs of experts and casts to fp8 on tensors, as in harness.payload."""

import torch

GROUP = 128  # values with one scale
# CAST_SLACK bounds the relative difference of x / s between two fp8 casts. DeepEP's low-latency kernels compute x *
# (448 / amax). This has three float32 roundings, together at most 3 * 2^-24.
CAST_SLACK = 2.0**-21


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def mix(x):
    """Computes payload.mix on int64 tensors, which overflow to the same bits as uint64."""
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * signed(0x94D049BB133111EB)
    return x ^ (x >> 31 & (1 << 33) - 1)


def tokens(seed, rank, count, hidden, device):
    """Returns the tokens of a rank, BF16 [count, hidden]."""
    t = torch.arange(count, dtype=torch.int64, device=device)
    c = torch.arange(0, hidden, 4, dtype=torch.int64, device=device)
    h = mix(mix(t ^ signed((seed ^ rank << 40) & (1 << 64) - 1))[:, None] + c)
    lanes = torch.stack([h >> s & 0xFFFF for s in (0, 16, 32, 48)], -1).flatten(1)[:, :hidden]
    bits = (lanes & 0x807F) | (124 + (lanes >> 8 & 3)) << 7
    return bits.to(torch.int16).view(torch.bfloat16)


def gain(experts):
    return 0.5 + (experts % 64).float() / 64


def grouped(x):
    """Returns float32 [n, groups, 128]. view(n, -1, 128) would fail for n = 0."""
    return x.float().unflatten(-1, (x.shape[-1] // GROUP, GROUP))


def quantized(x):
    """Returns x as fp8 [n, hidden] and its scales float32 [n, hidden / 128], bit for bit as
    epbench computes them: s = max(amax, 1e-4) / 448, q = e4m3(x / s)."""
    most = grouped(x).abs().amax(-1).clamp(min=1e-4)
    # Divides by a tensor: to divide by a number, torch on a GPU multiplies by 1/448, which rounds differently.
    scales = most / torch.full_like(most, 448)
    return quotients(x, scales).to(torch.float8_e4m3fn).view(x.shape), scales


def quotients(x, scales):
    """Returns float32 [n, groups, 128], before rounding to fp8."""
    return grouped(x) / scales[..., None]


def other_cast(x):
    """Returns the float32 values of another correct cast. Elements close to the middle of two codes (CAST_SLACK) get
    the other code."""
    q, scales = quantized(x)
    low, high = ((quotients(x, scales) * (1 + d)).to(torch.float8_e4m3fn).view(x.shape).float() for d in (-CAST_SLACK, CAST_SLACK))
    return dequantized(torch.where(low == q.float(), high, low), scales)


def dequantized(q, scales):
    """Returns q times its scales in float32. In BF16, an expert's output would be rounded twice."""
    return (grouped(q) * scales[..., None].float()).view(q.shape)
