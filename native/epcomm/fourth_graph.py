"""What makes every kernel of a PyTorch process start later: fourth_graph.py PACK [TOKENS]

Two processes, a GPU each, time one graph of pairs, captured by the driver, again and again:
first untouched, then after each of a few things that capturing a graph does, then after
captures by PyTorch. Each line is the pair's microseconds on both ranks. The kernels, the
graph and its memory stay the same; what differs is what the process did before. Events tell
the time here, so compare its lines with each other and with nothing else.
"""

import argparse
import ctypes
import functools
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from epcomm import reference
from epcomm.check import Check

FOLD, ROUNDS, TIMES = 8, 60, 6


@functools.cache
def driver():
    """Opened by the processes that use it, and not by the one that starts them."""
    return ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(driver(), name)(*arguments)
    if code:
        raise SystemExit(f"{name}: CUDA error {code}")


GLOBAL, RELAXED = 0, 2  # modes of a capture; PyTorch's is global


def captured(stream, body, mode=RELAXED):
    """A graph by the driver alone, of what body puts on a stream."""
    raw, graph, made = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p(), ctypes.c_void_p()
    with torch.cuda.stream(stream):
        call("cuStreamBeginCapture_v2", raw, mode)
        body()
        call("cuStreamEndCapture", raw, ctypes.byref(graph))
    call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
    call("cuGraphDestroy", graph)
    return made


class Pairs:
    """A chain of pairs in a graph, and its time."""

    def __init__(self, check, tokens, stream):
        self.check, self.ep, self.marks = check, check.ep, [torch.cuda.Event(enable_timing=True, external=True) for _ in range(3)]
        self.inputs = reference.Inputs(check.ep, 11, check.rank, tokens)
        self.out, self.where = torch.empty_like(self.inputs.x), {"fullest": tokens, "routing": 1}
        self.pair()
        torch.cuda.synchronize()
        self.graph = captured(stream, self.chain)

    def pair(self):
        i = self.inputs
        self.ep.dispatch(i.x, i.ids, i.weights, **self.where)
        self.ep.combine(self.check.y, i.ids, i.weights, out=self.out, **self.where)

    def chain(self):
        self.marks[0].record()
        self.ep.barrier()
        for _ in range(FOLD):
            self.pair()
        self.ep.barrier()
        self.marks[1].record()
        self.ep.barrier(), self.ep.barrier()
        self.marks[2].record()

    def microseconds(self):
        times = []
        for _ in range(ROUNDS):
            call("cuGraphLaunch", self.graph, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            torch.cuda.synchronize()
            times.append(self.marks[0].elapsed_time(self.marks[1]) - self.marks[1].elapsed_time(self.marks[2]))
        return sorted(times)[ROUNDS // 2] * 1e3 / FOLD


def by_pytorch(stream, body):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        body()
    return graph


def pool(stream):
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        return torch.empty(1 << 20, device="cuda")


def fill(stream):
    with torch.cuda.stream(stream):
        return torch.empty(1, dtype=torch.int64, device="cuda").fill_(1)


def run(rank, store, a):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    check = Check(argparse.Namespace(device="cuda", pack=a.pack, most=a.tokens, dtypes="fp8,bf16"), rank)
    stream, kept = torch.cuda.Stream(), []
    pairs = Pairs(check, a.tokens, stream)
    nothing = lambda: None
    some = lambda: torch.ones(8, device="cuda")
    for what, act in [
        ("nothing", lambda: None),
        ("a kernel on the capturing stream", lambda: fill(stream)),
        ("a memory pool", lambda: pool(stream)),
        ("another stream", lambda: torch.cuda.Stream()),
        ("an empty graph by the driver", lambda: captured(stream, nothing)),
        ("the same in global mode", lambda: captured(stream, nothing, GLOBAL)),
        ("a graph of pairs by the driver", lambda: captured(stream, lambda: pairs.pair())),
        ("an empty graph by PyTorch", lambda: by_pytorch(stream, nothing)),
        ("a graph with memory by PyTorch", lambda: by_pytorch(stream, some)),
    ]:
        for n in range(TIMES):
            kept.append(act())
            torch.cuda.synchronize()
            us, every = pairs.microseconds(), [None] * 2
            dist.all_gather_object(every, us)
            check.say(f"{what}, {n + 1}: {every[0]:.2f} {every[1]:.2f} us")
    del kept
    check.ep.destroy()
    dist.destroy_process_group()


def on_gpus(run, a, ranks=2):
    """run(rank, store, a) in a process for each rank; store is a file by which they meet. They are
    forked, as check's are: loading PyTorch anew takes longer than what they time."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        processes.start_processes(run, (os.path.join(folder, "store"), a), nprocs=ranks, start_method="fork")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack")
    parser.add_argument("tokens", type=int, nargs="?", default=8)
    on_gpus(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
