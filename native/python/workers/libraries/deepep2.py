"""Runs DeepEP V2's ElasticBuffer on one host, without hybrid mode.

In layout rank:packed a token has one row on each rank that has any of its experts. Layouts expert and expert:128 use
do_expand: a token has a row for each of its experts, and the rows of an expert are contiguous. In these layouts
combine first adds a token's rows on the rank that computed them. In all layouts the experts multiply their rows by
the weights, and combine only adds.

In mode `counts` DeepEP's host code waits for the counts (do_cpu_sync), so outputs have room for exactly the received
rows. Such calls cannot be captured in a graph, and two events around the calls measure their time. FP8 tokens are
cast before the call.

V2 needs NCCL 2.30.4. Install this NCCL in PyTorch's environment, and compile V2 with it. V2 refuses to start if two
NCCL libraries are loaded.
"""

import os

import torch
from harness import installed_version, kernel, param
from harness.gpu import GPULibrary
from harness.layers import Layers, Products, RankLayer, mean_rows, products
from harness.tensors import dequantized

SMS = [4, 8, 12, 16, 20, 24, 32, 48, 64, 80, 96, 112, 128]
PART = 4096


class Library(GPULibrary):
    name = "deepep2"
    held = ("got", "got_ids", "got_weights", "handle", "index")
    written, read_again = ("got", "got_ids", "got_weights", "y"), ("index",)

    def __init__(self, mode="graph"):
        self.counts, self.layers = mode == "counts", Layers()
        if self.counts:
            self.clock = "event"

    def start(self, ranks):
        super().start(ranks)
        os.environ.setdefault("EP_DISABLE_GIN", "1")  # without it V2 needs InfiniBand
        import deep_ep

        if not hasattr(deep_ep, "ElasticBuffer"):
            raise ImportError("deep_ep has no ElasticBuffer: this is DeepEP V1; use the worker deepep")
        self.deep_ep, self.version = deep_ep, installed_version("deep_ep", getattr(deep_ep, "__version__", "2"))
        # Makes PyTorch create the group's NCCL communicator, which V2 uses.
        torch.distributed.all_reduce(self.flag)
        self.settle()
        self.buffers, self.shape, self.expand = {}, None, False

    def kernels(self):
        most = self.machine()["sms"]
        sms = param("sms", "SMs of the transfer kernel; 0: get_theoretical_num_sms.", [0] + [n for n in SMS if n < most] + [most], 0, "SMs", cost=1)
        reductions = param("reductions", "1: allow_multiple_reduction, ranks add a token's rows before they send.", [1, 0], binding="session")
        rules = [("!problem.shared_expert && !problem.skip_a2a", "no shared expert, no skip_a2a"),
                 ('problem.dispatch == "bf16" || problem.dispatch == "fp8"', "bf16 and fp8 only"),
                 ("problem.nodes == 1", "nodes: one host only"), ("sms <= machine.sms", "sms: the GPU has fewer")]
        waits = ["host"] if self.counts else []
        packed, expanded = ("deepep2-counts", "deepep2-expand-counts") if self.counts else ("deepep2", "deepep2-expand")
        experts = ("expert", "expert:128")
        layers = [] if self.counts else self.layer_kernels(packed, expanded, sms, reductions, rules)
        return [*layers, kernel(self, packed, "dispatch", "dispatch", [sms], rules, layout="rank:packed", inside=["counts"] + waits),
                kernel(self, packed, "combine", "combine", [sms], rules, accepts=[packed], layout="rank:packed", sum="plain", inside=["reduction"]),
                kernel(self, expanded, "dispatch", "dispatch with do_expand", [sms], rules, layout=experts, inside=["counts", "expansion"] + waits),
                kernel(self, expanded, "combine", "combine of expanded rows", [sms, reductions], rules, accepts=[expanded], layout=experts,
                       sum="plain", inside=["reduction"])]

    def layer_kernels(self, packed, expanded, sms, reductions, rules):
        by = lambda known: param("products", "Library of the grouped products.", known, known[-1])
        fp8 = ('problem.dispatch == "bf16" || products == "deepgemm"', "products: fp8 rows need deepgemm, from the package deep_gemm")
        return [kernel(self, packed, "layer", "dispatch, rows sorted by expert, grouped products with SwiGLU, combine", [sms, by(products())], [*rules, fp8]),
                kernel(self, expanded, "layer", "dispatch with do_expand, grouped products with SwiGLU, combine", [sms, reductions, by(["torch"])],
                       [*rules, ('problem.dispatch == "bf16"', "dtype: expanded rows are multiplied in bf16")])]

    def open(self, work):
        super().open(work)
        layout, _, alignment = work.problem.get("layout", "expert").partition(":")
        self.expand = layout == "expert"
        self.alignment = int(alignment) if self.expand and alignment else 1
        shape = (work.capacity, work.hidden, work.topk)
        if shape != self.shape:
            self.drop_buffers()
            self.shape = shape
        self.y = None

    def drop_buffers(self):
        for buffer in self.buffers.values():
            buffer.destroy()
        self.buffers = {}

    def buffer(self, half):
        """Returns the ElasticBuffer for a value of the parameter `reductions`. At the first use all ranks make the
        buffer together."""
        reductions = bool(half.values.get("reductions", 1))
        if reductions not in self.buffers:
            capacity, hidden, topk = self.shape
            self.buffers[reductions] = self.deep_ep.ElasticBuffer(
                self.group, num_max_tokens_per_rank=capacity, hidden=hidden, num_topk=topk, allow_hybrid_mode=False,
                allow_multiple_reduction=reductions, explicitly_destroy=True)
        return self.buffers[reductions]

    def prepare(self, half):
        self.buffer(half)
        if self.work.problem["op"] == "layer":
            self.dispatch_layer(half)  # shows for how many rows V2 makes room

    def dispatch_layer(self, half):
        self.expand = half.kernel.endswith("-expand")
        self.dispatch(half)

    def layer(self, half):
        self.dispatch_layer(half)
        by, room, w = half.values["products"], len(self.got_ids if not self.expand else self.got), self.work
        experts = self.layers.experts(w, self.device)
        if self.expand:
            part = self.layers.get((by, room, "expand"), lambda: Products(by, experts, room, mean_rows(w)))
            inside = part.stages(lambda: self.got, lambda: self.index[2], weights=lambda: self.got_weights)
            rows = lambda: part.y
        else:
            part = self.layers.get((by, room), lambda: RankLayer(by, experts, room, w.topk, mean_rows(w)))
            sums = self.layers.get((by, room, "sums"), lambda: torch.zeros(room, w.hidden, dtype=torch.bfloat16, device=self.device))
            inside = part.stages(lambda: self.got, self.local_ids, lambda: self.got_weights, sums)
            rows = lambda: sums

        def combine():
            self.y = rows()
            self.combine(half)

        return [("dispatch", lambda: self.dispatch_layer(half)), *inside, ("combine", combine)]

    def local_ids(self):
        """Returns local expert ids, [rows, top-k]. An id is -1 for an expert of another rank, and in unused rows."""
        used = torch.arange(len(self.got_ids), device=self.device)[:, None] < self.index[1][-1]
        return torch.where(used, self.got_ids, -1)

    def taken(self, half):
        return half.values["sms"] or self.buffer(half).get_theoretical_num_sms(self.work.problem["experts"], self.work.topk)

    def dispatch(self, half):
        self.got, self.got_ids, self.got_weights, self.handle, _ = self.buffer(half).dispatch(
            (self.q, self.scales) if self.fp8 else self.x, topk_idx=self.ids, topk_weights=self.weights, num_experts=self.work.problem["experts"],
            num_max_tokens_per_rank=self.work.capacity, expert_alignment=self.alignment, num_sms=half.values["sms"],
            do_cpu_sync=self.counts, do_expand=self.expand)
        h = self.handle
        self.index = (h.recv_src_metadata, h.psum_num_recv_tokens_per_scaleup_rank, h.psum_num_recv_tokens_per_expert)

    def combine(self, half):
        # With num_sms=0 combine would use as many SMs as the dispatch.
        self.out = self.buffer(half).combine(self.y, self.handle, num_sms=self.taken(half))[0]

    def values(self, rows):
        return dequantized(self.got[0][rows], self.got[1][rows]) if self.fp8 else self.got[rows]

    def described(self):
        """Returns (source rank, token, top-k ids, weights) of the received rows. An id is -1 for an expert of another
        rank."""
        meta, per_rank, _ = self.index
        n = int(per_rank[-1])
        at = meta[:n, 0].long()
        if self.expand:
            slots = meta[:n, 2:].long()
            ids = torch.where(slots >= 0, self.expert_of(slots), -1)
            weights = torch.where(slots >= 0, self.got_weights[slots.clamp(min=0)], 0)
        else:
            ids = torch.where(self.got_ids[:n] >= 0, self.got_ids[:n] + self.rank * self.work.local, -1)
            weights = self.got_weights[:n]
        return at // self.work.capacity, at % self.work.capacity, ids, weights

    def expert_of(self, slots):
        return torch.searchsorted(self.index[2].long(), slots, right=True) + self.rank * self.work.local

    def experts(self):
        rows = self.got[0] if self.fp8 else self.got
        if self.y is None or self.y.shape != rows.shape:
            self.y = torch.zeros(rows.shape, dtype=torch.bfloat16, device=self.device)
        _, _, ids, weights = self.described()
        if self.expand:
            hit = ids >= 0
            at, ids, weights = self.index[0][:len(ids), 2:].long()[hit], ids[hit][:, None], weights[hit][:, None]
        else:
            at = torch.arange(len(ids), device=self.device)
        for part in filter(len, torch.arange(len(at), device=self.device).split(PART)):
            self.y[at[part]] = self.rank_experts(torch.nan_to_num(self.values(at[part])), ids[part], torch.nan_to_num(weights[part]))

    def rows(self):
        source, token, ids, weights = self.described()
        if not self.expand:
            return source, token, (ids, weights), self.values(slice(len(ids)))
        hit = ids >= 0
        slots = self.index[0][:len(ids), 2:].long()[hit]
        spread = lambda t: t[:, None].expand_as(ids)[hit]
        return spread(source), spread(token), ids[hit], self.values(slots)

    def close(self):
        super().close()
        self.layers.close()
        self.y = None
