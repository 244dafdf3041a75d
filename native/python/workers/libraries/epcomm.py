"""epcomm, which runs the kernels of a pack. epcomm chooses the config by a look-up in the pack.

The layout is expert. The times include the cast, the counts and the weighted sums. PYTHONPATH must
have the epcomm package, and EPCOMM_LIBRARY must be the path of its shared library.
"""

import torch
from harness import Failure, kernel, param
from harness.gpu import GPULibrary
from harness.layers import Layers, Products, mean_rows, products
from harness.tensors import dequantized, gain


class Library(GPULibrary):
    name = "epcomm"
    written = ("y",)

    def __init__(self, pack):
        self.pack, self.layers = pack, Layers()

    def start(self, ranks):
        super().start(ranks)
        import epcomm

        self.ep = epcomm.EP(pack=self.pack, device=self.device)
        self.version = epcomm.__version__ if hasattr(epcomm, "__version__") else "1"

    def kernels(self):
        i = self.ep.info
        rules = [("problem.%s == %d" % f, "%s: the pack is for %d" % f) for f in
                 (("hidden", i.hidden), ("experts", i.experts), ("top_k", i.topk), ("ranks", i.ranks))]
        rules.append(("problem.tokens <= %d" % i.max_tokens, "tokens: the pack holds %d" % i.max_tokens))
        # DeepGEMM needs each expert's first row at a multiple of 128, which is layout expert:128
        by = param("products", "Library of the grouped products.", [by for by in products() if by != "deepgemm"], "torch")
        return [kernel(self, "epcomm", "dispatch", "epcomm_dispatch", (), rules, layout="expert", inside=["cast", "counts", "expansion"]),
                kernel(self, "epcomm", "combine", "epcomm_combine", (), rules, layout="expert", sum="gated", inside=["reduction"]),
                kernel(self, "epcomm", "layer", "epcomm_dispatch, grouped products with SwiGLU, epcomm_combine", [by],
                       [*rules, ('problem.dispatch == "bf16"', "dtype: layers have bf16 experts")])]

    def open(self, work):
        super().open(work)
        if work.tokens > self.ep.max_tokens:
            raise Failure("illegal", "tokens: %d is more than the pack's %d" % (work.tokens, self.ep.max_tokens))
        self.where = {"fullest": max(work.counts), "dtype": work.problem["dispatch"], "purpose": "pair" if work.problem["op"] == "layer" else work.problem["op"]}
        self.y = torch.zeros(self.ep.max_rows(self.where["dtype"]), work.hidden, dtype=torch.bfloat16, device=self.device)

    def dispatch(self, half):
        self.view = self.ep.dispatch(self.x, self.ids, self.weights, **self.where)

    def combine(self, half):
        self.ep.combine(self.y, self.ids, self.weights, out=self.out, **self.where)

    def layer(self, half):
        by = half.values["products"]
        experts = self.layers.experts(self.work, self.device)
        part = self.layers.get(by, lambda: Products(by, experts, len(self.y), mean_rows(self.work)))
        return [("dispatch", lambda: self.dispatch(half)), *part.stages(lambda: self.view.out, lambda: self.view.row_offsets[1:]),
                ("combine", lambda: self.ep.combine(part.y, self.ids, self.weights, out=self.out, **self.where))]

    def close(self):
        super().close()
        self.layers.close()

    def between(self):
        self.ep.barrier()

    def values(self, at):
        """Returns rows, dequantized."""
        q = self.view.out[at]
        return dequantized(q, self.view.scales[:, at].t().contiguous()) if self.fp8 else q

    def experts(self):
        """Computes all rows up to the end of the last group, also the padding rows."""
        n = int(self.view.row_offsets[-1])
        at = torch.arange(n, device=self.device)
        group = torch.searchsorted(self.view.row_offsets[1:].contiguous(), at.int(), right=True)
        experts = self.rank * self.work.local + self.view.expert_ids.long()[group]
        self.y[:n] = (torch.nan_to_num(self.values(at)).float() * gain(experts)[:, None]).to(torch.bfloat16)

    def rows(self):
        """Returns (source ranks, tokens, experts, rows). src_info has the token of a row, but not its source
        rank. That follows from the order of rows: an expert's rows are sorted by source rank, and padding
        follows the rows of each expert."""
        first = self.rank * self.work.local
        mine = torch.arange(first, first + self.work.local, device=self.device)
        counts = torch.stack([(ids.reshape(-1, 1) == mine).sum(0) for ids in self.all_ids], 1)  # [local experts, ranks]
        sizes = counts.flatten()
        segment = torch.repeat_interleave(torch.arange(len(sizes), device=self.device), sizes)
        inside = torch.arange(len(segment), device=self.device) - (sizes.cumsum(0) - sizes)[segment]
        starts = self.view.row_offsets.long()[:self.work.local, None] + counts.cumsum(1) - counts
        at = starts.flatten()[segment] + inside
        return segment % self.work.ranks, self.view.src_info[at, 0].long(), first + segment // self.work.ranks, self.values(at)
