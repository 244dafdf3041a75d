"""Defines the kernels that run between the communication and the experts' matrix products. They sort rows by expert,
move rows back, and compute SwiGLU. All communication libraries are measured with the same kernels.

On a GPU they are Triton kernels; without a GPU, PyTorch computes the same. Only the device knows the number of rows,
so tensors have room for the largest possible number of rows.
"""

import torch

from .tensors import quantized

try:
    import triton
    import triton.language as tl
except ImportError:  # PyTorch for the CPU comes without Triton
    triton = None

BLOCK = 1024
PROGRAMS = 8  # Triton programs for each SM

if triton is not None:
    @triton.jit
    def _count(ids, counts, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        e = tl.load(ids + at, at < n, -1).to(tl.int32)
        tl.atomic_add(counts + e, 1, e >= 0)

    @triton.jit
    def _place(counts, cursor, ends, experts, alignment, block: tl.constexpr):
        at = tl.arange(0, block)
        n = tl.load(counts + at, at < experts, 0)
        room = (n + alignment - 1) // alignment * alignment
        start = tl.cumsum(room, 0) - room
        tl.store(cursor + at, start, at < experts)
        tl.store(ends + at, start + n, at < experts)

    @triton.jit
    def _number(ids, cursor, slots, owners, n, owned: tl.constexpr, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        e = tl.load(ids + at, at < n, -1).to(tl.int32)
        slot = tl.atomic_add(cursor + e, 1, e >= 0)
        tl.store(slots + at, tl.where(e >= 0, slot, -1), at < n)
        if owned:
            tl.store(owners + slot, e, e >= 0)

    @triton.jit
    def _used(slots, row, k: tl.constexpr, lanes: tl.constexpr):
        j = tl.arange(0, lanes)
        return tl.max(tl.load(slots + row * k + j, j < k, -1), 0) >= 0

    @triton.jit
    def _spread(rows, slots, out, k: tl.constexpr, lanes: tl.constexpr, hidden, block: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * block + tl.arange(0, block)
        if _used(slots, row, k, lanes):
            x = tl.load(rows + row * hidden + at, at < hidden)
            for j in range(k):
                slot = tl.load(slots + row * k + j).to(tl.int64)
                if slot >= 0:
                    tl.store(out + slot * hidden + at, x, at < hidden)

    @triton.jit
    def _gather(y, slots, weights, out, k: tl.constexpr, lanes: tl.constexpr, hidden, block: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * block + tl.arange(0, block)
        if _used(slots, row, k, lanes):
            total = tl.zeros([block], tl.float32)
            for j in range(k):
                slot = tl.load(slots + row * k + j).to(tl.int64)
                if slot >= 0:
                    w = tl.load(weights + row * k + j)
                    total += w * tl.load(y + slot * hidden + at, at < hidden, 0).to(tl.float32)
            tl.store(out + row * hidden + at, total.to(tl.bfloat16), at < hidden)

    @triton.jit
    def _swiglu(x, out, ends, last, counts, room, weights, width, masked: tl.constexpr, weighted: tl.constexpr, block: tl.constexpr):
        parts = tl.cdiv(width, block)
        n = tl.load(ends + last) if not masked else last * room
        for i in range(tl.program_id(0), n * parts, tl.num_programs(0)):
            row, at = (i // parts).to(tl.int64), i % parts * block + tl.arange(0, block)
            here = True
            if masked:
                here = row % room < tl.load(counts + row // room)
            if here:
                gate = tl.load(x + row * 2 * width + at, at < width, 0).to(tl.float32)
                up = tl.load(x + row * 2 * width + width + at, at < width, 0).to(tl.float32)
                h = gate / (1 + tl.exp(-gate)) * up
                if weighted:
                    h *= tl.load(weights + row)
                tl.store(out + row * width + at, h.to(tl.bfloat16), at < width)

    @triton.jit
    def _swiglu_fp8(x, out, scales, ends, last, counts, room, width, masked: tl.constexpr, group: tl.constexpr):
        parts = width // group
        n = tl.load(ends + last) if not masked else last * room
        for i in range(tl.program_id(0), n * parts, tl.num_programs(0)):
            row, part = (i // parts).to(tl.int64), i % parts
            here = True
            if masked:
                here = row % room < tl.load(counts + row // room)
            if here:
                at = part * group + tl.arange(0, group)
                gate = tl.load(x + row * 2 * width + at).to(tl.float32)
                up = tl.load(x + row * 2 * width + width + at).to(tl.float32)
                h = gate / (1 + tl.exp(-gate)) * up
                scale = tl.maximum(tl.max(tl.abs(h), 0), 1e-4) / 448
                tl.store(out + row * width + at, (h / scale).to(tl.float8e4nv))
                tl.store(scales + row * parts + part, scale)

    @triton.jit
    def _pack(masked, packed, counts, ends, experts, room, hidden, back: tl.constexpr, block: tl.constexpr):
        parts = tl.cdiv(hidden, block)
        for i in range(tl.program_id(0), experts * room * parts, tl.num_programs(0)):
            row, at = (i // parts).to(tl.int64), i % parts * block + tl.arange(0, block)
            e, n = row // room, row % room
            count = tl.load(counts + e)
            if n < count:
                to = (tl.load(ends + e) - count + n).to(tl.int64)
                if back:
                    tl.store(masked + row * hidden + at, tl.load(packed + to * hidden + at, at < hidden), at < hidden)
                else:
                    tl.store(packed + to * hidden + at, tl.load(masked + row * hidden + at, at < hidden), at < hidden)


def on_host(t):
    return t.device.type == "cpu"


def blocks(n):
    return -(-n // BLOCK)


def programs(device):
    return torch.cuda.get_device_properties(device).multi_processor_count * PROGRAMS


class Order:
    """Where rows lie when they are sorted by expert. slots[i, k] is the place of row i for its selection k, or -1 for
    an expert of another rank. ends[e] is the place after the last row of expert e. Each expert's rows begin at a
    multiple of `alignment`. If `owned` is true, owners[p] is the expert of place p, or -1 for an unused place."""

    def __init__(self, shape, local, capacity, device, alignment=1, owned=False):
        numbers = lambda *size: torch.zeros(*size, dtype=torch.int32, device=device)
        self.slots, self.counts, self.cursor, self.ends = numbers(*shape), numbers(local), numbers(local), numbers(local)
        self.owners, self.alignment, self.capacity = numbers(capacity) if owned else None, alignment, capacity

    def place(self, ids):
        """Computes the places. `ids` is [n, k]: local experts, or -1 for an expert of another rank."""
        local, n = len(self.counts), ids.numel()
        if on_host(ids):
            return self._place_on_host(ids)
        self.counts.zero_()
        if self.owners is not None:
            self.owners.fill_(-1)
        _count[(blocks(n),)](ids, self.counts, n, BLOCK)
        _place[(1,)](self.counts, self.cursor, self.ends, local, self.alignment, triton.next_power_of_2(local))
        _number[(blocks(n),)](ids, self.cursor, self.slots, self.owners, n, self.owners is not None, BLOCK)

    def _place_on_host(self, ids):
        start = 0
        self.slots.fill_(-1)
        if self.owners is not None:
            self.owners.fill_(-1)
        for e in range(len(self.counts)):
            hit = ids == e
            n = int(hit.sum())
            self.slots[hit] = torch.arange(start, start + n, dtype=torch.int32)
            self.counts[e], self.ends[e] = n, start + n
            if self.owners is not None:
                self.owners[start:start + n] = e
            start += -(-n // self.alignment) * self.alignment

    def spread(self, rows, out):
        if on_host(rows):
            row, _ = torch.nonzero(self.slots >= 0, as_tuple=True)
            out[self.slots[self.slots >= 0].long()] = rows[row]
            return
        (n, k), hidden = self.slots.shape, rows.shape[1]
        _spread[(n, blocks(hidden))](rows, self.slots, out, k, triton.next_power_of_2(k), hidden, BLOCK)

    def gather(self, y, weights, out):
        """Writes each row's weighted sum to out. It adds in the order of selections. It writes nothing for a row
        without experts."""
        if on_host(y):
            total = torch.zeros(out.shape)
            for k in range(self.slots.shape[1]):
                here = self.slots[:, k] >= 0
                total[here] += weights[here, k, None] * y[self.slots[here, k].long()].float()
            some = (self.slots >= 0).any(1)
            out[some] = total[some].to(torch.bfloat16)
            return
        (n, k), hidden = self.slots.shape, y.shape[1]
        _gather[(n, blocks(hidden))](y, self.slots, weights, out, k, triton.next_power_of_2(k), hidden, BLOCK)


def swiglu(x, out, ends, weights=None):
    """Computes silu(gate) * up for each row of x [rows, 2 * width] below row ends[-1]. If `weights` is given, it
    multiplies each row by its weight. If `out` is a pair of tensors, the result is FP8 and `weights` is ignored."""
    if isinstance(out, tuple):
        return swiglu_fp8(x, out, len(ends) - 1, ends, 1, False)
    if on_host(x):
        n = int(ends[-1])
        out[:n] = activated(x[:n], 1 if weights is None else weights[:n, None])
        return
    _swiglu[(programs(x.device),)](x, out, ends, len(ends) - 1, ends, 1, weights, out.shape[-1], False, weights is not None, BLOCK)


def swiglu_masked(x, out, counts):
    """Computes silu(gate) * up for the first counts[e] rows of x [experts, room, 2 * width]. If `out` is a pair of
    tensors, the result is FP8."""
    if isinstance(out, tuple):
        return swiglu_fp8(x, out, len(counts), counts, x.shape[1], True)
    if on_host(x):
        for e, n in enumerate(counts.tolist()):
            out[e, :n] = activated(x[e, :n])
        return
    _swiglu[(programs(x.device),)](x, out, counts, len(counts), counts, x.shape[1], None, out.shape[-1], True, False, BLOCK)


def swiglu_fp8(x, out, last, ends, room, masked):
    """Computes swiglu or swiglu_masked in FP8. `out` is a pair: E4M3 numbers [..., width] and scales [..., width /
    128]."""
    rows, scales = out
    if on_host(x):
        q, s = quantized(activated_exactly(x.reshape(-1, x.shape[-1])))
        rows.copy_(q.view(rows.shape))
        scales.copy_(s.view(scales.shape))
        return
    _swiglu_fp8[(programs(x.device),)](x, rows, scales, ends, last, ends, room, rows.shape[-1], masked, 128)


def activated_exactly(x):
    gate, up = x.float().chunk(2, -1)
    return gate / (1 + torch.exp(-gate)) * up


def activated(x, weights=1):
    return (activated_exactly(x) * weights).to(torch.bfloat16)


def pack(masked, packed, counts, ends, back=False):
    """Copies the first counts[e] rows of each expert e from `masked` [experts, room, hidden] to `packed` [rows,
    hidden]. In `packed` the expert's rows end before row ends[e]. With `back` it copies from `packed` to `masked`."""
    if on_host(masked):
        for e, (n, end) in enumerate(zip(counts.tolist(), ends.tolist())):
            to, rows = packed[end - n:end], masked[e, :n]
            (rows if back else to).copy_(to if back else rows)
        return
    experts, room, hidden = masked.shape
    _pack[(programs(masked.device),)](masked, packed, counts, ends, experts, room, hidden, back, BLOCK)
