"""The base class of libraries, and declarations of their kernels."""

import contextlib
import os
import sys
import time

from . import payload
from .beside import HostProduct, Running, host_launches, host_round
from .session import Half, Session

def param(name, doc, values, default=None, unit="", binding="launch", cost=0):
    """Declares a parameter that changes only the time of a call. cost is the unit of its values: 1 for SMs, 2 for
    threads, 3 for bytes of buffers, 0 for none of these. Of two equally fast configs, the one with the lower cost
    wins."""
    return {"name": name, "doc": doc, "unit": unit, "values": list(values), "default": values[0] if default is None else default,
            "binding": binding, "class": "speed", "cost": cost}


# Each kernel has this rule. It refuses every mode but graph, because a round of the harness replays a graph of calls.
MODE = ('problem.mode == "graph"', "mode: workers of the harness measure only graph; leave --mode out")


def kernel(library, name, op, doc, params=(), rules=(), accepts=(), layout="", sum="", inside=()):
    """Declares a kernel. rules are pairs (expression, reason). layout is expert, expert:128, masked, rank or
    rank:packed, or a tuple of several that have the same word before the colon."""
    if op == "layer":
        layout, sum = "expert", ""
    layouts = list(layout) if isinstance(layout, tuple) else [layout]
    work = {"library": library.name, "version": library.version, "layout": layouts[0].partition(":")[0], "inside": list(inside)}
    if op == "combine":
        work["sum"] = sum
    return {"layouts": [one or "expert" for one in layouts], "name": name, "op": op, "doc": doc, "params": list(params), "rules": [{"expr": e, "reason": r} for e, r in [MODE, *rules]],
            "accepts": list(accepts), "work": work}


def installed_version(module, version):
    """Returns the version of a module. If the module's package has another name, returns `version` with the
    package's name and version: "1 (sgl-deep-ep 0.1.0)"."""
    import importlib.metadata  # here, because it takes longer than all other imports together

    for package in importlib.metadata.packages_distributions().get(module, []):
        installed = importlib.metadata.version(package)
        return installed if package.replace("-", "_") == module else "%s (%s %s)" % (version, package, installed)
    return version


class Library:
    """A communication library as one rank uses it, with rows of bytes on the host. A subclass implements dispatch and
    combine."""

    name, version = "library", "0"
    clock = "wall"
    strict = False  # dispatch and combine must run in turn
    layout = "rank"  # "rank": a row for each token; else for each (token, expert)
    beside = ("gemm", "copy")  # products that can run beside calls; () if strict
    beside_clock = "wall"
    held = ()  # attributes that a dispatch sets for its combine

    def start(self, ranks):
        """Starts the library, once. self.ranks exchanges objects with the other ranks. Import the library here, so
        that epbench can name the rank on which it is missing."""
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
        """Does slow work before a run. Raises Failure("illegal", ...) for a config that cannot run."""

    def pair(self, dispatch, combine):
        """Raises Failure("illegal", ...) for a combine that cannot follow a dispatch."""

    def phases(self, op, half):
        """Returns (send, receive) of an op, between which a product can run, or None."""
        return None

    def taken(self, half):
        """Returns the SMs of an op, 0 if unknown."""
        return 0

    def lane(self, n):
        """Makes micro-batch n of a decode step current."""
        if n != self.micro_batch:
            self.lanes[self.micro_batch] = {name: getattr(self, name, None) for name in self.held}
            vars(self).update(self.lanes.get(n, {}))
            self.micro_batch = n

    def poison(self):
        pass

    def dispatch(self, half):
        raise NotImplementedError

    def experts(self):
        """Computes the rows that combine sends. This is not measured."""

    def combine(self, half):
        raise NotImplementedError

    def layer(self, half):
        """Returns the steps of a layer as (stage, function). After them combined() returns its outputs. Only
        libraries with kernels of op layer have this method."""
        raise NotImplementedError

    def received(self):
        """Yields (source rank, token, local experts, BF16 row) for each received row. In layout rank a row has all
        local experts of its token, in top-k order; otherwise it has one."""
        raise NotImplementedError

    def combined(self, token):
        raise NotImplementedError

    def close(self):
        pass

    def empty(self):
        """Returns {clock: seconds that it reads if nothing runs}."""
        begin = time.perf_counter()
        return {self.clock: time.perf_counter() - begin}

    def session(self, params, worker):
        return Session(self, params, worker)

    def follow(self, combine, dispatch):
        """Returns the config of the dispatch before a combine that is measured alone. `dispatch` is the first kernel
        that the combine accepts, with default values."""
        return dispatch

    def clock_of(self, steps):
        """Returns the clock of timed(steps)."""
        return self.clock

    def timed(self, name, steps, rounds, fold):
        """Returns the seconds of one call in each round of fold calls. steps are pairs (measured, function), always
        the same for a name. A barrier precedes each measured step."""
        out = []
        for _ in range(rounds):
            seconds = 0.0
            for _ in range(fold):
                for measured, step in steps:
                    if measured:
                        self.ranks.barrier()
                    begin = time.perf_counter()
                    step()
                    seconds += (time.perf_counter() - begin) * measured
            out.append(seconds / fold)
        return out

    def staged(self, name, stages):
        """Returns the seconds of each stage of a layer. stages are pairs (name, function)."""
        out = []
        for _, step in stages:
            self.ranks.barrier()
            begin = time.perf_counter()
            step()
            out.append(time.perf_counter() - begin)
        return out

    # --- rounds beside a matrix product ---

    def product(self, size):
        """Returns the product for a beside.Size, such as HostProduct."""
        return HostProduct(size)

    def product_alone(self, product, rounds):
        """Returns the seconds of a product's trial alone."""
        return [host_launches(product, product.trial) for _ in range(rounds)]

    def choose_plans(self, beside):
        """Chooses, for each product, the plan that is fastest alone."""

    def beside_rounds(self, plan, rounds, fold):
        """Returns beside.FIELDS for each round, in seconds of one call."""
        return [host_round(self, plan, fold) for _ in range(rounds)]

    def planned_for(self, plan):
        """Returns a text about the SMs of the product's plan, or ""."""
        return ""

    @contextlib.contextmanager
    def accompanied(self, beside):
        """Runs the session's product, if any, during a with block. Yields a function to call before each step."""
        running = beside and Running(beside.product)
        if running:
            running.start()
        try:
            yield lambda: None
        finally:
            if running:
                running.stop()

    def local_row(self, row, experts, weights):
        """Returns a row's weighted sum over local experts."""
        return payload.weighted([payload.expert_row(row, e) for e in experts], weights)
