"""What a pair takes in one process, by the way its graph is made: pair_graphs.py PACK [TOKENS] [DTYPE]

Two processes, a GPU each, lay out a round as `python -m epcomm check` does, and replay it as

    pytorch        check's own: captured, instantiated and replayed by PyTorch
    no flags       captured by PyTorch, instantiated with no flags, replayed by the driver
    auto free      the same with the flag AUTO_FREE_ON_LAUNCH
    priorities     the same with the flag USE_NODE_PRIORITY
    driver         captured by the driver, too
    eight          as pytorch, with eight pairs in a round

All take turns. What `eight` saves over `pytorch` is a cost of a round and not of a pair. Each
line is the slowest rank's microseconds of a pair, the median of rounds, by turn.
"""

import argparse
import ctypes
import sys

import torch
import torch.distributed as dist
from epcomm import check, reference
from fourth_graph import RELAXED, call, captured, on_two_gpus

ROUNDS, TURNS, WARM = 60, 5, 2000
AUTO_FREE, PRIORITIES = 1, 8  # CUgraphInstantiate_flags


class Round:
    """One round of pairs, as a graph of PyTorch's."""

    def __init__(self, pairs, fold, keep=False):
        self.ep, self.pair, self.fold = pairs.ep, pairs.pair, fold
        self.stamps = torch.zeros(3, dtype=torch.int64, device="cuda")
        self.graph = torch.cuda.CUDAGraph(keep_graph=keep)
        with torch.cuda.graph(self.graph):
            self.body()

    def body(self):
        self.ep.barrier()
        self.ep.stamp(self.stamps[0])
        for _ in range(self.fold):
            self.pair()
        self.ep.barrier()
        self.ep.stamp(self.stamps[1])
        self.ep.barrier()
        self.ep.stamp(self.stamps[2])

    def replay(self):
        self.graph.replay()


class Flagged(Round):
    """Captured by PyTorch, instantiated with given flags."""

    def __init__(self, pairs, flags):
        super().__init__(pairs, 2, keep=True)
        self.made = ctypes.c_void_p()
        call("cuGraphInstantiateWithFlags", ctypes.byref(self.made), ctypes.c_void_p(self.graph.raw_cuda_graph()), ctypes.c_ulonglong(flags))

    def replay(self):
        call("cuGraphLaunch", self.made, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))


class Driver(Flagged):
    """Captured and instantiated without PyTorch."""

    def __init__(self, pairs):
        self.ep, self.pair, self.fold = pairs.ep, pairs.pair, 2
        self.stamps = torch.zeros(3, dtype=torch.int64, device="cuda")
        self.made = captured(torch.cuda.Stream(), self.body, RELAXED)


class Pairs:
    def __init__(self, c, tokens, dtype):
        self.c, self.ep = c, c.ep
        self.inputs = reference.Inputs(c.ep, 11, c.rank, tokens)
        self.out, self.where = torch.empty_like(self.inputs.x), {"fullest": tokens, "dtype": dtype, "routing": 0}
        self.pair(), c.ep.barrier()
        torch.cuda.synchronize()

    def pair(self):
        i = self.inputs
        self.ep.dispatch(i.x, i.ids, i.weights, **self.where)
        self.ep.combine(self.c.y, i.ids, i.weights, out=self.out, **self.where)

    def microseconds(self, r):
        kept = torch.empty((ROUNDS, 3), dtype=torch.int64, device="cuda")
        for of_round in kept:
            r.replay()
            of_round.copy_(r.stamps)
        self.c.sync()
        mine = [((alone - start) - (end - alone)) / 1e3 / r.fold for start, alone, end in kept.tolist()]
        return sorted(max(of) for of in zip(*check._everyone(self.c, mine)))[ROUNDS // 2]


def run(rank, store, a):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    c = check.Check(argparse.Namespace(device="cuda", pack=a.pack, most=a.tokens, dtypes=a.dtype, calls=0, replays=0), rank)
    pairs = Pairs(c, a.tokens, c.dtypes[0])
    rounds = {"pytorch": Round(pairs, 2), "no flags": Flagged(pairs, 0), "auto free": Flagged(pairs, AUTO_FREE),
              "priorities": Flagged(pairs, PRIORITIES), "driver": Driver(pairs), "eight": Round(pairs, 8)}
    for _ in range(WARM):
        rounds["pytorch"].replay()
    c.sync()
    flags = ctypes.c_ulonglong()
    call("cuGraphExecGetFlags", ctypes.c_void_p(rounds["pytorch"].graph.raw_cuda_graph_exec()), ctypes.byref(flags))
    c.say(f"PyTorch {torch.__version__} instantiates with flags {flags.value}")
    for turn in range(TURNS):
        for name, r in rounds.items():
            c.say(f"{a.dtype} {a.tokens} tokens, turn {turn + 1}, {name:10} {pairs.microseconds(r):7.2f} us")
    if c.ep.fault():
        raise SystemExit(c.ep.fault().text.decode())
    c.ep.destroy()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack")
    parser.add_argument("tokens", type=int, nargs="?", default=8)
    parser.add_argument("dtype", nargs="?", default="bf16", choices=("bf16", "fp8"))
    on_two_gpus(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
