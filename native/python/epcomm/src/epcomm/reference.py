"""Computes dispatch and combine in plain torch, and compares results."""

import torch

FP8 = 2


class Inputs:

    def __init__(self, ep, n, rank, tokens):
        g = torch.Generator(device=ep.device).manual_seed(n * 64 + rank)
        self.x = torch.randn((tokens, ep.hidden), generator=g, device=ep.device).to(torch.bfloat16)
        scores = torch.rand((tokens, ep.experts), generator=g, device=ep.device)
        self.ids = scores.topk(ep.topk, dim=1).indices.to(torch.int32)
        self.ids[torch.rand(self.ids.shape, generator=g, device=ep.device) < 1 / 16] = -1
        self.weights = torch.rand(self.ids.shape, generator=g, device=ep.device) + 0.01


def quantize_fp8(x):
    groups = x.float().view(x.shape[0], x.shape[1] // 128, 128)
    most = groups.abs().amax(-1).clamp_min(1e-4)
    # The divisor is a tensor. If the divisor were the number 448, torch on a GPU would multiply by 1/448, which rounds
    # differently.
    scales = most / torch.full_like(most, 448.0)
    return (groups / scales[..., None]).to(torch.float8_e4m3fn).view(x.shape), scales


def as_sent(x, dtype):
    if dtype != FP8:
        return x.float()
    q, scales = quantize_fp8(x)
    return (q.float().view(x.shape[0], x.shape[1] // 128, 128) * scales[..., None]).view(x.shape)


def gain(experts):
    return 0.5 + (experts % 64).float() / 64


def expert_of_rows(ep, view, rows):
    """Returns two tensors with an element for each of the first `rows` rows: the local expert, and true if the row
    holds data."""
    at = torch.arange(rows, device=ep.device, dtype=torch.int32)
    group = torch.searchsorted(view.row_offsets[1:].contiguous(), at, right=True).clamp_max(ep.groups - 1)
    return group, at < view.row_offsets[-1]


def apply_experts(ep, view, dtype, rows, y):
    if rows == 0:
        return
    group, _ = expert_of_rows(ep, view, rows)
    x = view.out[:rows].float()
    if dtype == FP8:
        x = (x.view(rows, -1, 128) * view.scales[:, :rows].t().contiguous()[..., None]).view(rows, -1)
    y[:rows] = (x * gain(ep.rank * ep.local_experts + group)[:, None]).to(torch.bfloat16)


def check_dispatch(ep, view, dtype, everyone):
    """Returns the first error in dispatch's outputs, or ''."""
    offsets = view.row_offsets.long()
    first = ep.rank * ep.local_experts
    mine = torch.arange(first, first + ep.local_experts, device=ep.device)
    counts = torch.stack([(e.ids.view(-1, 1) == mine).sum(0) for e in everyone], 1)
    pad = 4 if dtype == FP8 else 1
    want = torch.cat([offsets.new_zeros(1), ((counts.sum(1) + pad - 1) // pad * pad).cumsum(0)])
    if not torch.equal(offsets, want):
        return f"row_offsets {offsets.tolist()[:8]}, want {want.tolist()[:8]}"
    starts = want[:-1, None] + counts.cumsum(1) - counts
    sizes = counts.flatten()
    segment = torch.repeat_interleave(torch.arange(sizes.numel(), device=ep.device), sizes)
    inside = torch.arange(segment.numel(), device=ep.device) - (sizes.cumsum(0) - sizes)[segment]
    rows = starts.flatten()[segment] + inside
    source, expert = segment % ep.ranks, first + segment // ep.ranks
    token, k = view.src_info[rows, 0].long(), view.src_info[rows, 1].long()
    most = max(max(e.ids.shape[0] for e in everyone), 1)
    sent = torch.cat([torch.cat([e.ids, e.ids.new_full((most - e.ids.shape[0], ep.topk), -1)])[None] for e in everyone])
    if rows.numel() and (token.min() < 0 or token.max() >= most or k.min() < 0 or k.max() >= ep.topk):
        return "src_info names tokens that nobody sent"
    if not torch.equal(sent[source, token, k].long(), expert):
        return "a row is among the rows of an expert that its token did not select"
    code = (source * most + token) * ep.topk + k
    if code.unique().numel() != rows.numel():
        return "a row is there twice and another is missing"
    tokens = torch.cat([torch.cat([e.x, e.x.new_zeros((most - e.x.shape[0], ep.hidden))])[None] for e in everyone])
    for part in torch.arange(rows.numel(), device=ep.device).split(8192):
        x = tokens[source[part], token[part]]
        if dtype == FP8:
            x, scales = quantize_fp8(x)
            if not torch.equal(view.scales[:, rows[part]].t(), scales):
                return "scales differ from the reference"
        if not torch.equal(view.out.view(torch.uint8)[rows[part]], x.view(torch.uint8)):
            return "elements differ from the reference"
    return ""


def check_combine(ep, combined, dtype, mine, reduced):
    """Compares combine's output with a float64 sum. Rounding explains a difference up to a bound. If a value differs
    by more, the function returns a text about the worst such value; otherwise it returns ''."""
    x = as_sent(mine.x, dtype)
    want = torch.zeros((x.shape[0], ep.hidden), dtype=torch.float64, device=ep.device)
    size = torch.zeros_like(want)
    for k in range(ep.topk):
        e = mine.ids[:, k].long()
        y = (x * gain(e.clamp_min(0))[:, None]).to(torch.bfloat16).double()
        term = torch.where((e >= 0)[:, None], mine.weights[:, k, None].double() * y, 0.0)
        want += term
        size += term.abs()
    bound = want.abs() / 256 + size * ((ep.topk + 1) / 2**24 + (1 / 256 if reduced else 0)) + 1e-30
    off = (combined.double() - want).abs() - bound
    if combined.numel() == 0 or bool((off <= 0).all()):
        return ""
    t, c = divmod(int(torch.nan_to_num(off, nan=1e30).argmax()), ep.hidden)
    return f"token {t} column {c}: {combined[t, c].item()}, want {want[t, c].item()}"
