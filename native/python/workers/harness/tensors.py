"""Computes the values of tokens, the outputs of experts and casts to fp8 on tensors. harness.payload computes the
same values in plain Python."""

import torch

GROUP = 128  # number of consecutive values that share a scale
# Libraries divide x by its scale in different ways before the cast to fp8. CAST_SLACK bounds the relative difference
# of the quotients. For example, DeepEP's low-latency kernels round three times in float32, which changes a quotient
# by at most 3 * 2^-24.
CAST_SLACK = 2.0**-21


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def mix(x):
    """Computes payload.mix on int64 tensors. Their arithmetic gives the same bits as that of uint64."""
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
    """Converts x to float32 [n, groups, 128]. It does not use view(n, -1, 128), which would fail for n = 0."""
    return x.float().unflatten(-1, (x.shape[-1] // GROUP, GROUP))


def quantized(x):
    """Returns x as fp8 [n, hidden], and the scales of x as float32 [n, hidden / 128]. All bits are equal to those
    that epbench computes."""
    most = grouped(x).abs().amax(-1).clamp(min=1e-4)
    # The divisor is a tensor, because torch on a GPU divides by a number as a product with 1/448. That product rounds
    # differently.
    scales = most / torch.full_like(most, 448)
    return quotients(x, scales).to(torch.float8_e4m3fn).view(x.shape), scales


def quotients(x, scales):
    """Returns the values divided by their scales, float32 [n, groups, 128], which a cast rounds to fp8."""
    return grouped(x) / scales[..., None]


def other_cast(x):
    """Returns the float32 values of a second cast that is also correct. If an element lies within CAST_SLACK of the
    middle between two fp8 values, the casts round it to different values."""
    q, scales = quantized(x)
    low, high = ((quotients(x, scales) * (1 + d)).to(torch.float8_e4m3fn).view(x.shape).float() for d in (-CAST_SLACK, CAST_SLACK))
    return dequantized(torch.where(low == q.float(), high, low), scales)


def dequantized(q, scales):
    """Returns q times its scales in float32. It does not round to BF16, because an expert's output would then be
    rounded twice."""
    return (grouped(q) * scales[..., None].float()).view(q.shape)
