"""DeepEP's normal calls over layout rank:packed: one row a (token, rank), in the order
of source ranks and tokens."""

import typing

import torch

from .config import NotServed, must_be
from .link import BF16, FP8, Rows


class Sent(typing.NamedTuple):
    """What combine and a cached dispatch need of a dispatch, beside DeepEP's handle."""

    link: object
    dtype: int
    ids: torch.Tensor   # int32 [tokens, link.topk]
    rows: Rows
    bases: torch.Tensor  # int32 [ranks + 1, ranks]: first row of each source on each rank
    received: int       # rows of the output tensors


# DeepEP's handle here: rank_prefix_matrix, channel_prefix_matrix, recv_channel_prefix_matrix,
# recv_src_idx, is_token_in_rank, send_head. The matrices of channels are empty: there are none.


def layout(topk_idx, num_experts, ranks):
    """num_tokens_per_rank [ranks] and num_tokens_per_expert [experts] int32, and
    is_token_in_rank [tokens, ranks] bool."""
    chosen = topk_idx >= 0
    safe = topk_idx.clamp(min=0)
    per_expert = torch.zeros(num_experts, dtype=torch.int32, device=topk_idx.device)
    per_expert.scatter_add_(0, safe.flatten(), chosen.flatten().to(torch.int32))
    hits = torch.zeros((topk_idx.shape[0], ranks), dtype=torch.int32, device=topk_idx.device)
    hits.scatter_add_(1, safe // (num_experts // ranks), chosen.to(torch.int32))
    is_token_in_rank = hits > 0
    return is_token_in_rank.sum(dim=0, dtype=torch.int32), per_expert, is_token_in_rank


def ids_of(link, topk_idx, is_token_in_rank):
    """Global expert ids, int32 [tokens, link.topk], -1 where there are none. Without top-k,
    the first expert of each rank that a token goes to."""
    if topk_idx is None:
        first = torch.arange(link.ranks, dtype=torch.int32, device=link.device) * link.local_experts
        topk_idx = torch.where(is_token_in_rank, first, -1)
    ids = topk_idx.to(torch.int32)
    missing = link.topk - ids.shape[1]
    return torch.nn.functional.pad(ids, (0, missing), value=-1).contiguous() if missing else ids.contiguous()


def weights_of(link, topk_weights, ids):
    """float32 [tokens, link.topk]. Without any, the bits of the ids: nobody is told what
    arrives of them, and no kernel has to run for it."""
    if topk_weights is None:
        return ids.view(torch.float32)
    missing = link.topk - topk_weights.shape[1]
    return torch.nn.functional.pad(topk_weights, (0, missing)).contiguous() if missing else topk_weights.contiguous()


def unpacked(x):
    """(x, scales, dtype) of what a caller dispatches."""
    if isinstance(x, tuple):
        x, scales = x
        if x.dtype is not torch.float8_e4m3fn or scales.dtype is not torch.float32 or scales.shape != (x.shape[0], x.shape[1] // 128):
            raise NotServed(f"{x.dtype} with {scales.dtype} scales {tuple(scales.shape)}",
                            "give float8_e4m3fn and float32 [tokens, hidden/128], or bfloat16")
        return x, scales, FP8
    if x.dtype is not torch.bfloat16:
        raise NotServed(f"tokens of {x.dtype}", "give bfloat16, or float8_e4m3fn with scales")
    return x, None, BF16


def in_rows(x, scales):
    """Both row by row, as kernels read them. A copy for that runs on the call's stream:
    before the call, it would be behind what previous_event marks."""
    return x.contiguous(), scales.contiguous() if scales is not None else None


def check(link, x, is_token_in_rank, topk_idx, topk_weights):
    """Refuses inputs of a new dispatch whose sizes or dtypes do not fit each other."""
    tokens = x.shape[0]
    must_be("is_token_in_rank", is_token_in_rank, torch.bool, tokens, link.ranks)
    if topk_idx is not None:
        must_be("topk_idx", topk_idx, topk_idx.dtype, tokens, None)
    if topk_weights is not None:
        must_be("topk_weights", topk_weights, torch.float32, *(topk_idx.shape if topk_idx is not None else (tokens, None)))


def new_rows(link, dtype, received, index=None, worst=False):
    """Outputs for that many rows; index: row_offsets and src_info of an earlier dispatch of
    the same tokens."""
    o = link.sizes(dtype)
    elements = torch.bfloat16 if dtype == BF16 else torch.float8_e4m3fn
    offsets, src_info = index or link.index(dtype)
    ids = torch.empty((received, link.topk), dtype=torch.int32, device=link.device)
    if worst:
        ids.fill_(-1)
    scales = torch.empty((received, o.scales), dtype=torch.float32, device=link.device)
    out = link.bytes(received * o.row_bytes).view(elements).view(received, link.hidden)
    return Rows(out, scales, offsets, ids, src_info, torch.empty((received, link.topk), dtype=torch.float32, device=link.device))


def not_empty(rows):
    """The library wants an address even where no row comes."""
    some = lambda t: t if t.numel() else torch.empty(64, dtype=t.dtype, device=t.device)
    return Rows(*(some(t) for t in rows))


def combine_weights(sent, topk_weights, is_token_in_rank, group_gather):
    """Each token's weights, summed over the ranks that have it, [tokens, topk] float32.
    They travel by the process group: a few bytes a row, and in float32."""
    link, k = sent.link, topk_weights.shape[1]
    room = link.max_tokens * link.ranks
    mine = torch.zeros((room, k), dtype=torch.float32, device=link.device)
    mine[:topk_weights.shape[0]] = topk_weights
    everyone = torch.stack(group_gather(mine))  # [ranks, room, k]
    place = is_token_in_rank.to(torch.int64).cumsum(dim=0) - 1 + sent.bases[link.rank].to(torch.int64)
    ranks = torch.arange(link.ranks, device=link.device)
    there = everyone[ranks, place.clamp(min=0)]  # [tokens, ranks, k]
    return (there * is_token_in_rank.unsqueeze(-1)).sum(dim=1)
