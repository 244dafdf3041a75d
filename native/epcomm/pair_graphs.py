"""What makes a pair slower in a PyTorch process: pair_graphs.py PACK [TOKENS] [DTYPE]

Two processes, a GPU each, lay out a round as `python -m epcomm check` does. `pytorch` is
check's own round. `driver` is that round captured by the driver, which alone changes
nothing on 2 H200, and each line below differs from it in what it says. All take
turns. A line has the slowest rank's microseconds of a pair: the median of turns, the least
and the most of them, and how far the median is from the driver's.

Blocks are the same tensors at other addresses: they show what addresses alone change.
What only a whole process can change is its environment: run-gpu.sh graphs runs this once
more with that of epcomm-worker. --device cpu runs all but PyTorch's graphs on the emulated
driver, where times mean nothing.
"""

import argparse
import ctypes
import os
import statistics
import sys

import torch
import torch.distributed as dist
from epcomm import check, reference
from epcomm.comm import ROUTINGS
from epcomm.ep import _bytes
from fourth_graph import RELAXED, call, on_two_gpus

ROUNDS, TURNS, WARM = 100, 7, 2000
QUEUED = 3  # replays one behind the other, of which the last is read
CARVEOUT, ALL_SHARED = 9, 100  # CUfunction_attribute, percent
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

    def moved(self, names, room):
        """The same values elsewhere: room(name, bytes) gives memory for each."""
        t = object.__new__(Tensors)
        t.__dict__.update(self.__dict__)
        for name in names:
            was = getattr(self, name)
            now = room(name, was.numel() * was.element_size()).view(was.dtype).view(was.shape)
            setattr(t, name, now.copy_(was))
        return t


SMALL = ("x", "ids", "weights", "out", "stamps")


def carve(block):
    """Pieces of a block, one behind the other."""
    end = 0

    def room(name, size):
        nonlocal end
        at, end = end, end + (size + 255) // 256 * 256
        if end > block.numel():
            raise SystemExit(f"{name}: no room for {size} bytes")
        return block[at:at + size]

    return room


def allocated(c, tokens):
    """Memory of the driver's for each, as large as epcomm-worker takes it."""
    most = {name: c.ep.max_tokens / max(tokens, 1) for name in SMALL if name != "stamps"}

    def room(name, size):
        at, whole = ctypes.c_uint64(), int(size * most.get(name, 1))
        call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(whole))
        return _bytes(at.value, whole, c.device)[:size]

    return room


class Round:
    """One round of pairs as a graph, and how it is replayed."""

    def __init__(self, c, where, tensors, side, fold=2, on=None, by_pytorch=False, copied=True, queued=1):
        self.c, self.where, self.t, self.fold = c, where, tensors, fold
        self.copied, self.queued, self.by_pytorch = copied, queued, by_pytorch
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
        self.captured = graph
        self.replay = lambda: call("cuGraphLaunch", made, self.on)

    def body(self, stream):
        ep, t = self.c.ep, self.t
        ep.barrier(stream)
        ep.stamp(t.stamps[0], stream)
        for _ in range(self.fold):
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
            for _ in range(self.queued):
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
        mine = [((alone - start) - (end - alone)) / 1e3 / self.fold for start, alone, end in read or kept.tolist()]
        return statistics.median(max(of) for of in zip(*check._everyone(self.c, mine)))

    def functions(self):
        """The functions of a graph's kernels, after saying how many nodes it has."""
        count, kinds, found = ctypes.c_size_t(), [], []
        call("cuGraphGetNodes", self.captured, None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        call("cuGraphGetNodes", self.captured, nodes, ctypes.byref(count))
        for node in nodes:
            kind, parameters = ctypes.c_int(), (ctypes.c_void_p * 16)()  # CUDA_KERNEL_NODE_PARAMS begins with the function
            call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
            kinds.append(kind.value)
            if kind.value == 0:
                call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), parameters)
                found.append(parameters[0])
        self.c.say(f"a round has {count.value} nodes, {kinds.count(0)} of them kernels; {6 + 2 * self.fold} were launched")
        return {f for f in found if f}


def compare(c, rounds, base):
    """Times them in turns and prints a line for each."""
    times = {name: [] for name in rounds}
    for _ in range(TURNS):
        for name, r in rounds.items():
            times[name].append(r.microseconds())
    for name, us in times.items():
        far = statistics.median(us) - statistics.median(times[base])
        c.say(f"{name:12} {statistics.median(us):7.2f} us ({min(us):6.2f} to {max(us):6.2f}) {far:+6.2f}")


def variations(c, tokens, where, t, side):
    """A round for each, by what it changes of the driver's."""
    driver = lambda tensors=t, **options: Round(c, where, tensors, side, **options)
    rows = min(c.rows(tokens, where["dtype"]), c.y.shape[0])
    few = t.moved((), None)
    few.y = torch.randn((rows, c.ep.hidden), device=c.device).to(torch.bfloat16)
    heap = c.ep._view(0, where["dtype"]).out.view(torch.uint8).view(-1)  # few of its rows hold anything
    own = t.moved((*SMALL, "y"), allocated(c, tokens))
    return {
        "driver": driver(),                                           # captured by the driver
        "stream": driver(on=side),                                    # uploaded, replayed on a non-blocking stream
        "alone": driver(copied=False),                                # each round is waited for, and no copy follows
        "queued": driver(copied=False, queued=QUEUED),                # rounds behind each other without a copy between them
        "y": driver(few),                                             # a small y of noise, not a large one of zeros
        "heap": driver(few.moved((*SMALL, "y"), carve(heap[heap.numel() // 2:]))),  # all in the library's heap, as in bench
        "own": driver(own),                                           # all in memory as epcomm-worker takes it
        "worker": driver(own, on=side, copied=False),                 # stream, alone and own together
        **{f"block {i + 1}": driver(t.moved(SMALL, carve(torch.empty(8 << 20, dtype=torch.uint8, device=c.device)))) for i in range(BLOCKS)},
    }


def run(rank, store, a):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    c = check.Check(argparse.Namespace(device=a.device, pack=a.pack, most=a.tokens, dtypes=a.dtype, calls=0, replays=0, routes=a.routes), rank)
    if a.device == "cpu":  # torch makes no context there, and the library waits after each call
        context, c.ep._settle = ctypes.c_void_p(), None
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), rank)
        call("cuCtxSetCurrent", context)
    side, t, where = Stream(), Tensors(c, a.tokens), {"fullest": a.tokens, "dtype": c.dtypes[0], "routing": ROUTINGS[a.routing]}
    c.say(f"{a.dtype}, {a.tokens} tokens: {' then '.join(c.ep.explain(a.tokens, dtype=c.dtypes[0], routing=a.routing)[:2])}")
    c.say(", ".join(f"{name}={os.environ.get(name, 'unset')}" for name in ("CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS")))
    c.ep.dispatch(t.x, t.ids, t.weights, **where), c.ep.combine(t.y, t.ids, t.weights, out=t.out, **where)
    call("cuCtxSynchronize")
    rounds = {}
    if a.device == "cuda":
        rounds["pytorch"] = r = Round(c, where, t, side, by_pytorch=True)
        for _ in range(WARM):
            r.replay()
        c.say(f"pytorch, before there are other graphs: {r.microseconds():.2f} us")
        rounds["eight"] = Round(c, where, t, side, by_pytorch=True, fold=8)
    rounds.update(variations(c, a.tokens, where, t, side))
    call("cuCtxSynchronize")  # the driver's stream does not wait for torch's
    compare(c, rounds, "driver")
    if a.device == "cuda":
        for f in rounds["driver"].functions():
            call("cuFuncSetAttribute", ctypes.c_void_p(f), CARVEOUT, ALL_SHARED)
        compare(c, {"driver": rounds["driver"], "carve-out": Round(c, where, t, side)}, "driver")
    if c.ep.fault():
        raise SystemExit(c.ep.fault().text.decode())
    c.ep.destroy()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack")
    parser.add_argument("tokens", type=int, nargs="?", default=8)
    parser.add_argument("dtype", nargs="?", default="bf16", choices=("bf16", "fp8"))
    parser.add_argument("--routing", default="even", choices=list(ROUTINGS), help="routing class, which chooses the kernels")
    parser.add_argument("--routes", help="folder with TOKENS.jsonl, from `epbench workload export`; else ids are drawn at random")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    on_two_gpus(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
