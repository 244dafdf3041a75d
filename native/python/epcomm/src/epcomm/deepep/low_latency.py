"""Makes DeepEP's low-latency calls with kernels of layout masked, in which each local expert has a block of rows."""

import typing

import torch

from .config import must_be, must_be_off, must_be_on
from .link import Half, Misread


class Sent(typing.NamedTuple):
    link: object
    fp8: bool
    tokens: int


def size_hint(tokens, hidden, ranks, experts):
    return 2 * ranks * tokens * (2 * hidden + 128) + 2 * tokens * max(ranks, 16) * 2 * hidden + 8 * experts * ranks


def rounded_fp8(x):
    """Returns FP8 rows and their scales, float32 [tokens, hidden/128]. A scale is the smallest power of two with
    which the group's largest value fits FP8."""
    groups = x.view(x.shape[0], x.shape[1] // 128, 128).float()  # -1 would fail with 0 tokens
    amax = groups.abs().amax(dim=2, keepdim=True).clamp(min=1e-4)
    scales = torch.exp2(torch.ceil(torch.log2(amax / 448.0)))
    return (groups / scales).to(torch.float8_e4m3fn).view(x.shape), scales.squeeze(2).contiguous()


def ue8m0(scales):
    """Converts scales, float32 [experts, groups, rows], to exponents, int32 [experts, rows, groups/4]."""
    exponents = (scales.view(torch.int32) >> 23) & 0xFF
    e, groups, rows = exponents.shape
    four = exponents.view(e, groups // 4, 4, rows)
    packed = four[:, :, 0] | four[:, :, 1] << 8 | four[:, :, 2] << 16 | four[:, :, 3] << 24
    return packed.transpose(1, 2)


def refuse_dispatch(stats, use_nvfp4, x_global_scale):
    must_be_off("dispatch_wait_recv_cost_stats", stats is not None, "leave it out; epbench bench times a rank's waits")
    must_be_off("use_nvfp4", use_nvfp4, "rows are sent as float8_e4m3fn or bfloat16; leave it out")
    must_be_off("x_global_scale", x_global_scale is not None, "it belongs to use_nvfp4, which is not supported; leave it out")
    raise ValueError("use_ue8m0: only with round_scale; without it the scales are not powers of two")


def refuse_combine(use_logfmt, stats):
    must_be_off("use_logfmt", use_logfmt, "rows are sent back as bfloat16; leave it out")
    must_be_off("combine_wait_recv_cost_stats", stats is not None, "leave it out; epbench bench times a rank's waits")
    must_be_off("overlap", True, "combine cannot send rows while others are still computed; start the engine without its single-batch overlap")


def check(link, x, topk_idx, stats):
    must_be_on(link.device, x=x, topk_idx=topk_idx, cumulative_local_expert_recv_stats=stats)
    must_be("x", x, torch.bfloat16, None, link.hidden)
    must_be("topk_idx", topk_idx, torch.int32 if topk_idx.dtype is torch.int32 else torch.int64, x.shape[0], link.topk)
    if stats is not None:
        must_be("cumulative_local_expert_recv_stats", stats, torch.int32, link.local_experts)


def dispatch(link, key, x, topk_idx, use_fp8, round_scale, use_ue8m0, stats, later):
    """Returns (recv_x, recv_count, src_info, layout_range, sent, half). If `later` is true, the call only sends, and
    half.finish() receives. If `later` is false, `half` is None. The call adds each local expert's number of rows to
    stats."""
    rows = x if x.is_contiguous() else x.contiguous()
    ids = topk_idx if topk_idx.is_contiguous() else topk_idx.contiguous()
    scales = None
    if use_fp8 and round_scale:
        rows, scales = rounded_fp8(rows)
    try:
        stream = link.now()
        out, given, count, src_info, ranges = link.call(
            link.ops.ll_dispatch, stream, key, rows, scales, ids, use_fp8, later, None if later else stats)
    except Misread:
        check(link, x, topk_idx, stats)
        raise
    exponents = None
    if use_ue8m0:
        e, room, groups = given.shape
        exponents = torch.empty((e, groups // 4, room), dtype=torch.int32, device=given.device).transpose(1, 2)

    def received():
        if exponents is not None:
            exponents.copy_(ue8m0(given.transpose(1, 2)))

    half = None
    if later:
        half = Half(link, 0, stream, (rows, scales, ids, out, src_info, stats), stats, received if use_ue8m0 else None)
    else:
        received()
    sent = Sent(link, bool(use_fp8), x.shape[0])
    return (out, exponents if use_ue8m0 else given) if use_fp8 else out, count, src_info, ranges, sent, half


def combine(sent, src_info, key, x, topk_idx, topk_weights, out, later):
    """Returns (combined, half). `combined` is bfloat16 [tokens, hidden], the weighted sum of each token's rows. If
    `later` is true, the call only sends, and half.finish() receives. If `later` is false, `half` is None."""
    link = sent.link
    y = x if x.is_contiguous() else x.contiguous()
    ids = topk_idx if topk_idx.is_contiguous() else topk_idx.contiguous()
    weights = topk_weights if topk_weights.is_contiguous() else topk_weights.contiguous()
    try:
        stream = link.now()
        combined = link.call(link.ops.ll_combine, stream, key, sent.fp8, sent.tokens, later, y, ids, weights, src_info, out)
    except Misread:
        check_combine(sent, x, topk_idx, topk_weights, out)
        raise
    return out if out is not None else combined, Half(link, 1, stream, (y, ids, weights, src_info, combined)) if later else None


def check_combine(sent, x, topk_idx, topk_weights, out):
    must_be_on(sent.link.device, x=x, topk_idx=topk_idx, topk_weights=topk_weights, out=out)
    must_be("x", x, torch.bfloat16, *sent.link.rows_shape(sent.fp8))
    must_be("topk_idx", topk_idx, torch.int32 if topk_idx.dtype is torch.int32 else torch.int64, sent.tokens, sent.link.topk)
    must_be("topk_weights", topk_weights, torch.float32, sent.tokens, sent.link.topk)
    if out is not None:
        must_be("out", out, torch.bfloat16, sent.tokens, sent.link.hidden)
        if not out.is_contiguous():
            raise ValueError(f"out: strides {out.stride()}; give a contiguous tensor")
