"""Runs epcomm in layout `expert` or `expert:128`: received rows are grouped by expert, and with `expert:128` the first
row of each expert is a multiple of 128. A pack, a file that `epbench pack` makes, holds the kernels and says which
kernel serves which call.

The times include the cast, the counts and the weighted sums. PYTHONPATH must contain the package epcomm.
EPCOMM_LIBRARY must name epcomm's shared library.

In mode `chunks`, a layer's tokens are divided into chunks. While one chunk is computed, a second stream dispatches
the next chunk and combines the chunk before, so two calls are in flight.

In mode `plain` the experts multiply their rows by the weights, as with DeepEP V2. The calls then get weights of 1, so
combine only adds. `routing` is the routing class that calls pass to epcomm, such as even. `precision` is full or
reduced. With reduced, combine may add rows before it sends them, as DeepEP V2 does by default.
"""

import contextlib

import torch
from harness import Failure, kernel, param
from harness.gpu import GPULibrary
from harness.layers import Layers, Products, mean_rows, products
from harness.tensors import dequantized, gain


CHUNKS, IN_FLIGHT = [1, 2, 4], 2


class Library(GPULibrary):
    name = "epcomm"
    written = ("y",)

    def __init__(self, pack, mode="", routing="default", precision="full"):
        if mode not in ("", "chunks", "plain"):
            raise ValueError("mode: %r is unknown, use chunks or plain" % mode)
        self.pack, self.in_flight, self.layers = pack, IN_FLIGHT if mode == "chunks" else 1, Layers()
        self.plain, self.routing, self.precision = mode == "plain", routing, precision

    def start(self, ranks):
        super().start(ranks)
        import epcomm

        self.layouts = epcomm.comm.LAYOUTS
        self.ep = epcomm.EP(pack=self.pack, device=self.device, in_flight=self.in_flight, precision=self.precision)
        self.version = epcomm.__version__ if hasattr(epcomm, "__version__") else "1"

    def kernels(self):
        i = self.ep.info
        rules = [("problem.%s == %d" % f, "%s: the pack is for %d" % f) for f in
                 (("hidden", i.hidden), ("experts", i.experts), ("top_k", i.topk), ("ranks", i.ranks))]
        rules.append(("problem.tokens <= %d" % i.max_tokens, "tokens: the pack holds %d" % i.max_tokens))
        layout, sums, name = self.layouts[i.layout], "plain" if self.plain else "gated", "epcomm-plain" if self.plain else "epcomm"
        if self.plain:
            rules.append(("!problem.skip_a2a", "skip_a2a: not in mode plain"))
        halves = [kernel(self, name, "dispatch", "epcomm_dispatch", (), rules, layout=layout, inside=["cast", "counts", "expansion"]),
                  kernel(self, name, "combine", "epcomm_combine", (), rules, layout=layout, sum=sums, inside=["reduction"])]
        if self.plain:
            return halves
        by = param("products", "Library of the grouped products.", [by for by in products() if by != "deepgemm"], "torch")
        chunks = param("chunks", "Parts of the tokens whose communication overlaps products.", CHUNKS if self.in_flight == IN_FLIGHT else [1])
        return [*halves,
                kernel(self, "epcomm", "layer", "epcomm_dispatch, grouped products with SwiGLU, epcomm_combine", [by, chunks],
                       [*rules, ('problem.dispatch == "bf16"', "dtype: layers have bf16 experts")])]

    def open(self, work):
        super().open(work)
        if work.tokens > self.ep.max_tokens:
            raise Failure("illegal", "tokens: %d is more than the pack's %d" % (work.tokens, self.ep.max_tokens))
        self.where = {"fullest": max(work.counts), "dtype": work.problem["dispatch"], "routing": self.routing,
                      "purpose": "pair" if work.problem["op"] == "layer" else work.problem["op"]}
        self.y = torch.zeros(self.ep.max_rows(self.where["dtype"]), work.hidden, dtype=torch.bfloat16, device=self.device)
        self.gates = torch.ones_like(self.weights) if self.plain else self.weights

    def dispatch(self, half):
        self.view = self.ep.dispatch(self.x, self.ids, self.gates, **self.where)

    def combine(self, half):
        self.ep.combine(self.y, self.ids, self.gates, out=self.out, **self.where)

    def layer(self, half):
        by, chunks = half.values["products"], half.values.get("chunks", 1)
        if chunks > 1:
            return [("chunks", lambda: self.in_chunks(by, chunks))]
        part = self.part(by, 0)
        return [("dispatch", lambda: self.dispatch(half)), *part.stages(lambda: self.view.out, lambda: self.view.row_offsets[1:]),
                ("combine", lambda: self.ep.combine(part.y, self.ids, self.weights, out=self.out, **self.where))]

    def part(self, by, chunk):
        experts = self.layers.experts(self.work, self.device)
        return self.layers.get((by, chunk), lambda: Products(by, experts, len(self.y), mean_rows(self.work)))

    def in_chunks(self, by, chunks):
        """Computes a layer in chunks. The second stream runs dispatch 0, dispatch 1, combine 0, dispatch 2, combine 1
        and so on. Chunks take turns with two slots, a slot being the memory of one call in flight."""
        aside = Aside(self.device)
        views = {0: self.dispatch_chunk(aside, 0, chunks)}
        for n in range(chunks):
            if n + 1 < chunks:
                views[n + 1] = self.dispatch_chunk(aside, n + 1, chunks)
            part, (view, sent) = self.part(by, n), views[n]
            aside.await_here(sent)
            for _, step in part.stages(lambda view=view: view.out, lambda view=view: view.row_offsets[1:]):
                step()
            aside.follow()
            with aside.running():
                at, where = self.chunk(n, chunks)
                self.ep.combine(part.y, self.ids[at], self.weights[at], out=self.out[at], slot=n % IN_FLIGHT, **where)
        aside.await_here(aside.mark())

    def dispatch_chunk(self, aside, n, chunks):
        """Dispatches chunk n. Returns a view of the received rows, and an event that passes when the dispatch has
        ended."""
        at, where = self.chunk(n, chunks)
        with aside.running():
            return self.ep.dispatch(self.x[at], self.ids[at], self.weights[at], slot=n % IN_FLIGHT, **where), aside.mark()

    def chunk(self, n, chunks):
        """Returns the slice of the tokens in chunk n, and the arguments for the dispatch and combine of this chunk."""
        begin, end = (self.work.tokens * i // chunks for i in (n, n + 1))
        return slice(begin, end), {**self.where, "fullest": max(c * (n + 1) // chunks - c * n // chunks for c in self.work.counts)}

    def close(self):
        super().close()
        self.layers.close()

    def between(self):
        self.ep.barrier()

    def values(self, at):
        q = self.view.out[at]
        return dequantized(q, self.view.scales[:, at].t().contiguous()) if self.fp8 else q

    def experts(self):
        """Computes the experts for all rows, padding included."""
        n = int(self.view.row_offsets[-1])
        at = torch.arange(n, device=self.device)
        group = torch.searchsorted(self.view.row_offsets[1:].contiguous(), at.int(), right=True)
        experts = self.rank * self.work.local + self.view.expert_ids.long()[group]
        self.y[:n] = (torch.nan_to_num(self.values(at)).float() * gain(experts)[:, None]).to(torch.bfloat16)
        if self.plain:
            self.weight_rows()

    def weight_rows(self):
        source, token, experts, at = self.places()
        for r in range(self.work.ranks):
            mine = source == r
            own = token[mine].clamp(0, max(self.work.counts[r] - 1, 0))
            ids, weights = self.all_ids[r][own], self.all_weights[r][own]
            weight = (weights * (ids == experts[mine, None])).sum(1)
            self.y[at[mine]] = (self.y[at[mine]].float() * weight[:, None]).to(torch.bfloat16)

    def rows(self):
        source, token, experts, at = self.places()
        return source, token, experts, self.values(at)

    def places(self):
        """Returns (source ranks, tokens, experts, positions in the output). An expert's rows are sorted by source
        rank, and padding follows them."""
        first = self.rank * self.work.local
        mine = torch.arange(first, first + self.work.local, device=self.device)
        counts = torch.stack([(ids.reshape(-1, 1) == mine).sum(0) for ids in self.all_ids], 1)  # [local experts, ranks]
        sizes = counts.flatten()
        segment = torch.repeat_interleave(torch.arange(len(sizes), device=self.device), sizes)
        inside = torch.arange(len(segment), device=self.device) - (sizes.cumsum(0) - sizes)[segment]
        starts = self.view.row_offsets.long()[:self.work.local, None] + counts.cumsum(1) - counts
        at = starts.flatten()[segment] + inside
        return segment % self.work.ranks, self.view.src_info[at, 0].long(), first + segment // self.work.ranks, at


class Aside:
    """A second stream. After follow(), its work waits for all work that the current stream has queued. Without a GPU
    there is no second stream, and everything runs in order."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.follow()

    def running(self):
        return torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext()

    def mark(self):
        return self.stream.record_event() if self.stream else None

    def follow(self):
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))

    def await_here(self, mark):
        if mark is not None:
            torch.cuda.current_stream(self.stream.device).wait_event(mark)
