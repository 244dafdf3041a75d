"""The methods of GPULibrary that run matrix products of PyTorch at the same time as calls."""

import contextlib
import os

import torch

from .beside import SIZING, fastest_plan
from .library import Library
from .lt import LtProduct
from .product import TorchProduct
from .protocol import Failure
from .streams import Round, seconds

SLEEP = 2_000_000  # GPU clocks, about 1 ms; longer than in gpu.py, because a graph with a product has many kernels
VERIFIED = 4  # number of passes of the product during each step of a verification


class GPUBeside(Library):
    """Measures rounds with a matrix product on a GPU. Without a GPU it does what Library does, with a
    product of PyTorch."""

    def besides(self):
        """Returns the kinds of product that this library can run beside its calls."""
        if self.device.type == "cpu":
            return () if self.strict else Library.beside
        # A round is a CUDA graph of equal calls in a row. Some libraries must run dispatch and combine in
        # turn, or need the host in a call.
        if self.strict or self.between or self.clock != "chain":
            return ()
        return Library.beside + (("step",) if self.held else ())

    def product(self, size):
        ours = os.environ.get("EPBENCH_PRODUCT") and size.kind != "copy"
        try:
            made = (LtProduct if ours else TorchProduct)(size, self.device, self.rank + 1)
        except torch.cuda.OutOfMemoryError as e:
            raise Failure("launch", "beside: no room for %s: %s" % (size.kind, e)) from None
        self.warm(made, 0)
        return made

    def warm(self, product, taken):
        """Runs one pass of the product alone, to load its kernels: they must not be loaded while a call waits
        for other ranks."""
        if self.device.type == "cuda":
            with torch.cuda.stream(self.streams.side), product.planned(taken):
                for i in range(product.launches):
                    product.launch(i)
            torch.cuda.synchronize()

    def carved(self, plan):
        """Returns the number of SMs that the product leaves to calls: as in serving engines, the SMs that calls
        take. It is 0 if these are more than half of the GPU, or if no call runs at the same time."""
        apart = all(p.phases for p in plan.parts) or plan.beside.product.size.kind == "copy"
        return 0 if apart or 2 * plan.taken > self.multiprocessors() else plan.taken

    def planned_for(self, plan):
        taken = self.carved(plan)
        if not taken:
            return ""
        if not plan.beside.product.plans_for_fewer:
            return ", planned for all SMs: this PyTorch cannot plan for fewer"
        return ", planned for at most %d SMs beside the calls" % (self.multiprocessors() - taken)

    def product_alone(self, product, rounds):
        if self.device.type == "cpu":
            return super().product_alone(product, rounds)
        begin, end = self.streams.event(), self.streams.event()

        def run():
            begin.record()
            for i in range(product.trial):
                product.launch(i)
            end.record()

        go = self.graphs.capture(run)
        return [self.replayed(go, lambda: seconds(begin, end)) for _ in range(rounds)]

    def choose_plans(self, beside):
        for product in (beside.product, beside.attention):
            plans, times = getattr(product, "own_plans", []), []
            for sms in plans:
                product.own = sms
                self.warm(product, 0)
                times.append(min(map(max, zip(*self.ranks.exchange(self.product_alone(product, SIZING))))))
            if plans:
                product.own = plans[fastest_plan(times)]

    def replayed(self, go, read):
        """Runs one round, which all ranks begin together, and returns read()."""
        self.ranks.barrier()
        self.before_round()
        self._between(go, SLEEP)
        torch.cuda.synchronize()
        return read()

    def beside_rounds(self, plan, rounds, fold):
        if self.device.type == "cpu":
            return super().beside_rounds(plan, rounds, fold)
        calls = self.calls_of(fold)
        layout = Round(self.streams, plan, calls)
        alone = self.graphs.get(("product", calls), lambda: self.captured(*layout.product(), plan, 0))
        both = self.graphs.get((plan.name, calls, "beside"), lambda: self.captured(*layout.both(), plan, self.carved(plan)))
        return [{"call": self.timed(plan.name, plan.steps, 1, fold)[0], **self.replayed(*alone[:2]), **self.replayed(*both[:2])}
                for _ in range(rounds)]

    def captured(self, run, read, plan, taken):
        """Captures a round's graph. Returns (a function that replays it, read, objects that the graph
        needs). The steps run once before the capture, because they make data that the graph reads. The
        graph also runs once, because its first launch uploads it to the GPU."""
        products = [p for p in (plan.beside.product, plan.beside.attention) if p]
        for product in products:
            self.warm(product, taken)
        self.ranks.barrier()
        self.before_round()
        for _, step in plan.steps:
            step()
        self.settle()
        with contextlib.ExitStack() as planned:
            for product in products:
                planned.enter_context(product.planned(taken))
            go = self.graphs.capture(run)
        self.replayed(go, lambda: None)
        return go, read, list(vars(self).values())

    @contextlib.contextmanager
    def accompanied(self, beside):
        if self.device.type == "cpu" or not beside:
            with super().accompanied(beside) as again:
                yield again
            return

        def run():
            for i in range(VERIFIED * beside.product.trial):
                beside.product.launch(i)

        # The host queues the step while the graph runs.
        go = self.graphs.get("accompanied", lambda: self.graphs.capture(run))

        def again():
            with torch.cuda.stream(self.streams.side):
                go()

        yield again
        self.settle()
