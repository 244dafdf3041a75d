"""What makes a pair slower in a PyTorch process: pair_graphs.py PACK [TOKENS] [DTYPE]

Each line is one way to set up the round of `python -m epcomm check`. `pytorch` is check's
own; `driver` is that round captured by the driver; the others change one thing of `driver`.
Each way runs in several processes of its own, all ways in turns, since a process reads up
to 5 % more or less than another, and more once it has other graphs. A line has the slowest
rank's microseconds of a pair: the median of processes, and each process.

Blocks are the same tensors at other addresses, `x alone` is x in the first block and the rest
where it was: they show what addresses alone change.
--device cpu runs all but PyTorch's graphs on the emulated driver, where times mean nothing.
"""

import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile

import torch
import torch.distributed as dist
from epcomm import check, reference
from epcomm.comm import ROUTINGS
from epcomm.ep import _bytes
from fourth_graph import RELAXED, call, on_gpus

FOLD = 2  # pairs of a round, as check
ROUNDS, PROCESSES = 300, 6
WARM = 20000  # replays, 0.2 s, as check
BLOCKS = 3


class Stream:
    """A non-blocking stream of the driver's."""

    def __init__(self):
        self.raw = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(self.raw), 1)
        self.cuda_stream = self.raw.value


class Tensors:
    """What a pair reads and writes."""

    def __init__(self, c, tokens):
        mine = reference.Inputs(c.ep, 11, c.rank, tokens)
        self.x, self.weights, self.ids, self.y = mine.x, mine.weights, check._route(c, tokens), c.y
        self.out = torch.empty_like(mine.x)
        self.stamps = torch.zeros(3, dtype=torch.int64, device=c.device)

    def moved(self, names, copies):
        """The same values elsewhere: copies(tensors) gives them."""
        t = object.__new__(Tensors)
        t.__dict__.update(self.__dict__)
        t.__dict__.update(zip(names, copies([getattr(self, name) for name in names])))
        return t


SMALL = ("x", "ids", "weights", "out", "stamps")


def allocated(c, tokens, tensors):
    """Copies in memory of the driver's, a piece for each, as large as epcomm-worker takes it: what has
    a row a token has room for the pack's tokens."""
    copies = []
    for t in tensors:
        at, size = ctypes.c_uint64(), t.numel() * t.element_size()
        whole = size // tokens * c.ep.max_tokens if t.shape[0] == tokens else size
        call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(whole))
        copies.append(_bytes(at.value, whole, c.device)[:size].view(t.dtype).view(t.shape).copy_(t))
    return copies


class Round:
    """One round of pairs as a graph, and how it is replayed."""

    def __init__(self, c, where, tensors, side, on=None, by_pytorch=False, copied=True):
        self.c, self.where, self.t = c, where, tensors
        self.copied, self.by_pytorch = copied, by_pytorch
        self.on = on.raw if on else ctypes.c_void_p()  # the legacy stream
        if by_pytorch:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.body(None)
            self.replay = self.graph.replay
            return
        graph, made = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuStreamBeginCapture_v2", side.raw, RELAXED)
        self.body(side)
        call("cuStreamEndCapture", side.raw, ctypes.byref(graph))
        call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
        if on:  # as bench and epcomm-worker do
            call("cuGraphUpload", made, self.on)
        self.replay = lambda: call("cuGraphLaunch", made, self.on)

    def body(self, stream):
        ep, t = self.c.ep, self.t
        ep.barrier(stream)
        ep.stamp(t.stamps[0], stream)
        for _ in range(FOLD):
            ep.dispatch(t.x, t.ids, t.weights, stream=stream, **self.where)
            ep.combine(t.y, t.ids, t.weights, out=t.out, stream=stream, **self.where)
        ep.barrier(stream)
        ep.stamp(t.stamps[1], stream)
        ep.barrier(stream)
        ep.stamp(t.stamps[2], stream)

    def microseconds(self):
        """Of a pair, on the slowest rank of each round, the median of rounds."""
        kept, read = torch.empty((ROUNDS, 3), dtype=torch.int64, device=self.c.device), []
        for of_round in kept:
            self.replay()
            if self.by_pytorch:
                of_round.copy_(self.t.stamps)
            elif self.copied:
                call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(of_round.data_ptr()), ctypes.c_uint64(self.t.stamps.data_ptr()),
                     ctypes.c_size_t(24), self.on)
            else:
                call("cuStreamSynchronize", self.on)
                read.append(self.t.stamps.tolist())
        call("cuCtxSynchronize")
        mine = [((alone - start) - (end - alone)) / 1e3 / FOLD for start, alone, end in read or kept.tolist()]
        return statistics.median(max(of) for of in zip(*check._everyone(self.c, mine)))


def driver(c, tokens, where, t, side, **options):
    return Round(c, where, t, side, **options)


def pytorch(c, tokens, where, t, side):
    return Round(c, where, t, side, by_pytorch=True)


def small_y(c, tokens, where, t):
    """The tensors with a y of few rows and noise, not of all rows and zeros."""
    rows = min(c.rows(tokens, where["dtype"]), c.y.shape[0])
    return t.moved(["y"], lambda _: [torch.randn((rows, c.ep.hidden), device=c.device).to(torch.bfloat16)])


def heap(c, tokens, where, t, side):
    """All in the library's heap, as in bench; few of its rows hold anything."""
    memory = c.ep._view(0, where["dtype"]).out.view(torch.uint8).view(-1)
    return Round(c, where, small_y(c, tokens, where, t).moved((*SMALL, "y"), lambda of: check._carved(memory[memory.numel() // 2:], of)), side)


def own(c, tokens, where, t, side, **options):
    """All in memory as epcomm-worker takes it."""
    return Round(c, where, t.moved((*SMALL, "y"), lambda of: allocated(c, tokens, of)), side, **options)


def worker(c, tokens, where, t, side):
    """That, uploaded and replayed on a non-blocking stream, each round waited for, no copy after it."""
    return own(c, tokens, where, t, side, on=side, copied=False)


def block(number, names=SMALL):
    """Tensors of these names in the last of so many blocks."""
    def made(c, tokens, where, t, side):
        return Round(c, where, t.moved(names, lambda of: check._placed(of, number)), side)
    return made


WORKER_ENVIRONMENT = {"CUDA_MODULE_LOADING": "EAGER", "CUDA_DEVICE_MAX_CONNECTIONS": "32"}

# name: environment of the process, round
WAYS = {
    "pytorch": ({}, pytorch),
    "driver": ({}, driver),
    "heap": ({}, heap),
    "own": ({}, own),
    "worker": ({}, worker),
    **{f"block {i + 1}": ({}, block(i + 1)) for i in range(BLOCKS)},
    **{f"{name} alone": ({}, block(1, [name])) for name in SMALL},
    "small y": ({}, lambda c, tokens, where, t, side: Round(c, where, small_y(c, tokens, where, t), side)),
    "environment": (WORKER_ENVIRONMENT, driver),
    "all": (WORKER_ENVIRONMENT, worker),
}


def run(rank, store, a):
    """One process of a rank: times one way and leaves the time beside the store."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=a.ranks)
    c = check.Check(argparse.Namespace(device=a.device, pack=a.pack, most=a.tokens, dtypes=a.dtype, calls=0, replays=0, routes=a.routes), rank)
    if a.device == "cpu":  # torch makes no context there, and the library waits after each call
        context, c.ep._settle = ctypes.c_void_p(), None
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), rank)
        call("cuCtxSetCurrent", context)
    side, t, where = Stream(), Tensors(c, a.tokens), {"fullest": a.tokens, "dtype": c.dtypes[0], "routing": ROUTINGS[a.routing]}
    c.ep.dispatch(t.x, t.ids, t.weights, **where), c.ep.combine(t.y, t.ids, t.weights, out=t.out, **where)
    call("cuCtxSynchronize")  # the driver's stream does not wait for torch's
    r = WAYS[a.way][1](c, a.tokens, where, t, side)
    call("cuCtxSynchronize")
    for _ in range(WARM if a.device == "cuda" else 1):
        r.replay()
    us = r.microseconds()
    if c.ep.fault():
        raise SystemExit(c.ep.fault().text.decode())
    if rank == 0:
        with open(a.result, "w") as f:
            json.dump({"us": us, "config": " then ".join(c.ep.explain(a.tokens, dtype=c.dtypes[0], routing=where["routing"])[:2])}, f)
    c.ep.destroy()
    dist.destroy_process_group()


def timed(a, way):
    """What new processes read."""
    with tempfile.TemporaryDirectory() as folder:
        environment, before = WAYS[way][0], dict(os.environ)
        os.environ.update(environment)
        a.way, a.result = way, os.path.join(folder, "result.json")
        on_gpus(run, a, a.ranks)
        os.environ.clear(), os.environ.update(before)
        with open(a.result) as f:
            return json.load(f)


def compare(a):
    """Times all ways in turns and prints a line for each."""
    ways = [w for w in a.ways.split(",") if a.device == "cuda" or WAYS[w][1] is not pytorch]
    times = {w: [] for w in ways}
    for _ in range(a.processes):
        for way in ways:
            shown = timed(a, way)
            times[way].append(shown["us"])
    print(f"{a.dtype}, {a.tokens} tokens: {shown['config']}")
    for way, us in times.items():
        far = statistics.median(us) - statistics.median(times["driver"])
        print(f"{way:12} {statistics.median(us):7.2f} us {far:+6.2f}   {' '.join(f'{u:.2f}' for u in sorted(us))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack")
    parser.add_argument("tokens", type=int, nargs="?", default=8)
    parser.add_argument("dtype", nargs="?", default="bf16", choices=("bf16", "fp8"))
    parser.add_argument("--routing", default="even", choices=list(ROUTINGS), help="routing class, which chooses the kernels")
    parser.add_argument("--routes", help="folder with TOKENS.jsonl, from `epbench workload export`; else ids are drawn at random")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of the pack; one needs one GPU")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="processes of each way")
    parser.add_argument("--ways", default=",".join(WAYS), help="which of them, driver among them; default: all")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    a = parser.parse_args()
    if unknown := [w for w in a.ways.split(",") if w not in WAYS]:
        parser.error(f"--ways {unknown[0]}: there are {', '.join(WAYS)}")
    if "driver" not in a.ways.split(","):
        parser.error("--ways: driver must be among them, since the others are compared with it")
    compare(a)


if __name__ == "__main__":
    sys.exit(main())
