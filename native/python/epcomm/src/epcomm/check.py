"""Implements `python -m epcomm check`: it runs a pack's kernels on all ranks, compares their results with results of
PyTorch, and measures the time of the calls. A pack is a file with the compiled kernels of dispatch and combine."""

import argparse
import json
import os
import random
import sys
import tempfile
import time

import torch
import torch.distributed as dist

from . import ep as operators
from . import reference
from .comm import DTYPES, check_pack
from .ep import EP


def main(a):
    if a.apart and not a.spawn:
        raise ValueError("--apart starts the processes itself: give --spawn N, the number of ranks")
    if a.placement < 0:
        raise ValueError(f"--placement {a.placement}: give the number of memory blocks to allocate for the tensors, or 0 to let torch place them")
    if not a.spawn:
        return run(a, int(os.environ.get("LOCAL_RANK", "0")))
    times = []
    for part in _apart(a) if a.apart else [a]:
        times += _start(part)
        if a.json:
            with open(a.json, "w") as f:
                json.dump(times, f, indent=1)
    return 0


def _apart(a):
    """Returns a copy of the arguments for each pair of a dtype and a token count. Only the first copy asks to compare
    results."""
    with open(a.pack, "rb") as f:
        pack = check_pack(f.read())
    cases = [
        {"dtypes": dtype, "tokens": tokens}
        for tokens in a.tokens.split(",") if not tokens or int(tokens) <= pack.max_tokens
        for dtype in a.dtypes.split(",") if pack.dtypes >> DTYPES[dtype] & 1
    ]
    if not cases:
        raise ValueError(f"--dtypes {a.dtypes}, --tokens {a.tokens}: the pack has no such case")
    later = {"calls": 0, "replays": 0}
    return [argparse.Namespace(**{**vars(a), **case, **(later if i else {})}) for i, case in enumerate(cases)]


def _start(a):
    """Forks a process for each rank, so this process must not use CUDA. Returns the times that rank 0 measured."""
    import torch.multiprocessing as processes

    with tempfile.TemporaryDirectory() as folder:
        part = argparse.Namespace(**{**vars(a), "json": os.path.join(folder, "times.json")})
        processes.start_processes(_spawned, (part, os.path.join(folder, "store")), nprocs=a.spawn, start_method="fork")
        with open(part.json) as f:
            return json.load(f)


def _spawned(rank, a, store):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=a.spawn)
    sys.exit(run(a, rank))


class Check:
    def __init__(self, a, local_rank):
        self.a = a
        if a.device == "cuda":
            torch.cuda.set_device(local_rank)
        self.device = torch.device("cpu") if a.device == "cpu" else torch.device("cuda", local_rank)
        start = time.perf_counter()
        self.ep = EP(pack=a.pack, device=self.device, in_flight=2 if a.calls or a.replays else 1)
        self.created = time.perf_counter() - start
        self.rank, self.ranks = self.ep.rank, self.ep.ranks
        self.dtypes = [DTYPES[n] for n in a.dtypes.split(",") if self.ep.info.dtypes >> DTYPES[n] & 1]
        if not self.dtypes:
            raise ValueError(f"--dtypes {a.dtypes}: the pack has none of them")
        self.y = torch.zeros((max(self.ep.max_rows(d) for d in self.dtypes), self.ep.hidden), dtype=torch.bfloat16, device=self.device)
        self.most = min(a.most, self.ep.max_tokens)
        self.wrong = 0

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def sync(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def judge(self, what, complaint):
        if complaint:
            self.wrong += 1
            print(f"rank {self.rank}: {what}: {complaint}", flush=True)

    def tokens(self, n):
        r = random.Random(n)
        return [0 if r.random() < 0.1 else r.randint(0, self.most if r.random() < 0.3 else min(self.most, 16)) for _ in range(self.ranks)]

    def rows(self, fullest, dtype):
        return min(self.ranks * fullest * self.ep.topk + 4 * self.ep.groups, self.ep.max_rows(dtype))

    def in_halves(self, mine, ids, **where):
        for half in ("_send", "_recv"):
            view = self.ep.dispatch(mine.x, ids, mine.weights, half=half, purpose="halves", **where)
        reference.apply_experts(self.ep, view, where["dtype"], self.rows(where["fullest"], where["dtype"]), self.y)
        kept = self.ep.combine(self.y, ids, mine.weights, half="_send", purpose="halves", **where)
        combined = self.ep.combine(self.y, ids, mine.weights, half="_recv", purpose="halves", **where)
        self.judge("combine in halves", "" if combined is kept else "the recv returned another tensor than the send")
        return view, combined

    def step(self, mine, fullest, slot, dtype, wide, routing, api):
        """Runs a dispatch, the experts and a combine. `api` is the EP, or the module epcomm.ep, whose functions are
        PyTorch operators. If `api` is None, dispatch and combine are each made in two calls, a send and a receive."""
        ids = mine.ids.long() if wide else mine.ids
        where = dict(fullest=fullest, slot=slot, dtype=dtype, routing=routing)
        if api is None:
            return self.in_halves(mine, ids, **where)
        view = api.dispatch(*self.first(api), mine.x, ids, mine.weights, **where)
        reference.apply_experts(self.ep, view, dtype, self.rows(fullest, dtype), self.y)
        return view, api.combine(*self.first(api), self.y, ids, mine.weights, **where)

    def first(self, api):
        return (self.ep,) if api is operators else ()

    def check(self, what, view, combined, dtype, everyone):
        self.judge(what, reference.check_dispatch(self.ep, view, dtype, everyone))
        self.judge(what, reference.check_combine(self.ep, combined, dtype, everyone[self.rank], False))

    def call(self, n):
        tokens = self.tokens(n)
        everyone = [reference.Inputs(self.ep, n, r, t) for r, t in enumerate(tokens)]
        dtype = self.dtypes[n % len(self.dtypes)]
        view, combined = self.step(everyone[self.rank], max(max(tokens), 1), n % 2, dtype, n % 3 == 0, n % 6,
                                   {1: operators, 3: None}.get(n % 4, self.ep))
        self.check(f"call {n}", view, combined, dtype, everyone)
        if self.ep.fault():
            self.judge(f"call {n}", self.ep.fault().text.decode())
            raise SystemExit(1)

    def calls(self):
        start = time.perf_counter()
        for n in range(self.a.calls):
            self.call(n)
        self.say(f"{self.a.calls} eager calls with random token counts from 0 to {self.most}: {time.perf_counter() - start:.1f} s")

    def burst(self, calls=2000):
        inputs = [[reference.Inputs(self.ep, 10**6 + n, r, t) for r, t in enumerate(self.tokens(10**6 + n))] for n in range(16)]
        order = random.Random(1)
        for _ in range(calls):
            i = order.randrange(16)
            fullest = max(max(e.x.shape[0] for e in inputs[i]), 1)
            last = i, self.step(inputs[i][self.rank], fullest, 0, self.dtypes[0], False, 1, self.ep)
        self.sync()
        self.check("burst", *last[1], self.dtypes[0], inputs[last[0]])
        self.say(f"{calls} calls back to back; the last results are checked")

    def graphs(self):
        made = []
        for i, fullest in enumerate([self.most, max(self.most // 4, 1), 1]):
            tokens = [fullest if r == i % self.ranks else max(fullest - r, 0) for r in range(self.ranks)]
            static = reference.Inputs(self.ep, 7 * 10**6 + i, self.rank, tokens[self.rank])
            dtype = self.dtypes[i % len(self.dtypes)]
            self.step(static, fullest, 0, dtype, i == 1, 1, self.ep)
            self.sync()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                view, combined = self.step(static, fullest, 0, dtype, i == 1, 1, self.ep)
            made.append((graph, tokens, static, dtype, view, combined))
        order = random.Random(2)
        for n in range(self.a.replays):
            which = order.randrange(4)
            if which == 3:
                self.call(2 * 10**6 + n)
                continue
            graph, tokens, static, dtype, view, combined = made[which]
            everyone = [reference.Inputs(self.ep, 3 * 10**6 + n, r, t) for r, t in enumerate(tokens)]
            mine = everyone[self.rank]
            static.x.copy_(mine.x), static.ids.copy_(mine.ids), static.weights.copy_(mine.weights)
            graph.replay()
            self.check(f"replay {n}", view, combined, dtype, everyone)
        self.say(f"{self.a.replays} replays of three graphs and eager calls, mixed")


def _chain(c, unit, fold, pair, rounds, before=None):
    """Measures the seconds of one call in a CUDA graph of `fold` equal calls.

    unit() makes one call. If that is a combine, before() makes the dispatch that it needs. A barrier over all ranks
    follows each call. If `pair` is true, unit() makes a dispatch and a combine, and only one barrier follows, after
    the last call. The function measures the barriers alone too and subtracts their time. It replays the graph
    `rounds` times, takes the time of the slowest rank in each replay, and returns the median. Kernels store the time,
    because a CUDA event would delay the next kernel.
    """
    stamps = torch.zeros(3, dtype=torch.int64, device=c.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if before:
            c.ep.barrier(), before()
        c.ep.barrier()
        c.ep.stamp(stamps[0])
        for i in range(fold):
            unit()
            if not pair or i == fold - 1:
                c.ep.barrier()
        c.ep.stamp(stamps[1])
        for _ in range(1 if pair else fold):
            c.ep.barrier()
        c.ep.stamp(stamps[2])
    _warm_up(c, graph)
    kept = torch.empty((rounds, 3), dtype=torch.int64, device=c.device)
    for of_round in kept:
        graph.replay()
        of_round.copy_(stamps)
    c.sync()
    if c.ep.fault():
        raise RuntimeError(c.ep.fault().text.decode())
    seconds = [((alone - start) - (end - alone)) / 1e9 / fold for start, alone, end in kept.tolist()]
    return sorted(max(of) for of in zip(*_everyone(c, seconds)))[rounds // 2]


_WARM_UP = 0.2  # seconds


def _warm_up(c, graph, probe=8):
    start = time.perf_counter()
    for _ in range(probe):
        graph.replay()
    c.sync()
    each = max(_everyone(c, (time.perf_counter() - start) / probe))
    for _ in range(int(_WARM_UP / each)):
        graph.replay()


def _everyone(c, mine):
    every = [None] * c.ranks
    dist.all_gather_object(every, mine)
    return every


# Number of calls in the graph that _chain measures. There is no barrier between two pairs. With more than two pairs,
# some ranks would run ahead of others.
_FOLD = {"pair": 2, "dispatch": 12, "combine": 12}


def _route(c, tokens):
    """Returns the experts of each token as int32 [tokens, top-k]. It reads them from the folder of --routes, or else
    draws them at random."""
    if not c.a.routes:
        return torch.rand((tokens, c.ep.experts), device=c.device).topk(c.ep.topk, dim=1).indices.to(torch.int32)
    with open(os.path.join(c.a.routes, f"{tokens}.jsonl")) as f:
        every = [json.loads(line)["topk_ids"] for line in f]
    return torch.tensor(every[c.rank * tokens:(c.rank + 1) * tokens], dtype=torch.int32, device=c.device)


def _carved(memory, tensors):
    sizes = [(t.numel() * t.element_size() + 255) // 256 * 256 for t in tensors]
    pieces = memory[:sum(sizes)].split(sizes)
    return [p[:t.numel() * t.element_size()].view(t.dtype).view(t.shape).copy_(t) for p, t in zip(pieces, tensors)]


_BLOCK = 8 << 20


def _placed(tensors, number):
    """Allocates `number` blocks of memory, copies the tensors into the last block and returns the copies. If `number`
    is 0, returns the tensors themselves. The addresses of tensors change the time of a call by up to 5 %."""
    if not number:
        return tensors
    size = max(sum(t.numel() * t.element_size() + 255 for t in tensors), _BLOCK)
    return _carved([torch.empty(size, dtype=torch.uint8, device=tensors[0].device) for _ in range(number)][-1], tensors)


def times(c):
    """Measures dispatch, combine, and both together (pair). Returns a list of {"op", "dtype", "tokens", "us"}."""
    out = []
    for dtype in c.dtypes:
        for tokens in [int(t) for t in c.a.tokens.split(",") if t]:
            if tokens > c.ep.max_tokens:
                continue
            mine = reference.Inputs(c.ep, 11, c.rank, tokens)
            x, ids, weights, combined = _placed([mine.x, _route(c, tokens), mine.weights, torch.empty_like(mine.x)], c.a.placement)
            for purpose, op in enumerate(("pair", "dispatch", "combine")):
                where = dict(fullest=tokens, dtype=dtype, routing=c.a.routing, purpose=purpose)
                d = lambda: c.ep.dispatch(x, ids, weights, **where)
                k = lambda: c.ep.combine(c.y, ids, weights, out=combined, **where)
                d(), k(), c.ep.barrier()
                unit = {"pair": lambda: (d(), k()), "dispatch": d, "combine": k}[op]
                seconds = _chain(c, unit, _FOLD[op], op == "pair", c.a.rounds, d if op == "combine" else None)
                k() if op == "dispatch" else None
                name = {1: "bf16", 2: "fp8"}[dtype]
                out.append({"op": op, "dtype": name, "tokens": tokens, "us": seconds * 1e6})
                c.say(f"{op:9} {name:5} {tokens:5} tokens {seconds * 1e6:9.2f} us")
    return out


def host_time(c):
    """Measures how long the host needs to launch a dispatch and a combine without a CUDA graph. It makes 30 batches
    of 50 calls, and prints the mean time of the fastest batch."""
    mine = reference.Inputs(c.ep, 11, c.rank, min(8, c.ep.max_tokens))
    combined = torch.empty_like(mine.x)
    best = [1.0, 1.0]
    for _ in range(30):
        spent = [0.0, 0.0]
        for _ in range(50):
            t0 = time.perf_counter()
            c.ep.dispatch(mine.x, mine.ids, mine.weights, fullest=8, routing=1)
            t1 = time.perf_counter()
            c.ep.combine(c.y, mine.ids, mine.weights, out=combined, fullest=8, routing=1)
            spent[0] += t1 - t0
            spent[1] += time.perf_counter() - t1
        c.sync()
        best = [min(b, s / 50) for b, s in zip(best, spent)]
    c.say(f"host time of a call from Python: dispatch {best[0] * 1e6:.2f} us, combine {best[1] * 1e6:.2f} us")


def run(a, local_rank):
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    before = torch.cuda.mem_get_info(local_rank)[0] if a.device == "cuda" else 0
    c = Check(a, local_rank)
    c.say(f"created in {c.created:.2f} s, {c.ep.info.heap_bytes / 2**20:.0f} MiB of device memory a rank, {c.ep.info.in_flight} in flight")
    if a.calls:
        c.calls()
        c.burst(min(2000, 10 * a.calls))
    out = []
    if a.device == "cuda":
        if a.replays:
            c.graphs()
            host_time(c)
        out = times(c)
    total = _everyone(c, c.wrong)
    heap = c.ep.info.heap_bytes
    c.ep.destroy()
    right = "every result is right" if a.calls or a.replays else "no result was checked"
    c.say(f"{sum(total)} results are WRONG" if sum(total) else right)
    if a.device == "cuda":
        del c.y
        torch.cuda.empty_cache()
        kept = before - torch.cuda.mem_get_info(local_rank)[0]
        c.say(f"device memory kept after destroy: {kept / 2**20:.0f} MiB of {heap / 2**20:.0f}, torch's own context included")
    if a.json and c.rank == 0:
        with open(a.json, "w") as f:
            json.dump(out, f, indent=1)
    dist.destroy_process_group()
    return 1 if sum(total) else 0
