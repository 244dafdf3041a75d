"""DeepEP's low-latency calls over layout masked."""

import typing

import torch

from .config import must_be
from .link import BF16, FP8, Rows


class Sent(typing.NamedTuple):
    """What combine needs of a dispatch, beside DeepEP's handle."""

    link: object
    dtype: int
    ids: torch.Tensor  # int32 [tokens, topk]
    rows: Rows


# DeepEP's handle here: src_info [local experts, rows] int32, layout_range [local experts,
# ranks] int64, num_max_dispatch_tokens_per_rank, hidden, num_experts.


def size_hint(tokens, hidden, ranks, experts):
    """Bytes of a rank's buffers in BF16: messages and rows on their way back, two sets."""
    return 2 * ranks * tokens * (2 * hidden + 128) + 2 * tokens * max(ranks, 16) * 2 * hidden + 8 * experts * ranks


def rounded_fp8(x):
    """FP8 with scales that are powers of two, float32 [tokens, hidden/128], at least as
    large as amax/448: none of the elements saturates."""
    groups = x.view(x.shape[0], x.shape[1] // 128, 128).float()  # also of no tokens
    amax = groups.abs().amax(dim=2, keepdim=True).clamp(min=1e-4)
    scales = torch.exp2(torch.ceil(torch.log2(amax / 448.0)))
    return (groups / scales).to(torch.float8_e4m3fn).view(x.shape), scales.squeeze(2).contiguous()


def ue8m0(scales):
    """The exponents of scales, four groups an int32, lowest first: of [experts, groups,
    rows] float32 makes [experts, rows, groups/4] int32, rows side by side in memory."""
    exponents = (scales.view(torch.int32) >> 23) & 0xFF
    e, groups, rows = exponents.shape
    four = exponents.view(e, groups // 4, 4, rows)
    packed = four[:, :, 0] | four[:, :, 1] << 8 | four[:, :, 2] << 16 | four[:, :, 3] << 24
    return packed.transpose(1, 2)


def new_rows(link, dtype):
    """Outputs: rows [local experts, ranks * tokens, hidden] and what describes them."""
    o, e = link.sizes(dtype), link.local_experts
    room = o.max_rows // e
    elements = torch.bfloat16 if dtype == BF16 else torch.float8_e4m3fn
    offsets, src_info = link.index(dtype)
    out = link.bytes(o.out_bytes).view(elements).view(e, room, link.hidden)
    scales = torch.empty((e, o.scales, room), dtype=torch.float32, device=link.device)
    ranges = torch.empty((e, link.ranks), dtype=torch.int64, device=link.device)
    return Rows(out, scales, offsets, ranges, src_info, torch.empty(e, dtype=torch.int32, device=link.device))


def dispatch(link, x, topk_idx, use_fp8, round_scale, use_ue8m0, stats, later):
    """(recv_x, recv_count, src_info, layout_range, sent, half). later: sends only, and half
    receives; without it half is None. stats: rows of each local expert are added to it."""
    must_be("x", x, torch.bfloat16, None, link.hidden)
    must_be("topk_idx", topk_idx, topk_idx.dtype, x.shape[0], link.topk)
    if stats is not None:
        must_be("cumulative_local_expert_recv_stats", stats, torch.int32, link.local_experts)
    dtype, scales = FP8 if use_fp8 else BF16, None
    if use_fp8 and round_scale:
        x, scales = rounded_fp8(x)
    ids = topk_idx.to(torch.int32).contiguous()
    weights = ids.view(torch.float32)  # not read
    rows = new_rows(link, dtype)
    e, room = link.local_experts, rows.out.shape[1]
    exponents = None
    if use_ue8m0:
        exponents = torch.empty((e, rows.scales.shape[1] // 4, room), dtype=torch.int32, device=link.device).transpose(1, 2)

    def received():
        if exponents is not None:
            exponents.copy_(ue8m0(rows.scales))
        if stats is not None:
            stats.add_(rows.row_offsets[:e])

    half = None
    if later:
        half = link.send_dispatch(dtype, x, scales, ids, weights, rows, received)
    else:
        link.dispatch(dtype, x, scales, ids, weights, rows)
        received()
    src_info = rows.src_info[:2 * e * room].view(e, room, 2)[:, :, 0]
    out = rows.out
    if use_fp8:
        out = (rows.out, exponents if use_ue8m0 else rows.scales.transpose(1, 2))
    return out, rows.row_offsets[:e], src_info, rows.expert_ids, Sent(link, dtype, ids, rows), half


def combine(sent, x, topk_weights, out, later):
    """Rows times their weights, summed: [tokens, hidden] bfloat16; and with `later` the Half
    that receives them, else None."""
    link, tokens = sent.link, sent.ids.shape[0]
    must_be("x", x, torch.bfloat16, *sent.rows.out.shape)
    must_be("topk_weights", topk_weights, torch.float32, *sent.ids.shape)
    if out is not None:
        must_be("out", out, torch.bfloat16, tokens, link.hidden)
        if not out.is_contiguous():
            raise ValueError(f"out: strides {out.stride()}; give a contiguous tensor")
    else:
        out = torch.empty((tokens, link.hidden), dtype=torch.bfloat16, device=link.device)
    given = (sent.dtype, x.contiguous(), sent.ids, topk_weights.contiguous(), sent.rows, out)
    if later:
        return out, link.send_combine(*given)
    link.combine(*given)
    return out, None
