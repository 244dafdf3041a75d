"""The base class of libraries, and declarations of their kernels."""

import contextlib
import os
import sys
import time

from . import payload
from .beside import HostProduct, Running, host_launches, host_round
from .session import Half, Session

def param(name, doc, values, default=None, unit="", binding="launch", cost=0):
    """Declares a parameter that changes time only. When times tie, cost says which value is
    smaller: 1 compares SMs, 2 threads, 3 bytes of buffers."""
    return {"name": name, "doc": doc, "unit": unit, "values": list(values), "default": values[0] if default is None else default,
            "binding": binding, "class": "speed", "cost": cost}


# Rounds do not depend on problem.mode: they are calls in a row, in a CUDA graph where that is
# possible.
MODE = ('problem.mode == "graph"', "mode: workers of the harness measure graph alone; leave --mode out")


def kernel(library, name, op, doc, params=(), rules=(), accepts=(), layout="", sum="", inside=()):
    """Declares a kernel. rules are pairs (expression, reason); layout is expert,
    expert:128, masked, rank or rank:packed."""
    work = {"library": library.name, "version": library.version, "layout": layout.partition(":")[0], "inside": list(inside)}
    if op == "combine":
        work["sum"] = sum
    return {"layouts": [layout or "expert"], "name": name, "op": op, "doc": doc, "params": list(params), "rules": [{"expr": e, "reason": r} for e, r in [MODE, *rules]],
            "accepts": list(accepts), "work": work}


class Library:
    """One rank's side of a library, for rows of bytes on the host. A subclass moves rows in
    dispatch and combine; the other methods have defaults that fit most libraries."""

    name, version = "library", "0"
    clock = "wall"
    strict = False  # dispatch and combine must take turns, even where one is measured alone
    layout = "rank"  # rows that received() yields: one a (source rank, token), or one an expert too
    beside = ("gemm", "copy")  # kinds of product that may run beside calls; () where halves have to take turns
    beside_clock = "wall"
    held = ()  # names of attributes that a dispatch leaves for its combine, one set for each micro-batch of a step

    def start(self, ranks):
        """Called once; self.ranks exchanges objects with the other ranks. Import what may be
        missing here: epbench then hears which rank lacks it."""
        self.ranks, self.rank = ranks, ranks.rank

    def kernels(self):
        raise NotImplementedError

    def machine(self):
        return {"backend": self.name, "name": "host", "pci_id": "", "arch": sys.platform, "sms": os.cpu_count() or 1,
                "memory_bytes": 0, "gpus": 0, "link": "", "driver": "", "cuda": ""}

    def open(self, work):
        """Allocates buffers for one workload, a session.Work."""
        self.work = work

    def prepare(self, half):
        """Does slow work ahead of a run. Raise Failure("illegal", ...) for what cannot run."""

    def pair(self, dispatch, combine):
        """Checks a pair. Raise Failure("illegal", ...) for a combine that cannot follow a dispatch."""

    def phases(self, op, half):
        """Returns (send, receive) of a dispatch or combine that has two parts, between which a
        product can run, or None."""
        return None

    def taken(self, half):
        """Returns the SMs that a half takes, 0 where it is unknown."""
        return 0

    def lane(self, n):
        """Makes micro-batch n of a step the current one: restores what its dispatch left."""
        if n != self.micro_batch:
            self.lanes[self.micro_batch] = {name: getattr(self, name, None) for name in self.held}
            vars(self).update(self.lanes.get(n, {}))
            self.micro_batch = n

    def poison(self):
        """Overwrites every output buffer."""

    def dispatch(self, half):
        raise NotImplementedError

    def experts(self):
        """Computes from what dispatch received what combine sends; outside the time."""

    def combine(self, half):
        raise NotImplementedError

    def received(self):
        """Yields (source rank, token, local experts, BF16 row) of what dispatch delivered
        here. Layout rank has all local experts of a token in one row, in the order of its
        top-k; the others have one expert a row."""
        raise NotImplementedError

    def combined(self, token):
        """Returns the BF16 row that combine made for one of this rank's tokens."""
        raise NotImplementedError

    def close(self):
        """Frees what open allocated."""

    def empty(self):
        """Returns the clock's reading of nothing, in seconds."""
        begin = time.perf_counter()
        return {self.clock: time.perf_counter() - begin}

    def session(self, params, worker):
        """Returns the session that checks a workload's answers."""
        return Session(self, params, worker)

    def follow(self, combine, dispatch):
        """Returns the dispatch that runs before a combine measured alone; dispatch is the first
        one that the combine accepts, with default values."""
        return dispatch

    def clock_of(self, steps):
        """Returns the name of the clock that timed(steps) uses."""
        return self.clock

    def timed(self, name, steps, rounds, fold):
        """Returns the seconds of one call in each round of fold calls in a row. Only paid steps
        count. steps are (paid, function), the same whenever name is the same; ranks are
        aligned before each paid one."""
        out = []
        for _ in range(rounds):
            seconds = 0.0
            for _ in range(fold):
                for paid, step in steps:
                    if paid:
                        self.ranks.barrier()
                    begin = time.perf_counter()
                    step()
                    seconds += (time.perf_counter() - begin) * paid
            out.append(seconds / fold)
        return out

    # --- beside a product ---

    def product(self, size):
        """Returns what multiplies or copies beside calls, for a beside.Size."""
        return HostProduct(size)

    def product_alone(self, product, rounds):
        """Returns the seconds of a product's trial alone, by round."""
        return [host_launches(product, product.trial) for _ in range(rounds)]

    def choose_plans(self, beside):
        """Chooses for each product the plan that is fastest alone, where there are several."""

    def beside_rounds(self, plan, rounds, fold):
        """Returns readings of rounds by the names of beside.FIELDS, in seconds of one call."""
        return [host_round(self, plan, fold) for _ in range(rounds)]

    def planned_for(self, plan):
        """Says how the product is planned beside the calls, or nothing."""
        return ""

    @contextlib.contextmanager
    def accompanied(self, beside):
        """Runs the product meanwhile; beside may be None. Yields a function to call before each
        step."""
        running = beside and Running(beside.product)
        if running:
            running.start()
        try:
            yield lambda: None
        finally:
            if running:
                running.stop()

    def local_row(self, row, experts, weights):
        """Returns the weighted sum of the local experts for a row. The sum over ranks completes
        it."""
        return payload.weighted([payload.expert_row(row, e) for e in experts], weights)
