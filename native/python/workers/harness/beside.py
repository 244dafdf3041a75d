"""Measures calls while a matrix product runs at the same time. This is what "beside" means. This module runs the
product on the host, and gpu_beside.py runs it on a GPU. The page "What does a call cost the computation that runs
with it?" of epbench's repository explains the measurement."""

import collections
import math
import operator
import threading
import time

from .protocol import Failure

FIELDS = ("call", "product", "both", "call_in", "product_in", "done")
OUTLASTS = 2  # the product takes this many times as long as the call
LEAST_BATCH = 8  # experts in one launch; with fewer, SMs would be idle
LEAST = 100e-9  # seconds; a smaller or negative difference of two times is noise, and counts as this
HELD = 0.25  # seconds; longest time for which a product may keep calls waiting for SMs
SIZING = 5  # rounds for timing a call or a product
TAKEN = (16, 32, 48, 64)  # SMs of typical calls; for each there is a plan of the product for all SMs but these
PLAN_MARGIN = 0.01  # fraction by which a plan for fewer SMs must be faster
HOST_TRIAL = 32  # launches of a trial
HOST_COLUMNS = 16  # columns of the result in one launch
HOST_BYTES = 1 << 22  # bytes of one matrix

# The size of a product: M, N and K for one expert, and `groups`, the number of experts.
Size = collections.namedtuple("Size", "kind m n k dtype groups")

# A dispatch or a combine as functions that run it. `whole` runs it at once. `phases` is a pair that sends and then
# receives, or None if one kernel does both.
Part = collections.namedtuple("Part", "whole phases")

# What a round with a product runs. `steps` is the argument of Library.timed. `parts` has the call's Parts in the
# order of their run. `taken` is the number of SMs that a call uses, or 0 if it is unknown.
Plan = collections.namedtuple("Plan", "name steps parts beside taken")


def size_of(text):
    """Returns the Size for gemm:M,N,K,DTYPE,GROUPS, step:M,N,K,DTYPE,GROUPS or copy."""
    kind, _, sizes = text.partition(":")
    if kind == "copy":
        return Size(kind, 0, 0, 0, "", 1)
    m, n, k, dtype, groups = sizes.split(",")
    return Size(kind, int(m), int(n), int(k), dtype, int(groups))


def attention_of(problem, size):
    """Returns the size of a product that takes about as long as attention. It has four square matrices of weights."""
    rows = max(problem["tokens"], 1)
    if size.dtype == "fp8":
        rows = (rows + 15) // 16 * 16
    return Size("gemm", rows, 4 * problem["hidden"], problem["hidden"], size.dtype, 1)


def share_of(share, groups, per_pass, least):
    """Returns (experts of one launch, number of launches), so that the launches make `share` passes over the experts.
    In the trial that timed the product, one pass had `per_pass` launches. Function shareOf in kernels/cuda/drive
    computes the same."""
    if per_pass > 1 or groups == 1:  # copies, or one product
        return groups, max(least, math.ceil(share * per_pass))
    if share >= 1:
        return groups, max(least, math.ceil(share))
    want = math.ceil(share * groups)
    batch = min(groups, rounded(max(-(-want // least), min(LEAST_BATCH, groups))))
    return batch, max(least, -(-want // batch))


def rounded(n):
    """Rounds n up, so that only its three highest bits can be set."""
    step = 1 << max((n - 1).bit_length() - 3, 0)
    return -(-n // step) * step


def fastest_plan(seconds):
    """Returns the index of the fastest plan. The first plan uses all SMs, and a plan with fewer SMs must be faster by
    PLAN_MARGIN. Function fastestPlan in kernels/cuda/drive has the same rule."""
    best, bar = 0, seconds[0] * (1 - PLAN_MARGIN)
    for i, t in enumerate(seconds):
        if t < bar:
            best, bar = i, t
    return best


class HostProduct:
    """A matrix product computed in Python. A launch computes a few columns of the result. To save memory, a matrix of
    more than HOST_BYTES repeats its rows."""

    trial, held = HOST_TRIAL, math.inf  # it holds no SMs

    def __init__(self, size):
        self.size = size
        if size.kind == "copy":
            self.source, self.to, self.launches = bytes(HOST_BYTES), bytearray(HOST_BYTES), 4
            return
        self.rows = max(1, min(size.n * size.groups, HOST_BYTES // (8 * size.k)))
        self.x = [float(i % 7 - 3) for i in range(size.k)]
        self.w = [[float((i + j) % 7 - 3) for i in range(size.k)] for j in range(self.rows)]
        self.across = -(-size.n // HOST_COLUMNS)
        self.launches = size.groups * size.m * self.across

    def launch(self, i):
        """Runs launch number i. After the last launch of a pass over the experts, the next pass begins."""
        if self.size.kind == "copy":
            part = HOST_BYTES // self.launches
            at = slice(i % self.launches * part, (i % self.launches + 1) * part)
            self.to[at] = self.source[at]
        else:
            first = i * HOST_COLUMNS
            self.out = [sum(map(operator.mul, self.x, self.w[(first + c) % self.rows])) for c in range(HOST_COLUMNS)]
        time.sleep(0)

    def take(self, share, least):
        """Returns the number of launches that take `share` times as long as the trial."""
        return max(least, 2, math.ceil(share * self.trial))

    def amount(self, share):
        return "%d of %d pieces of %s, in Python" % (share, self.launches, spelled(self.size))


class Beside:
    """The product that runs at the same time as a session's calls. `share` is how many launches run with one call, or
    0 before this number is known. In a decode step a second product stands for attention."""

    def __init__(self, library, problem):
        size = size_of(problem["beside"])
        self.text, self.objective = problem["beside"], problem.get("objective", "alone")
        self.step, self.pair = size.kind == "step", problem["op"] == "pair"
        self.product = library.product(size)
        self.attention = library.product(attention_of(problem, size)) if self.step else None
        self.share = self.product.launches if self.step else 0
        self.chosen = False

    def take(self, call, trial):
        """Computes self.share from two times in seconds: that of a call, and that of a trial run of the product."""
        if max(OUTLASTS * call, trial) > self.product.held:
            raise Failure("launch", "beside: %s takes %.3g s and the call takes %.3g s, but calls may wait at most %g s for the SMs of a product; give smaller sizes or fewer groups" % (
                self.text, trial, call, self.product.held))
        self.share = self.product.take(OUTLASTS * call / trial, 2 if self.pair else 1)

    def amount(self):
        if self.step:
            return "a layer of two micro-batches, each with attention as %s%s and experts as %s%s" % (
                spelled(self.attention.size), own_plan(self.attention), self.text, own_plan(self.product))
        return self.product.amount(self.share)

    def rounds(self, rows):
        """Returns the answer to epbench's request "run". Its field "seconds" has the time that the problem's
        objective minimizes."""
        for row in rows:
            for name in ("call", "both", "call_in", "product_in"):
                row[name] = max(row[name], LEAST)
        together = {name: [row[name] for row in rows] for name in FIELDS}
        cost = [max(row["both"] - row["product"], LEAST) for row in rows]
        return {"seconds": cost if self.objective == "beside" else together["call"], "beside": {**together, "amount": self.amount()}}


def own_plan(product):
    """Returns a text that names the SMs for which a product is planned, or "" if it is planned for all SMs."""
    own = getattr(product, "own", 0)
    return " (planned for %d SMs)" % own if own else ""


def plan_beside(own, left):
    """Returns the number of SMs for which to plan a product if calls leave `left` SMs unused. `own` is the number of
    SMs of the plan that is fastest when no calls run. 0 stands for all SMs. Function planBeside in kernels/cuda/drive
    has the same rule."""
    return own if left == 0 or 0 < own <= left else left


def spelled(size):
    return size.kind if size.kind == "copy" else "%s:%d,%d,%d,%s,%d" % size


class Running(threading.Thread):
    """A thread that launches a product n times, or until stop() is called."""

    def __init__(self, product, n=math.inf):
        super().__init__(daemon=True)
        self.product, self.n, self.done, self.error = product, n, 0, None

    def run(self):
        try:
            while self.done < self.n:
                self.product.launch(self.done)
                self.done += 1
        except Exception as e:
            self.error = e
        self.end = time.perf_counter()

    def finish(self):
        self.join()
        if self.error:
            raise self.error

    def stop(self):
        self.n = 0
        self.finish()


def host_launches(product, n):
    begin = time.perf_counter()
    for i in range(n):
        product.launch(i)
    return time.perf_counter() - begin


def host_round(library, plan, fold):
    """Runs one round and returns its times by the host's clock, in seconds a call."""
    call = library.timed(plan.name, plan.steps, 1, fold)[0]
    library.ranks.barrier()
    product = host_launches(plan.beside.product, fold * plan.beside.share) / fold
    library.ranks.barrier()
    both = _phases if all(p.phases for p in plan.parts) else _abreast
    return {"call": call, "product": product, **both(library, plan, fold)}


def _abreast(library, plan, fold):
    """Runs the calls in one thread and the product in another. Before each call the ranks wait for each other; this
    wait is not timed."""
    running = Running(plan.beside.product, fold * plan.beside.share)
    begin = time.perf_counter()
    running.start()
    call = library.timed(plan.name, plan.steps, 1, fold)[0]
    done = running.done / running.n
    running.finish()
    product = (running.end - begin) / fold
    return {"both": max(call, product), "call_in": call, "product_in": product, "done": done}


def _phases(library, plan, fold):
    """Runs each dispatch or combine in three phases: it sends, launches the product, and receives."""
    both = inside = 0.0
    share, n = plan.beside.share, len(plan.parts)
    for _ in range(fold):
        parts = enumerate(plan.parts)
        for measured, step in plan.steps:
            if not measured:
                step()
                continue
            i, part = next(parts)
            library.ranks.barrier()
            begin = time.perf_counter()
            part.phases[0]()
            product = host_launches(plan.beside.product, share * (i + 1) // n - share * i // n)
            part.phases[1]()
            both, inside = both + time.perf_counter() - begin, inside + product
    return {"both": both / fold, "call_in": (both - inside) / fold, "product_in": inside / fold, "done": 1.0}
