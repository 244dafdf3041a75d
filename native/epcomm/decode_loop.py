"""A decode step of many MoE layers in one CUDA graph, with DeepEP's low-latency calls and
with ours: what a step takes, and what part of it is communication.

    torchrun --standalone --nproc-per-node 2 decode_loop.py --tokens 32 --dtype fp8

A layer is dispatch, the experts (gate and up, SwiGLU, down, on BF16 weights), combine, and
a norm. Attention is left out. All layers share one set of weights, which at DeepSeek-V3's
size is many times the L2 cache: each layer reads all of it, as layers of their own would.
Three graphs are timed for each library, all in turns within one process:

    step     all layers
    compute  the same without dispatch and combine, on rows that were dispatched before
    calls    dispatch and combine alone

Communication is step less compute. With --device cpu on an emulated driver the layers run
without a graph, and no time means anything.
"""

import argparse
import importlib
import json
import random
import statistics
import sys
import time

import torch
import torch.distributed as dist

from epcomm import EP
from epcomm import deepep as ours
from epcomm.deepep import packs


class Shape:
    """Sizes that all libraries share. `local` experts of a rank have `room` rows each."""

    def __init__(self, a):
        self.layers, self.tokens, self.hidden, self.inner = a.layers, a.tokens, a.hidden, a.inner
        self.experts, self.topk, self.fp8 = a.experts, a.topk, a.dtype == "fp8"
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.local, self.room = a.experts // self.ranks, self.ranks * a.tokens
        self.device = torch.device(a.device, self.rank) if a.device == "cuda" else torch.device("cpu")


class Buffered:
    """DeepEP's Buffer: its own, or epcomm.deepep's."""

    def __init__(self, s, module):
        hint = module.Buffer.get_low_latency_rdma_size_hint(s.tokens, s.hidden, s.ranks, s.experts)
        more = {"device": s.device} if module is ours else {}
        self.s = s
        self.buffer = module.Buffer(dist.group.WORLD, 0, hint, low_latency_mode=True, num_qps_per_rank=s.local, **more)

    def dispatch(self, x, ids, weights):
        """Rows [local, room, hidden], their scales or None, and what combine needs."""
        got, _, handle, _, _ = self.buffer.low_latency_dispatch(x, ids, self.s.tokens, self.s.experts, use_fp8=self.s.fp8)
        return (*got, handle) if self.s.fp8 else (got, None, handle)

    def combine(self, y, ids, weights, handle):
        return self.buffer.low_latency_combine(y, ids, weights, handle)[0]


class Direct:
    """epcomm's own calls, without DeepEP's interface."""

    def __init__(self, s):
        shape = packs.Shape("masked", s.ranks, s.hidden, s.experts, s.topk, s.tokens, exact=True)
        path = packs.get(shape, s.rank, gather_objects)
        self.s, self.dtype = s, "fp8" if s.fp8 else "bf16"
        self.ep = EP(pack=path, device=s.device, precision="reduced", deadline=60)

    def dispatch(self, x, ids, weights):
        s, got = self.s, self.ep.dispatch(x, ids, weights, dtype=self.dtype)
        scales = got.scales.view(s.local, s.hidden // 128, s.room).transpose(1, 2) if s.fp8 else None
        return got.out.view(s.local, s.room, s.hidden), scales, None

    def combine(self, y, ids, weights, handle):
        return self.ep.combine(y.view(-1, self.s.hidden), ids, weights, dtype=self.dtype)


class Plain:
    """The same by all-gathers, to judge the others."""

    def __init__(self, s):
        self.s = s

    def gather(self, t):
        everyone = [torch.empty_like(t) for _ in range(self.s.ranks)]
        dist.all_gather(everyone, t)
        return torch.cat(everyone)

    def dispatch(self, x, ids, weights):
        s = self.s
        return self.gather(x).expand(s.local, s.room, s.hidden).contiguous(), None, None

    def combine(self, y, ids, weights, handle):
        s = self.s
        ids, weights = self.gather(ids), self.gather(weights)
        first, sums = s.rank * s.local, torch.zeros((s.room, s.hidden), dtype=torch.float32, device=s.device)
        for e in range(s.local):
            sums += y[e].float() * (weights * (ids == first + e)).sum(dim=1, keepdim=True)
        dist.all_reduce(sums)
        return sums[s.rank * s.tokens:(s.rank + 1) * s.tokens].bfloat16()


def gather_objects(mine):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return everyone


class Model:
    """Weights of one rank's experts, and each layer's routing: uniform, the same for all
    libraries."""

    def __init__(self, s):
        g = torch.Generator(device=s.device).manual_seed(1 + s.rank)
        draw = lambda *size: torch.randn(size, generator=g, device=s.device, dtype=torch.bfloat16)
        self.s = s
        self.up = draw(s.local, s.hidden, 2 * s.inner).mul_(s.hidden**-0.5)
        self.down = draw(s.local, s.inner, s.hidden).mul_(s.inner**-0.5)
        self.x = draw(s.tokens, s.hidden)
        scores = [torch.rand((s.tokens, s.experts), generator=g, device=s.device) for _ in range(s.layers)]
        self.ids = [score.topk(s.topk, dim=1)[1] for score in scores]
        self.weights = [torch.rand((s.tokens, s.topk), generator=g, device=s.device).div_(s.topk) for _ in range(s.layers)]

    def run_experts(self, rows, scales):
        """[local, room, hidden], of rows that hold nothing too: all shapes are static."""
        if scales is not None:
            grouped = rows.float().view(*rows.shape[:2], -1, 128)
            rows = (grouped * scales.unsqueeze(-1)).view(rows.shape).bfloat16()
        gate, up = torch.bmm(rows, self.up).chunk(2, dim=-1)
        return torch.bmm(torch.nn.functional.silu(gate) * up, self.down)

    def add(self, x, y):
        return torch.nn.functional.rms_norm((x + y).float(), (self.s.hidden,)).bfloat16()

    def layer(self, library, x, n):
        rows, scales, handle = library.dispatch(x, self.ids[n], self.weights[n])
        return self.add(x, library.combine(self.run_experts(rows, scales), self.ids[n], self.weights[n], handle))

    def parts(self, library):
        """The functions that are timed, by name."""
        rows, scales, handle = library.dispatch(self.x, self.ids[0], self.weights[0])
        made = self.run_experts(rows, scales)
        library.combine(made, self.ids[0], self.weights[0], handle)
        kept, kept_scales = rows.clone(), None if scales is None else scales.clone()
        back = torch.zeros_like(self.x)

        def step():
            x = self.x
            for n in range(self.s.layers):
                x = self.layer(library, x, n)
            return x

        def compute():
            x = self.x
            for _ in range(self.s.layers):
                x = self.add(x, back + self.run_experts(kept, kept_scales)[0, :1])
            return x

        def calls():
            for n in range(self.s.layers):
                _, _, handle = library.dispatch(self.x, self.ids[n], self.weights[n])
                back = library.combine(made, self.ids[n], self.weights[n], handle)
            return back

        return {"step": step, "compute": compute, "calls": calls}


class Captured:
    """work as a CUDA graph; a call replays it. A graph holds addresses, not tensors: without
    `work`, the tensors that only it names would be freed, and the next capture gives free
    memory back to the driver."""

    def __init__(self, work):
        self.work = work
        work()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            work()
        self()
        torch.cuda.synchronize()

    def __call__(self):
        self.graph.replay()


def captured(work, cuda):
    """work as a CUDA graph, or itself where there is no GPU."""
    if cuda:
        return Captured(work)
    work()
    return work


def seconds(work, replays, cuda):
    """Seconds of one run of work: the mean of `replays` runs without a pause."""
    dist.barrier()
    if not cuda:
        start = time.perf_counter()
        for _ in range(replays):
            work()
        return (time.perf_counter() - start) / replays
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(replays):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / replays


def interval(values):
    """(median, low, high): a 95 % bootstrap interval of the median."""
    r = random.Random(1)
    medians = sorted(statistics.median(r.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), medians[25], medians[974]


def error(got, want):
    return ((got.float() - want.float()).norm() / want.float().norm()).item()


def opened(names, s):
    """The libraries that can be had here, and why the others cannot."""
    makers = {"plain": lambda: Plain(s), "epcomm": lambda: Direct(s), "epcomm.deepep": lambda: Buffered(s, ours),
              "deepep": lambda: Buffered(s, importlib.import_module("deep_ep"))}
    out, missing = {}, {}
    for name in names:
        try:
            out[name] = makers[name]()
        except ImportError as e:
            missing[name] = str(e)
    return out, missing


def measure(libraries, model, a, cuda):
    """{library: {part: [seconds of the slowest rank by turn]}}"""
    works = {(name, part): captured(work, cuda) for name, lib in libraries.items() for part, work in model.parts(lib).items()}
    mine = {key: [] for key in works}
    order = list(works)
    for turn in range(a.turns):
        random.Random(turn).shuffle(order)  # the same on all ranks
        for key in order:
            mine[key].append(seconds(works[key], a.replays, cuda))
    everyone, out = gather_objects(mine), {name: {} for name in libraries}
    for name, part in works:
        out[name][part] = [max(of) for of in zip(*(m[name, part] for m in everyone))]
    return out


def summary(times, layers):
    """One library's milliseconds a step and the share of communication, with intervals."""
    out = {part: [1e3 * v for v in interval(values)] for part, values in times.items()}
    spent = [s - c for s, c in zip(times["step"], times["compute"])]
    out["communication"] = [1e3 * v for v in interval(spent)]
    out["communication_share"] = interval([d / s for d, s in zip(spent, times["step"])])
    out["calls_us_a_layer"] = [1e6 * v / layers for v in interval(times["calls"])]
    return out


def show(name, of):
    ms = lambda part: "%8.3f [%.3f, %.3f]" % tuple(of[part])
    print("%-14s step %s ms, compute %s, communication %s ms = %.1f %% [%.1f, %.1f]; calls alone %.1f us a layer" % (
        name, ms("step"), ms("compute"), ms("communication"), *(100 * v for v in of["communication_share"]), of["calls_us_a_layer"][0]))


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--dtype", default="fp8", choices=("fp8", "bf16"), help="what a token travels as")
    p.add_argument("--libraries", default="deepep,epcomm,epcomm.deepep")
    p.add_argument("--json", help="FILE for all times")
    for name, value in {"layers": 58, "tokens": 32, "hidden": 7168, "inner": 2048, "experts": 256, "topk": 8, "turns": 15, "replays": 3}.items():
        p.add_argument("--" + name, type=int, default=value)
    return p.parse_args()


def main():
    a = arguments()
    cuda = a.device == "cuda"
    dist.init_process_group("nccl" if cuda else "gloo")
    if cuda:
        torch.cuda.set_device(dist.get_rank())
    s = Shape(a)
    model = Model(s)
    libraries, missing = opened(a.libraries.split(","), s)
    want, wrong = model.layer(Plain(s), model.x, 0), 0
    for name, library in libraries.items():
        off = max(gather_objects(error(model.layer(library, model.x, 0), want)))
        wrong += off > (0.05 if s.fp8 else 0.01)
        if s.rank == 0:
            print(f"{name}: a layer differs from plain PyTorch by {off:.2e}")
    if wrong:
        sys.exit("a library is wrong: nothing is timed")
    times = measure(libraries, model, a, cuda)
    if s.rank == 0:
        said = {name: summary(of, s.layers) for name, of in times.items()}
        for name, of in said.items():
            show(name, of)
        for name, why in missing.items():
            print(f"{name}: left out: {why}")
        if a.json:
            with open(a.json, "w", encoding="utf-8") as f:
                json.dump({"shape": vars(a), "ranks": s.ranks, "gpu": torch.cuda.get_device_name() if cuda else "none", "libraries": said, "turns": times}, f, indent=1)
    dist.barrier()


if __name__ == "__main__":
    main()
