"""GPUBeside measures the calls of a library while a matrix product runs on the same GPU."""

import contextlib
import os

import torch

from .beside import SIZING, fastest_plan
from .library import Library
from .lt import LtProduct
from .product import TorchProduct
from .protocol import Failure
from .streams import Round, seconds

GRAPH_SLEEP = 2_000_000  # GPU clocks, about 1 ms; the GPU waits so long while the host launches a graph
VERIFIED = 4  # how often the product runs during each call whose outputs are checked


class GPUBeside(Library):
    """Measures rounds in which a matrix product runs on the GPU. Without a GPU it does what Library does."""

    def besides(self):
        if self.device.type == "cpu":
            return () if self.strict else Library.beside
        # A round is a CUDA graph of equal calls. The calls of some libraries cannot be captured in a graph.
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
        """Runs the product once, without calls. So CUDA loads the product's kernels now. It could not load them
        later, while a call waits for other ranks."""
        if self.device.type == "cuda":
            with torch.cuda.stream(self.streams.side), product.planned(taken):
                for i in range(product.launches):
                    product.launch(i)
            torch.cuda.synchronize()

    def carved(self, plan):
        """Returns how many SMs the product must leave free: as many as the calls use. Three cases return 0: calls use
        more than half of the SMs, each call sends and receives in two launches, or the product is a copy."""
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
        self.ranks.barrier()
        self.before_round()
        self._between(go)
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
        """Captures the CUDA graph of a round. First it runs all steps of the plan once, because they make data that
        the graph reads. After the capture it launches the graph once, because the first launch uploads the graph and
        takes longer. Returns a function that launches the graph, a function that reads the times, and a list of
        objects that must live as long as the graph."""
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

        # The caller launches the call while the graph runs.
        go = self.graphs.get("accompanied", lambda: self.graphs.capture(run))

        def again():
            with torch.cuda.stream(self.streams.side):
                go()

        yield again
        self.settle()
