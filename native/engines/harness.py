"""Runs the same cases with each inference engine on two GPUs, and compares the results with PyTorch.

ENGINES_EMULATED=1 replaces the GPUs by the emulated driver. ENGINES_CONTROL=1 permits another deep_ep than epcomm's."""

import os
import sys
import time
import traceback
import typing

import torch
import torch.distributed as dist

RANKS = 2
EMULATED = os.environ.get("ENGINES_EMULATED") == "1"
CONTROL = os.environ.get("ENGINES_CONTROL") == "1"


class Shape(typing.NamedTuple):
    name: str
    hidden: int
    experts: int
    topk: int
    counts: tuple  # pairs: tokens of rank 0, tokens of rank 1
    captured: int  # tokens of a rank in a CUDA graph

    @property
    def local(self):
        return self.experts // RANKS


_COUNTS = ((1, 1), (17, 17), (128, 128), (1000, 1000), (0, 33), (128, 0), (1000, 5))
SHAPES = (Shape("dsv3", 7168, 256, 8, _COUNTS, 32), Shape("qwen3", 2048, 128, 8, _COUNTS, 32))
if EMULATED:
    SHAPES = (Shape("tiny", 512, 16, 8, ((1, 1), (7, 5), (0, 6)), 5),)


class Engine:
    """Has the methods and attributes that run() uses. `modes` maps a name to (token limit of a rank, call).
    call(x, ids, weights, experts) returns (combined tokens, number of rows of each local expert or None)."""

    modes: dict = {}
    captured = None
    duplicates = ()     # modes whose tokens may name an expert twice
    padding = True

    def in_flight(self, batches, experts):
        """Returns the combined outputs of two batches in flight, or None."""
        return None

    def extra(self, rank):
        return ()

    def close(self):
        pass


# ---- tokens, experts, and expected results ----

def draw(shape, tokens, seed, rank, twice=False):
    """Returns (x, ids int64, weights). If `twice`, a token may name an expert twice."""
    torch.manual_seed(seed * RANKS + rank)
    x = torch.randn((tokens, shape.hidden), device="cuda").to(torch.bfloat16)
    if twice:
        ids = torch.randint(shape.experts, (tokens, shape.topk), device="cuda")
    else:
        ids = torch.rand((tokens, shape.experts), device="cuda").argsort(dim=1)[:, :shape.topk].contiguous()
    weights = torch.rand((tokens, shape.topk), device="cuda") + 0.1
    return x, ids, weights / weights.sum(dim=1, keepdim=True)


def quantized(x):
    """Returns FP8 rows and a float32 scale, amax/448, for each 128 elements."""
    groups = x.float().unflatten(-1, (-1, 128))
    scales = groups.abs().amax(dim=-1).clamp(min=1e-4) / 448
    return (groups / scales.unsqueeze(-1)).flatten(-2).to(torch.float8_e4m3fn), scales


def widened(rows, scales):
    """Returns FP8 rows as BF16. An int32 scale holds four exponents."""
    if scales.dtype is torch.int32:
        exponents = torch.stack([scales >> 8 * i & 0xFF for i in range(4)], dim=-1).flatten(-2)
        scales = (exponents << 23).view(torch.float32)
    return (rows.float().unflatten(-1, (-1, 128)) * scales.float().unsqueeze(-1)).flatten(-2).to(torch.bfloat16)


class Experts:
    """Computes silu(x @ up) @ down for each expert. The matrices are the same on all ranks."""

    def __init__(self, shape, width=64):
        torch.manual_seed(4242)
        self.local = shape.local
        self.up = (torch.randn((shape.experts, shape.hidden, width), device="cuda") / shape.hidden ** 0.5).to(torch.bfloat16)
        self.down = (torch.randn((shape.experts, width, shape.hidden), device="cuda") / width ** 0.5).to(torch.bfloat16)

    def one(self, expert, rows):
        return torch.nn.functional.silu(rows @ self.up[expert]) @ self.down[expert]

    def blocks(self, rank, rows, counts):
        """Returns the outputs for rows [local experts, rows, hidden]. Expert e uses only its first counts[e] rows."""
        mine = slice(rank * self.local, (rank + 1) * self.local)
        there = torch.arange(rows.shape[1], device=rows.device) < counts.unsqueeze(1)
        rows = torch.where(there.unsqueeze(2), rows, 0)
        return torch.bmm(torch.nn.functional.silu(torch.bmm(rows, self.up[mine])), self.down[mine])

    def by_row(self, rank, rows, ids, weights):
        """Returns (weighted sums [rows, hidden], number of rows of each local expert). `ids` [rows, top-k] names local
        experts, or has -1."""
        out, counts = torch.zeros(rows.shape, device=rows.device), []
        for e in range(self.local):
            row, k = (ids == e).nonzero(as_tuple=True)
            counts.append(row.numel())
            if counts[-1]:
                out = out.index_add(0, row, self.one(rank * self.local + e, rows[row]).float() * weights[row, k].unsqueeze(1))
        return out.to(torch.bfloat16), counts


def expected(x, ids, weights, experts, fp8):
    """Returns the weighted sum of the experts' outputs for each token, float32 [tokens, hidden]."""
    if fp8 and len(x):
        x = widened(*quantized(x))
    out = torch.zeros(x.shape, device=x.device)
    for e in ids.unique().tolist():
        if e >= 0:
            row, k = (ids == e).nonzero(as_tuple=True)
            out = out.index_add(0, row, experts.one(e, x[row]).float() * weights[row, k].unsqueeze(1))
    return out


def everyone(value):
    values = [None] * RANKS
    dist.all_gather_object(values, value)
    return values


def rows_of_experts(shape, ids, rank):
    chosen = torch.tensor(sum(everyone(ids.flatten().tolist()), []), dtype=torch.int64)
    return torch.bincount(chosen[chosen >= 0], minlength=shape.experts)[rank * shape.local:(rank + 1) * shape.local].tolist()


def close(got, want, bound=1e-2):
    """Returns the relative error as text. Fails unless it is below `bound` over all tokens and below 3 * bound in each
    token."""
    assert got.shape == want.shape, f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if not want.numel():
        return "this rank has no tokens"
    assert torch.isfinite(got).all(), "not finite"
    off, size = (got.double() - want.double()).norm(dim=1), want.double().norm(dim=1)
    whole, token = (off.norm() / size.norm()).item(), (off / size.clamp(min=1e-9)).max().item()
    assert whole < bound and token < 3 * bound, f"relative error {whole:.1e} of all tokens, {token:.1e} of the worst token"
    return f"error {whole:.1e}"


# ---- cases ----

class Cases:
    def __init__(self, rank, program):
        self.rank, self.program, self.good, self.bad, self.began = rank, program, 0, [], time.monotonic()

    def run(self, name, call):
        began, text, failed = time.monotonic(), "", ""
        try:
            text = call() or ""
            torch.cuda.synchronize()
        except Exception as e:
            traceback.print_exc()
            failed = f"{type(e).__name__}: {' '.join(str(e).split())[:150]}"
        failures = [f"rank {r}: {f}" for r, (_, f) in enumerate(everyone((text, failed))) if f]
        self.good += not failures
        self.bad += [name] if failures else []
        if self.rank == 0:
            print(f"CASE {self.program} {name:44s} {'FAILED' if failures else 'ok':6s} {time.monotonic() - began:5.1f}s {'; '.join(failures) or text}", flush=True)

    def end(self):
        if self.rank == 0:
            print(f"TOTAL {self.program} {self.good} of {self.good + len(self.bad)} ok, {time.monotonic() - self.began:.0f}s; failed: {' '.join(self.bad) or 'none'}",
                  flush=True)
        dist.barrier()
        sys.stdout.flush()
        os._exit(1 if self.bad else 0)  # engines' threads would keep the process alive


def run(cases, shape, fp8, rank, engine, experts):
    label = f"{shape.name}-{'fp8' if fp8 else 'bf16'}"

    def checked(call, tokens, seed, masked=0, twice=False):
        x, ids, weights = draw(shape, tokens, seed, rank, twice)
        if masked:
            ids[-masked:] = -1
        got, counts = call(x, ids, weights, experts)
        if counts is not None:
            want = rows_of_experts(shape, ids, rank)
            assert twice or list(counts) == want, f"rows of the first experts: {list(counts)[:8]}, expected {want[:8]}"
        keep = tokens - masked
        return close(got[:keep].float(), expected(x, ids, weights, experts, fp8)[:keep])

    for mode, (most, call) in engine.modes.items():
        for seed, counts in enumerate(shape.counts):
            if max(counts) <= most:
                cases.run(f"{mode}-{label}-{counts[0]}+{counts[1]}", lambda: checked(call, counts[rank], seed))
        if engine.padding:
            cases.run(f"{mode}-{label}-padding", lambda: checked(call, 6, 90, masked=2))
        if mode in engine.duplicates:
            cases.run(f"{mode}-{label}-duplicate-experts", lambda: checked(call, 7 + rank, 91, twice=True))

    def both():
        batches = [draw(shape, 4 + rank, 80 + i, rank) for i in range(2)]
        outs = engine.in_flight(batches, experts)
        return None if outs is None else ", ".join(close(o.float(), expected(*b, experts, fp8)) for o, b in zip(outs, batches))

    if type(engine).in_flight is not Engine.in_flight:
        cases.run(f"two-batches-{label}", both)
    if engine.captured and not EMULATED:
        call = engine.modes[engine.captured][1]
        cases.run(f"graph-{label}-{shape.captured}", lambda: graph(call, shape, fp8, rank, experts))
    for name, call in engine.extra(rank):
        cases.run(f"{name}-{label}", call)
    engine.close()


def graph(call, shape, fp8, rank, experts):
    x, ids, weights = draw(shape, shape.captured, 50, rank)

    def layers():
        first, _ = call(x, ids, weights, experts)
        return first, call(first, ids, weights, experts)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layers()
    torch.cuda.synchronize()
    dist.barrier()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=side):
        first, second = layers()
    for replay in range(20):
        for old, new in zip((x, ids, weights), draw(shape, shape.captured, 100 + replay, rank)):
            old.copy_(new)
        captured.replay()
        torch.cuda.synchronize()
        if replay % 6 == 0:
            close(first.float(), expected(x, ids, weights, experts, fp8))
            close(second.float(), expected(first, ids, weights, experts, fp8))
    for _ in range(200):
        captured.replay()
    torch.cuda.synchronize()
    close(call(x, ids, weights, experts)[0].float(), first.float(), 1e-6)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.barrier()
    begin.record()
    for _ in range(50):
        captured.replay()
    end.record()
    torch.cuda.synchronize()
    return f"220 replays right, {begin.elapsed_time(end) * 20:.0f} us for two layers with their experts"


def start(rank, port):
    if EMULATED:
        import emulated

        emulated.make()
    torch.cuda.set_device(rank)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank))
    import deep_ep

    assert CONTROL or deep_ep.Buffer.__module__.startswith("epcomm."), f"deep_ep is {deep_ep.__file__}"
    if rank == 0:
        print(f"deep_ep is {deep_ep.__file__}", flush=True)


def join(rank, port):
    dist.init_process_group(backend="nccl", init_method=f"tcp://127.0.0.1:{port}", world_size=RANKS, rank=rank)


def spawn(main):
    import torch.multiprocessing

    torch.multiprocessing.start_processes(main, args=(int(sys.argv[1]) if len(sys.argv) > 1 else 29611,), nprocs=RANKS, start_method="spawn")
