"""Defines the base class for communication libraries, and functions that declare their kernels."""

import contextlib
import os
import sys
import time

from . import payload
from .beside import HostProduct, Running, host_launches, host_round
from .session import Half, Session

def param(name, doc, values, default=None, unit="", binding="launch", cost=0):
    """Declares a parameter that changes only the time of a call. `cost` says what a larger value costs: 1 stands for
    SMs, 2 for threads, 3 for bytes of buffers and 0 for nothing. Of two equally fast configs, the cheaper one wins."""
    return {"name": name, "doc": doc, "unit": unit, "values": list(values), "default": values[0] if default is None else default,
            "binding": binding, "class": "speed", "cost": cost}


# A rule of every kernel: it allows only the mode graph, because a round of the harness replays a graph of calls.
MODE = ('problem.mode == "graph"', "mode: workers of the harness measure only graph; leave --mode out")


def kernel(library, name, op, doc, params=(), rules=(), accepts=(), layout="", sum="", inside=()):
    """Declares a kernel. `rules` holds pairs (expression, reason); a config is illegal if an expression is false.
    `layout` is expert, expert:128, masked, rank or rank:packed. It may be a tuple of layouts that have the same word
    before the colon."""
    if op == "layer":
        layout, sum = "expert", ""
    layouts = list(layout) if isinstance(layout, tuple) else [layout]
    work = {"library": library.name, "version": library.version, "layout": layouts[0].partition(":")[0], "inside": list(inside)}
    if op == "combine":
        work["sum"] = sum
    return {"layouts": [one or "expert" for one in layouts], "name": name, "op": op, "doc": doc, "params": list(params), "rules": [{"expr": e, "reason": r} for e, r in [MODE, *rules]],
            "accepts": list(accepts), "work": work}


def installed_version(module, version):
    """Returns the version of a module. If the package that installed the module has a different name, it returns a
    text such as "1 (sgl-deep-ep 0.1.0)": the argument `version`, then the package's name and version."""
    import importlib.metadata  # here, because it takes longer than all other imports together

    for package in importlib.metadata.packages_distributions().get(module, []):
        installed = importlib.metadata.version(package)
        return installed if package.replace("-", "_") == module else "%s (%s %s)" % (version, package, installed)
    return version


class Library:
    """One rank's use of a communication library. In this base class rows are bytes on the host. A subclass implements
    dispatch and combine."""

    name, version = "library", "0"
    clock = "wall"
    strict = False  # dispatch and combine must alternate
    layout = "rank"  # "rank": one row for each token; any other layout: one for each (token, expert)
    beside = ("gemm", "copy")  # products that can run at the same time as calls
    beside_clock = "wall"
    held = ()  # attributes that a dispatch sets for its combine

    def start(self, ranks):
        """Starts the library. It is called once. self.ranks exchanges objects with the other ranks. A subclass must
        import the library here. If the import fails, epbench can then name the rank."""
        self.ranks, self.rank = ranks, ranks.rank

    def kernels(self):
        raise NotImplementedError

    def machine(self):
        return {"backend": self.name, "name": "host", "pci_id": "", "arch": sys.platform, "sms": os.cpu_count() or 1,
                "memory_bytes": 0, "gpus": 0, "link": "", "driver": "", "cuda": ""}

    def open(self, work):
        """Allocates buffers for the tokens and routing of `work`, a session.Work."""
        self.work = work

    def prepare(self, half):
        """Does slow work before a run. Raises Failure("illegal", ...) for a config that cannot run."""

    def pair(self, dispatch, combine):
        """Raises Failure("illegal", ...) if this combine cannot follow this dispatch."""

    def phases(self, op, half):
        """Returns two functions, which send and receive a dispatch or combine. A product can run between them.
        Returns None if the op has no such functions."""
        return None

    def taken(self, half):
        """Returns the number of SMs that a dispatch or combine uses, or 0 if it is unknown."""
        return 0

    def lane(self, n):
        """Makes the next calls belong to micro-batch n of a decode step: it exchanges the attributes in `held`."""
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
        """Returns the steps of a layer as pairs (stage, function). When the steps have run, combined() returns the
        layer's outputs. Only libraries with kernels of op layer have this method."""
        raise NotImplementedError

    def received(self):
        """Yields (source rank, token, local experts, BF16 row) for each received row. In layout rank a row has all
        local experts of its token, in top-k order. In any other layout it has one expert."""
        raise NotImplementedError

    def combined(self, token):
        raise NotImplementedError

    def close(self):
        pass

    def empty(self):
        """Returns, for the library's clock, how many seconds it measures if nothing runs."""
        begin = time.perf_counter()
        return {self.clock: time.perf_counter() - begin}

    def session(self, params, worker):
        return Session(self, params, worker)

    def follow(self, combine, dispatch):
        """Returns the config of the dispatch that runs before a combine if only the combine is measured. `dispatch`
        is the default config of the first dispatch kernel that the combine accepts."""
        return dispatch

    def clock_of(self, steps):
        """Returns the name of the clock that timed(steps) reads."""
        return self.clock

    def timed(self, name, steps, rounds, fold):
        """Runs rounds of `fold` calls, and returns for each round the seconds of one call. `steps` holds pairs
        (measured, function). Whenever the caller passes the same name, it must pass the same steps. A barrier
        precedes each measured step."""
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
        """Returns the seconds of each stage of a layer. `stages` holds pairs (name, function)."""
        out = []
        for _, step in stages:
            self.ranks.barrier()
            begin = time.perf_counter()
            step()
            out.append(time.perf_counter() - begin)
        return out

    # --- rounds beside a matrix product ---

    def product(self, size):
        """Returns an object that computes a matrix product of this size, such as a HostProduct."""
        return HostProduct(size)

    def product_alone(self, product, rounds):
        """Returns the seconds of a trial of the product, without calls, in each round."""
        return [host_launches(product, product.trial) for _ in range(rounds)]

    def choose_plans(self, beside):
        """Chooses for each product the plan that is fastest while no calls run."""

    def beside_rounds(self, plan, rounds, fold):
        """Returns a dict of the times beside.FIELDS for each round, in seconds a call."""
        return [host_round(self, plan, fold) for _ in range(rounds)]

    def planned_for(self, plan):
        """Returns a text about the SMs for which the product is planned, or "" for all SMs."""
        return ""

    @contextlib.contextmanager
    def accompanied(self, beside):
        """Runs the session's product, if there is one, during a with block. Yields a function that the caller must
        call before each step."""
        running = beside and Running(beside.product)
        if running:
            running.start()
        try:
            yield lambda: None
        finally:
            if running:
                running.stop()

    def local_row(self, row, experts, weights):
        return payload.weighted([payload.expert_row(row, e) for e in experts], weights)
