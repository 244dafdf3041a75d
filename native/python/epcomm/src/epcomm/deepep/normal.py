"""Checks the tensors of DeepEP's normal calls, and counts tokens for get_dispatch_layout. buffer.py makes the calls
with kernels of layout rank:packed. In this layout a token has one row on each rank that has any of its experts, and
rows have no gaps."""

import typing

import torch

from .config import NotServed, must_be, must_be_on


class Sent(typing.NamedTuple):
    link: object
    fp8: bool
    index: torch.Tensor  # row offsets, sources and ids; struct Index in normal.cpp
    tokens: int
    received: int        # rows of the outputs
    fullest: int         # tokens of the fullest rank, 0 if unknown


def unpacked(x):
    if isinstance(x, tuple):
        x, scales = x
        if x.dtype is not torch.float8_e4m3fn or scales.dtype is not torch.float32 or scales.shape != (x.shape[0], x.shape[1] // 128):
            raise NotServed(f"{x.dtype} with {scales.dtype} scales {tuple(scales.shape)}",
                            "give float8_e4m3fn and float32 [tokens, hidden/128], or bfloat16")
        return x, scales
    if x.dtype is not torch.bfloat16:
        raise NotServed(f"tokens of {x.dtype}", "give bfloat16, or float8_e4m3fn with scales")
    return x, None


def in_rows(*tensors):
    """Returns contiguous tensors. Call it on the call's stream after the wait for previous_event, because it may
    copy."""
    return [t if t is None or t.is_contiguous() else t.contiguous() for t in tensors]


def check(link, x, per_rank, per_expert, is_token_in_rank, topk_idx, topk_weights):
    must_be_on(link.device, x=x, num_tokens_per_rank=per_rank, num_tokens_per_expert=per_expert, is_token_in_rank=is_token_in_rank,
               topk_idx=topk_idx, topk_weights=topk_weights)
    tokens = x.shape[0]
    must_be("x", x, x.dtype, None, link.hidden)
    must_be("num_tokens_per_rank", per_rank, torch.int32, link.ranks)
    must_be("num_tokens_per_expert", per_expert, torch.int32, link.ranks * link.local_experts)
    must_be("is_token_in_rank", is_token_in_rank, torch.bool, tokens, link.ranks)
    if topk_idx is not None:
        must_be("topk_idx", topk_idx, torch.int32 if topk_idx.dtype is torch.int32 else torch.int64, tokens, None)
    if topk_weights is not None:
        must_be("topk_weights", topk_weights, torch.float32, *(topk_idx.shape if topk_idx is not None else (tokens, None)))


def check_combine(sent, x, topk_weights):
    must_be_on(sent.link.device, x=x, topk_weights=topk_weights)
    must_be("x", x, torch.bfloat16, sent.received, sent.link.hidden)
    if topk_weights is not None:
        must_be("topk_weights", topk_weights, torch.float32, sent.received, None)


def layout(topk_idx, num_experts, ranks):
    """Returns num_tokens_per_rank int32 [ranks], num_tokens_per_expert int32 [experts] and is_token_in_rank bool
    [tokens, ranks]."""
    known = (topk_idx >= 0) & (topk_idx < num_experts)
    safe = torch.where(known, topk_idx, 0).to(torch.int64)
    per_expert = torch.zeros(num_experts, dtype=torch.int32, device=topk_idx.device)
    per_expert.scatter_add_(0, safe.flatten(), known.flatten().to(torch.int32))
    hits = torch.zeros((topk_idx.shape[0], ranks), dtype=torch.int32, device=topk_idx.device)
    hits.scatter_add_(1, safe // (num_experts // ranks), known.to(torch.int32))
    is_token_in_rank = hits > 0
    return is_token_in_rank.sum(dim=0, dtype=torch.int32), per_expert, is_token_in_rank
