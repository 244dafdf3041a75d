"""The base class of libraries, and declarations of their kernels."""

import contextlib
import importlib.metadata
import os
import sys
import time

from . import payload
from .beside import HostProduct, Running, host_launches, host_round
from .session import Half, Session

def param(name, doc, values, default=None, unit="", binding="launch", cost=0):
    """Declares a parameter that changes only the time of a call. cost is the unit of its values: 1 for
    SMs, 2 for threads, 3 for bytes of buffers, 0 for none of these. Of two equally fast configs, the one
    with the lower cost wins."""
    return {"name": name, "doc": doc, "unit": unit, "values": list(values), "default": values[0] if default is None else default,
            "binding": binding, "class": "speed", "cost": cost}


# Other values of problem.mode are refused, because a round always makes calls in a row, in a CUDA graph if possible.
MODE = ('problem.mode == "graph"', "mode: workers of the harness measure only graph; leave --mode out")


def kernel(library, name, op, doc, params=(), rules=(), accepts=(), layout="", sum="", inside=()):
    """Declares a kernel. rules are pairs (expression, reason). layout is expert, expert:128, masked,
    rank or rank:packed, or a tuple of such names that differ only after the colon."""
    if op == "layer":  # callers do not see its rows
        layout, sum = "expert", ""
    layouts = list(layout) if isinstance(layout, tuple) else [layout]
    work = {"library": library.name, "version": library.version, "layout": layouts[0].partition(":")[0], "inside": list(inside)}
    if op == "combine":
        work["sum"] = sum
    return {"layouts": [one or "expert" for one in layouts], "name": name, "op": op, "doc": doc, "params": list(params), "rules": [{"expr": e, "reason": r} for e, r in [MODE, *rules]],
            "accepts": list(accepts), "work": work}


def installed_version(module, version):
    """Returns the version of a library's package or, if the package is not named like the module, `version` with the
    package, such as "1 (sgl-deep-ep 0.1.0)"."""
    for package in importlib.metadata.packages_distributions().get(module, []):
        installed = importlib.metadata.version(package)
        return installed if package.replace("-", "_") == module else "%s (%s %s)" % (version, package, installed)
    return version


class Library:
    """A communication library as one rank uses it, with rows of bytes on the host. A subclass
    implements dispatch and combine. The defaults of the other methods fit most libraries."""

    name, version = "library", "0"
    clock = "wall"
    strict = False  # whether dispatch and combine must run in turn, even if only one is measured
    layout = "rank"  # "rank": received() yields one row for each token; otherwise one row for each (token, expert)
    beside = ("gemm", "copy")  # kinds of matrix product that can run at the same time as calls; () if strict
    beside_clock = "wall"
    held = ()  # names of attributes that a dispatch sets for its combine; each micro-batch of a step has its own

    def start(self, ranks):
        """Starts the library, once. self.ranks exchanges objects with the other ranks. Import the library's
        modules here, so that epbench can name the rank on which one is missing."""
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
        """Does slow work before a run. Raise Failure("illegal", ...) for a config that cannot run."""

    def pair(self, dispatch, combine):
        """Checks a pair. Raise Failure("illegal", ...) for a combine that cannot follow a dispatch."""

    def phases(self, op, half):
        """Returns the functions (send, receive) of a dispatch or combine in two parts, between which a
        matrix product can run, or None."""
        return None

    def taken(self, half):
        """Returns the number of SMs that a dispatch or combine takes, 0 if it is unknown."""
        return 0

    def lane(self, n):
        """Makes micro-batch n of a decode step current, with the attributes that its dispatch set."""
        if n != self.micro_batch:
            self.lanes[self.micro_batch] = {name: getattr(self, name, None) for name in self.held}
            vars(self).update(self.lanes.get(n, {}))
            self.micro_batch = n

    def poison(self):
        """Overwrites every output buffer."""

    def dispatch(self, half):
        raise NotImplementedError

    def experts(self):
        """Computes the rows that combine sends from the rows that dispatch received. This is not measured."""

    def combine(self, half):
        raise NotImplementedError

    def layer(self, half):
        """Returns the steps of a whole layer as (name of the stage, function), in order. After them combined()
        returns the layer's outputs. Only libraries with kernels of op layer have this method."""
        raise NotImplementedError

    def received(self):
        """Yields (source rank, token, local experts, BF16 row) for each row that dispatch delivered to
        this rank. In layout rank a row has all local experts of the token, in the token's top-k order.
        In the other layouts it has one expert."""
        raise NotImplementedError

    def combined(self, token):
        """Returns the combined BF16 row of one of this rank's tokens."""
        raise NotImplementedError

    def close(self):
        """Frees the buffers that open allocated."""

    def empty(self):
        """Returns {clock: seconds that it reads if nothing runs}."""
        begin = time.perf_counter()
        return {self.clock: time.perf_counter() - begin}

    def session(self, params, worker):
        """Returns the session of a workload, which also checks the library's outputs."""
        return Session(self, params, worker)

    def follow(self, combine, dispatch):
        """Returns the config of the dispatch that runs before a combine, if the combine is measured alone.
        dispatch is the first dispatch that the combine accepts, with default values."""
        return dispatch

    def clock_of(self, steps):
        """Returns the name of the clock that timed(steps) uses."""
        return self.clock

    def timed(self, name, steps, rounds, fold):
        """Returns the seconds of one call in each round. A round has fold calls in a row. steps are pairs
        (measured, function), always the same for the same name. Only the time of measured steps counts. A
        barrier over the ranks precedes each measured step."""
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
        """Returns the seconds of each stage of a layer. stages are pairs (name, function), in order."""
        out = []
        for _, step in stages:
            self.ranks.barrier()
            begin = time.perf_counter()
            step()
            out.append(time.perf_counter() - begin)
        return out

    # --- rounds with a matrix product that runs at the same time as the calls ("beside" them) ---

    def product(self, size):
        """Returns the product for a beside.Size: an object such as HostProduct."""
        return HostProduct(size)

    def product_alone(self, product, rounds):
        """Returns the seconds of a product's trial alone, in each round."""
        return [host_launches(product, product.trial) for _ in range(rounds)]

    def choose_plans(self, beside):
        """Chooses, for each product with several plans, the plan that is fastest alone."""

    def beside_rounds(self, plan, rounds, fold):
        """Returns a dict with the names of beside.FIELDS for each round, in seconds of one call."""
        return [host_round(self, plan, fold) for _ in range(rounds)]

    def planned_for(self, plan):
        """Returns a text about the SMs for which the product is planned beside the calls, or ""."""
        return ""

    @contextlib.contextmanager
    def accompanied(self, beside):
        """Runs the session's product during a with block. beside is the session's Beside, or None without a
        product. Yields a function that must be called before each step."""
        running = beside and Running(beside.product)
        if running:
            running.start()
        try:
            yield lambda: None
        finally:
            if running:
                running.stop()

    def local_row(self, row, experts, weights):
        """Returns the weighted sum of the local experts for a row. Combine adds these sums of all ranks."""
        return payload.weighted([payload.expert_row(row, e) for e in experts], weights)
