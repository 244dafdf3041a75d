"""Defines the base class for communication libraries that move PyTorch tensors. With EPBENCH_DEVICE=cpu no GPU is
needed: ranks communicate over gloo, and the host's clock measures.
"""

import contextlib
import os
import socket
import subprocess
from statistics import median

import torch
import torch.distributed as dist

from .capture import Graphs
from .gpu_beside import GRAPH_SLEEP, GPUBeside
from .judge import GPUSession
from .streams import Streams
from .tensors import dequantized, gain, quantized, tokens

LEAST_CALLS = 20  # calls in a sample, so that its two events take less than 1 % of the time
MANY_TOKENS = 1024  # with at least this many tokens, a sample has only LONG_CALLS calls
LONG_CALLS = 4
SLEEP = 200_000  # GPU clocks, about 100 us; the GPU waits so long while the host queues a round without a graph
DECOY = 1 << 63  # this bit of the seed is inverted to draw the tokens of decoy()


def tensors_of(thing):
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from tensors_of(part)


def overwrite(t):
    """Fills a tensor with NaN, or -1 for integers."""
    return t.fill_(float("nan") if t.is_floating_point() else -1)


class GPULibrary(GPUBeside):
    """One rank on one GPU. A subclass defines rows(), which returns four tensors that describe the received rows:
    source ranks, tokens, experts, and the rows themselves. With n rows, `experts` is [n]. In layout rank `experts` is
    a pair (experts, weights), both [n, top-k] in the order of selection, with -1 for an expert of another rank.
    Combine leaves the combined tokens in self.out."""

    clock, arch = "chain", ""
    # Names of attributes that a call writes. A verification first overwrites those in `written`. It does not
    # overwrite those in `read_again`, because the calls in a captured graph read them.
    written, read_again = (), ()

    def start(self, ranks):
        super().start(ranks)
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        cpu = os.environ.get("EPBENCH_DEVICE") == "cpu"
        self.device = torch.device("cpu") if cpu else torch.device("cuda", ranks.local_rank)
        if cpu:
            self.clock = "wall"
        else:
            torch.cuda.set_device(self.device)
        store = dist.TCPStore(*self._store(), ranks.ranks, is_master=ranks.rank == 0)
        dist.init_process_group("gloo" if cpu else "nccl", store=store, rank=ranks.rank, world_size=ranks.ranks)
        self.group = dist.group.WORLD
        self.flag, self.graphs = torch.zeros(1, device=self.device), Graphs(torch.cuda, ranks)
        self.streams = None if cpu else Streams(torch.cuda)
        self.beside, self.beside_clock = self.besides(), "wall" if cpu else "stamp"

    def _store(self):
        """Returns the host and port that rank 0 chose for a TCPStore."""
        with socket.socket() as s:
            s.bind(("", 0))
            port = s.getsockname()[1]
        return self.ranks.share((self.ranks.address(), port) if self.rank == 0 else None)

    def machine(self):
        if self.device.type == "cpu":
            return super().machine()
        p = torch.cuda.get_device_properties(self.device)
        ask = ["nvidia-smi", "--query-gpu=pci.device_id,driver_version", "--format=csv,noheader", "-i", "0"]
        pci, driver = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=30).stdout.strip().split(", ")
        n = torch.cuda.device_count()
        joined = n > 1 and torch.cuda.can_device_access_peer(0, 1)
        return {"backend": self.name, "name": p.name, "pci_id": ("%s:%s" % (pci[6:], pci[2:6])).lower(), "arch": "sm_%d%d" % (p.major, p.minor),
                "sms": p.multi_processor_count, "memory_bytes": p.total_memory, "gpus": n, "link": "peer" if joined else "none",
                "driver": driver, "cuda": torch.version.cuda or ""}

    def multiprocessors(self):
        return torch.cuda.get_device_properties(self.device).multi_processor_count if self.device.type == "cuda" else 0

    def open(self, work):
        super().open(work)
        fit = [self._of(work, r) for r in range(work.ranks)]
        self.all_ids, self.all_weights = [i for i, _ in fit], [w for _, w in fit]
        self.ids, self.weights = fit[self.rank]
        self.x = tokens(work.seed, self.rank, work.tokens, work.hidden, self.device)
        self.fp8 = work.problem["dispatch"] == "fp8"
        if self.fp8:
            self.q, self.scales = quantized(self.x)
        self.out, self.kept = torch.zeros_like(self.x), None

    def _of(self, work, rank):
        """Returns the expert ids and the weights of a rank's tokens. Both are [tokens, top-k]."""
        ids, weights = (torch.frombuffer(bytearray(b or b"\0\0\0\0"), dtype=t)[:work.counts[rank] * work.topk].view(-1, work.topk).to(self.device)
                        for b, t in zip(work.bytes[rank], (torch.int32, torch.float32)))
        return ids.long(), weights.contiguous()

    @contextlib.contextmanager
    def decoy(self):
        """Replaces the values of this rank's tokens during a with block. The tensors stay at their addresses, which
        libraries and graphs have stored."""
        inputs = (self.x, self.q, self.scales) if self.fp8 else (self.x,)
        mine = [t.clone() for t in inputs]
        x = tokens(self.work.seed ^ DECOY, self.rank, self.work.tokens, self.work.hidden, self.device)
        try:
            for t, other in zip(inputs, (x, *quantized(x)) if self.fp8 else (x,)):
                t.copy_(other)
            yield
        finally:
            for t, own in zip(inputs, mine):
                t.copy_(own)

    def poison(self):
        """Overwrites the outputs of earlier calls, and memory that was freed recently. So a library that writes
        nothing cannot pass a verification with old rows."""
        old, kept = (list(tensors_of([getattr(self, name, None) for name in names]))
                     for names in (("out",) + self.written, self.read_again))
        for t in old:
            overwrite(t)
        freed = [overwrite(torch.empty_like(t)) for t in old + kept]
        del freed
        self.settle()  # after the next barrier another rank may write to this memory

    def seen(self, rank):
        """Returns a rank's tokens with the values that an expert receives: in FP8 they were rounded."""
        if self.kept is None or self.kept[0] != rank:
            self.kept = (rank, self._seen(rank))
        return self.kept[1]

    def _seen(self, rank):
        x = tokens(self.work.seed, rank, self.work.counts[rank], self.work.hidden, self.device)
        return dequantized(*quantized(x)) if self.fp8 else x

    def session(self, params, worker):
        return GPUSession(self, params, worker)

    def close(self):
        self.graphs.forget()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def rows(self):
        raise NotImplementedError

    def rank_experts(self, rows, experts, weights):
        """Computes the experts of layout rank: for each row, the weighted sum of the outputs of its experts on this
        rank. `experts` is [n, k], with -1 for an expert of another rank."""
        y = torch.zeros(rows.shape, device=self.device)
        for k in range(experts.shape[1]):
            e = experts[:, k]
            here = (e >= 0).float() * weights[:, k].masked_fill(e < 0, 0)
            y += here[:, None] * (rows.float() * gain(e)[:, None]).to(torch.bfloat16).float()
        return y.to(torch.bfloat16)

    def settle(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    # --- clocks ---

    def empty(self):
        if self.device.type == "cpu":
            return super().empty()
        return {self.clock: sorted(self._between(lambda: None) for _ in range(20))[10] / LEAST_CALLS}

    def timed(self, name, steps, rounds, fold):
        if self.device.type == "cpu":
            return super().timed(name, steps, rounds, fold)
        calls, measured = self.calls_of(fold), [step for measured, step in steps if measured]
        if self.alternating(steps):
            return self._alternate(name, steps, rounds, calls)
        apart = [self.between] if self.between and len(measured) == 1 else []

        def make():
            for _, step in steps:  # untimed: makes data that the timed steps read
                step()
            return self._chain(measured + apart, calls), apart and self._chain(apart, calls), list(vars(self).values())

        go, rest, _ = self.graphs.get((name, calls), make)
        out = []
        for _ in range(rounds):
            self.ranks.barrier()
            self.before_round()
            seconds = self._between(go) - (self._between(rest) if rest else 0)
            out.append(max(seconds / calls, 1e-9))
        return out

    def calls_of(self, fold):
        """Returns the number of calls in a round. It is a multiple of `fold`, and at least LEAST_CALLS, or LONG_CALLS
        if calls have many tokens."""
        least = LONG_CALLS if max(self.work.counts) >= MANY_TOKENS else LEAST_CALLS
        return fold * -(-least // fold)

    def alternating(self, steps):
        """Returns True if the library must alternate dispatch and combine, but only one of them is measured."""
        return self.strict and [measured for measured, _ in steps].count(True) == 1

    def clock_of(self, steps):
        return "event" if self.alternating(steps) and self.device.type == "cuda" else self.clock

    def _alternate(self, name, steps, rounds, calls):
        """Measures dispatch or combine in a graph in which the two alternate. It subtracts the time that an event
        takes."""
        def make():
            for _, step in steps:
                step()
            event = lambda: torch.cuda.Event(enable_timing=True, external=True)
            marks, turn = [(event(), event(), event()) for _ in range(calls)], [s for s in steps if s[1] != self.experts]

            def run():
                for mark in marks:
                    for measured, step in turn:
                        if measured:
                            mark[0].record()
                            mark[1].record()
                        step()
                        if measured:
                            mark[2].record()

            return self.graphs.capture(run), marks, list(vars(self).values())

        go, marks, _ = self.graphs.get((name, calls), make)
        out = []
        for _ in range(rounds):
            self.ranks.barrier()
            self.before_round()
            self._between(go)
            ms = sum(b.elapsed_time(c) - a.elapsed_time(b) for a, b, c in marks)
            out.append(max(ms * 1e-3 / calls, 1e-9))
        return out

    def staged(self, name, stages):
        """Returns the seconds of each stage. The stages run in a graph with events between them. The time that an
        event takes is subtracted."""
        if self.device.type == "cpu":
            return super().staged(name, stages)
        calls = self.calls_of(1)

        def make():
            event = lambda: torch.cuda.Event(enable_timing=True, external=True)
            marks = [[event() for _ in range(len(stages) + 2)] for _ in range(calls)]

            def run():
                for before, *after in marks:
                    before.record()
                    after[0].record()
                    for (_, step), mark in zip(stages, after[1:]):
                        step()
                        mark.record()

            return self.graphs.capture(run) if self.clock == "chain" else run, marks

        go, marks = self.graphs.get((name, "stages"), make)
        self.ranks.barrier()
        self.before_round()
        self._between(go)
        own = median(m[0].elapsed_time(m[1]) for m in marks)
        return [max(median(m[i + 1].elapsed_time(m[i + 2]) for m in marks) - own, 0) * 1e-3 for i in range(len(stages))]

    # If a library cannot make the same call twice in a row, its subclass defines the method `between`. The method runs
    # between two equal calls, and its time is subtracted.
    between = None

    def before_round(self):
        """Does untimed work before a measured round."""

    def _chain(self, measured, calls):
        """Returns a function that makes `calls` calls. It replays a CUDA graph of them. If calls of the library
        cannot be captured, it makes them one by one."""
        def run():
            for _ in range(calls):
                for step in measured:
                    step()

        return self.graphs.capture(run) if self.clock == "chain" else run

    def _between(self, go):
        """Returns the seconds between an event before go() and an event after it. Before the first event the GPU
        sleeps, so that the host can queue everything meanwhile. A graph that is launched too late would add up to
        100 us to a round."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(GRAPH_SLEEP if self.clock == "chain" else SLEEP)
        dist.all_reduce(self.flag)
        begin.record()
        go()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3
