"""Expanded rows of ElasticBuffer: one row for each (token, local expert), sorted by expert.

The kernels of normal calls move one row for each (token, rank). These functions copy received rows to
their experts, and add the experts' rows up again, with PyTorch.
"""

import typing

import torch


class Places(typing.NamedTuple):
    """The places of received rows in the expanded output."""

    slots: torch.Tensor    # int64 [rows, top-k]: the expanded row of a selection, -1 if its expert is on another rank
    choices: torch.Tensor  # int64 [expanded rows]: received row * top-k + k, for the selection k of that row; -1 in padding


def aligned(n, to):
    return (n + to - 1) // to * to


def counts_of(ids, experts):
    """Returns the number of rows of each expert, int32 [experts]. ids: int64 [rows, top-k], -1 for none."""
    flat = ids.flatten()
    counts = torch.zeros(experts, dtype=torch.int32, device=ids.device)
    return counts.scatter_add_(0, flat.clamp(min=0), (flat >= 0).to(torch.int32))


def places_of(ids, counts, alignment, rows):
    """Returns the Places of received rows. ids: their local experts, int64 [rows, top-k]. The rows of each expert begin at a
    multiple of alignment and keep their order. counts: rows of each expert; rows: number of expanded rows."""
    flat, (n, topk) = ids.flatten(), ids.shape
    own, span = counts.to(torch.int64), aligned(counts.to(torch.int64), alignment)
    shift = (span.cumsum(0) - span) - (own.cumsum(0) - own)  # number of padding rows before each expert's rows
    key = torch.where(flat >= 0, flat, len(counts))
    order = key.argsort(stable=True)
    at = torch.arange(n * topk, device=ids.device)
    sorted_key = key[order]
    place = torch.where(sorted_key < len(counts), at + torch.cat((shift, shift.new_zeros(1)))[sorted_key], -1)
    slots = torch.empty_like(flat).scatter_(0, order, place)
    choices = torch.full((rows + 1,), -1, dtype=torch.int64, device=ids.device)  # the last one takes the selections of other ranks
    choices.scatter_(0, torch.where(slots >= 0, slots, rows), at)
    return Places(slots.view(n, topk), choices[:rows])


def spread(rows, places, zeros):
    """Returns the expanded rows. Rows without a token are 0 if `zeros`; otherwise their values are undefined."""
    if isinstance(rows, tuple):
        return tuple(spread(part, places, zeros) for part in rows)
    if not len(rows):
        return rows.new_zeros(len(places.choices), rows.shape[1])
    at = places.choices.clamp(min=0) // places.slots.shape[1]
    raw = rows.view(torch.uint8) if rows.element_size() == 1 else rows  # PyTorch cannot index float8 on a CPU
    out = raw.index_select(0, at)
    if zeros:
        out.masked_fill_((places.choices < 0)[:, None], 0)
    return out.view(rows.dtype)


def spread_weights(weights, places):
    """Returns the weights of expanded rows, float32 [expanded rows]; 0 in rows without a token. weights: [rows, top-k]"""
    if not weights.numel():
        return weights.new_zeros(len(places.choices))
    return torch.where(places.choices >= 0, weights.flatten()[places.choices.clamp(min=0)], 0)


def by_columns(scales):
    """Returns a copy of scales in which each column is contiguous and begins at a multiple of 16 bytes, as TMA requires."""
    rows, groups = scales.shape
    out = torch.empty_strided((rows, groups), (1, aligned(rows, 16 // scales.element_size())), dtype=scales.dtype, device=scales.device)
    return out.copy_(scales)


def fold(x, places):
    """Adds the expanded rows of each received row, in float32 and in the order of top-k. Returns bfloat16 [rows, hidden]."""
    n, topk = places.slots.shape
    total = torch.zeros((n, x.shape[1]), dtype=torch.float32, device=x.device)
    for k in range(topk if len(x) else 0):
        slots = places.slots[:, k]
        total += torch.where((slots >= 0)[:, None], x.index_select(0, slots.clamp(min=0)), 0)
    return total.to(torch.bfloat16)


def fold_weights(weights, places):
    """Returns the weights of expanded rows in the order of received rows, float32 [rows, top-k]; 0 for other ranks' experts."""
    if not weights.numel():
        return weights.new_zeros(places.slots.shape)
    return torch.where(places.slots >= 0, weights[places.slots.clamp(min=0)], 0)


def order_of_ranks(topk_idx, local, ranks):
    """Returns the ranks in the order in which DeepEP V2 adds a token's rows, int64 [tokens, ranks]: by the last selection of
    each rank."""
    owner = torch.where(topk_idx >= 0, topk_idx // local, -1)
    position = torch.arange(topk_idx.shape[1], device=topk_idx.device)
    last = [torch.where(owner == rank, position, -1).amax(1) for rank in range(ranks)]
    return torch.stack(last, 1).argsort(dim=1, stable=True)
