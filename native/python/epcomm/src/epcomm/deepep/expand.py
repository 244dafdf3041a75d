"""Makes ElasticBuffer's expanded rows and adds them up. A received token has one expanded row for each of its experts
on this rank. Expanded rows are sorted by expert."""

import typing

import torch

from .. import library
from ..comm import lib
from .config import must_be
from .normal import in_rows


class Places(typing.NamedTuple):
    slots: torch.Tensor    # int32 [rows, top-k]: expanded row, -1 for an expert of another rank
    choices: torch.Tensor  # int32 [expanded rows]: index in slots.flatten(), -1 for padding
    counts: torch.Tensor   # int32 [local experts]: rows of each expert, without padding


def aligned(n, to):
    return (n + to - 1) // to * to


def counts_of(ids, experts):
    """Returns the number of rows of each expert, int32 [experts]. `ids` holds experts, int64 [rows, top-k]. -1 stands
    for no expert."""
    flat = ids.flatten()
    counts = torch.zeros(experts, dtype=torch.int32, device=ids.device)
    return counts.scatter_add_(0, flat.clamp(min=0), (flat >= 0).to(torch.int32))


def _empty_like(tensor, *shape):
    return torch.empty(shape, dtype=tensor.dtype, device=tensor.device)


def _received(sent):
    return sent.index.data_ptr() + 4 * sent.link.ranks


def places_of(sent, ids, alignment, rows):
    """Finds the expanded rows of the rows that a dispatch received. `ids` holds local experts, int64 [rows, top-k].
    The argument `rows` is the number of expanded rows. Each expert's expanded rows begin at a multiple of
    `alignment`."""
    (n, topk), link = ids.shape, sent.link
    make = lambda *shape: torch.empty(shape, dtype=torch.int32, device=ids.device)
    places = Places(make(n, topk), make(rows), make(link.local_experts))
    slots, choices, counts = (t.data_ptr() for t in places)
    link.launch(lib().epcomm_places, library.Places(
        ids=ids.data_ptr(), received=_received(sent), slots=slots, choices=choices, counts=counts, rows=n, topk=topk,
        experts=link.local_experts, align=alignment, expanded=rows))
    return places


def spread(sent, rows, weights, places, zeros, columns):
    """Returns the expanded rows and their weights. `rows` is a tensor, or a pair of a tensor and scales. `weights` is
    float32 [rows, top-k], or None. An expanded row without a token has weight 0. Its elements are 0 only if `zeros`
    is true. With `columns` the columns of the scales are contiguous."""
    x, scales = rows if isinstance(rows, tuple) else (rows, None)
    expanded, (n, topk) = len(places.choices), places.slots.shape
    out, call = _empty_like(x, expanded, x.shape[1]), library.Expand(
        x=x.data_ptr(), slots=places.slots.data_ptr(), choices=places.choices.data_ptr(), received=_received(sent), rows=n, topk=topk,
        expanded=expanded, row_bytes=x.shape[1] * x.element_size(), zeros=zeros)
    call.out = out.data_ptr()
    out_scales = out_weights = None
    if scales is not None:
        groups = scales.shape[1]
        out_scales = _columns(expanded, scales) if columns else _empty_like(scales, expanded, groups)
        call.scales, call.out_scales, call.groups = scales.data_ptr(), out_scales.data_ptr(), groups
        call.scale_row, call.scale_group = out_scales.stride()
    if weights is not None:
        out_weights = _empty_like(weights, expanded)
        call.weights, call.out_weights = weights.data_ptr(), out_weights.data_ptr()
    sent.link.launch(lib().epcomm_expand, call)
    return out if scales is None else (out, out_scales), out_weights


def _columns(rows, scales):
    """Returns an empty tensor [rows, groups] that TMA can load: its columns are contiguous, and each begins at a
    multiple of 16 bytes."""
    return torch.empty_strided((rows, scales.shape[1]), (1, aligned(rows, 16 // scales.element_size())), dtype=scales.dtype, device=scales.device)


def by_columns(scales):
    """Returns a copy of scales whose columns are contiguous, as _columns makes them."""
    return _columns(len(scales), scales).copy_(scales)


def fold(sent, x, weights, places):
    """Adds the expanded rows of each received row, in float32, in the order of top-k positions. Returns the sums,
    bfloat16 [rows, hidden], and the weights, float32 [rows, top-k] or None."""
    n, topk = places.slots.shape
    must_be("x", x, torch.bfloat16, len(places.choices), sent.link.hidden)
    if weights is not None:
        must_be("topk_weights", weights, torch.float32, len(places.choices))
    x, weights = in_rows(x, weights)
    out, out_weights = _empty_like(x, n, x.shape[1]), None if weights is None else _empty_like(weights, n, topk)
    sent.link.launch(lib().epcomm_fold, library.Fold(
        x=x.data_ptr(), weights=None if weights is None else weights.data_ptr(), slots=places.slots.data_ptr(), received=_received(sent),
        out=out.data_ptr(), out_weights=None if weights is None else out_weights.data_ptr(), rows=n, topk=topk, hidden=x.shape[1]))
    return out, out_weights


def order_of_ranks(topk_idx, local, ranks):
    """Returns the order in which DeepEP V2 adds a token's rows: int64 [tokens, ranks], the first rank in column 0."""
    owner = torch.where(topk_idx >= 0, topk_idx // local, -1)
    position = torch.arange(topk_idx.shape[1], device=topk_idx.device)
    last = [torch.where(owner == rank, position, -1).amax(1) for rank in range(ranks)]
    return torch.stack(last, 1).argsort(dim=1, stable=True)
