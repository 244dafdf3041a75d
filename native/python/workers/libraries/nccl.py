"""Runs dispatch and combine as all-to-alls of NCCL, through PyTorch.

Kernel nccl always sends max_tokens rows to every rank, so ranks need not exchange counts, and calls run in a CUDA
graph. Kernel nccl-counts first exchanges counts and then sends only the used rows. The host waits for the counts, so
its calls cannot be captured, and two events around the calls measure their time.
"""

import torch
import torch.distributed as dist
from harness import kernel, param
from harness.gpu import GPULibrary
from harness.layers import Layers, RankLayer, mean_rows, products

CTAS = [0, 4, 8, 16, 32]  # largest numbers of blocks of a collective; with 0 NCCL chooses


class Library(GPULibrary):
    name = "nccl"
    written = ("got", "meta", "back")

    def __init__(self, mode="padded"):
        self.padded, self.layers = mode == "padded", Layers()
        if not self.padded:
            self.clock = "event"

    def start(self, ranks):
        super().start(ranks)
        self.version = ".".join(map(str, torch.cuda.nccl.version())) if self.device.type == "cuda" else "gloo"
        self.groups = {0: self.group}

    def kernels(self):
        ctas = param("ctas", "Largest number of CTAs of one collective (NCCL's maxCTAs); 0: NCCL chooses.", CTAS, unit="SMs", binding="session", cost=1)
        rules = [("!problem.shared_expert && !problem.skip_a2a", "no shared expert, no skip_a2a"),
                 ('problem.dispatch == "bf16"', "bf16 only: fp8 would need a second all-to-all, for the scales")]
        name, inside = ("nccl", ["counts"]) if self.padded else ("nccl-counts", ["counts", "host"])
        layout = "rank" if self.padded else "rank:packed"
        by = param("products", "Library of the grouped products.", products(), products()[-1])
        return [kernel(self, name, "layer", "Dispatch and combine, with grouped products and SwiGLU between them.", [ctas, by], rules, inside=inside[1:]),
                kernel(self, name, "dispatch", "Gathers rows by rank; one all-to-all for rows, one for ids and weights.", [ctas], rules, layout=layout, inside=inside),
                kernel(self, name, "combine", "One all-to-all back; adds the rows of all ranks.", [ctas], rules, layout=layout, sum="plain", inside=["reduction"] + inside[1:])]

    def prepare(self, half):
        ctas = half.values["ctas"]
        if ctas not in self.groups:
            options = dist.ProcessGroupNCCL.Options()
            options.config.max_ctas = ctas
            self.groups[ctas] = dist.new_group(pg_options=options)
            dist.all_reduce(self.flag, group=self.groups[ctas])

    def open(self, work):
        super().open(work)
        self.first = self.rank * work.local
        self.cap, self.rows_there = work.capacity, work.ranks * work.capacity
        self.send = torch.zeros(self.rows_there, work.hidden, dtype=torch.bfloat16, device=self.device)
        self.send_meta = torch.zeros(self.rows_there, 1 + 2 * work.topk, device=self.device)
        self.got, self.meta = torch.zeros_like(self.send), torch.zeros_like(self.send_meta)
        self.y, self.back = torch.zeros_like(self.send), torch.zeros_like(self.send)

    def plan(self):
        """Returns (slot, there), both [tokens, ranks]. `slot` is the token's index among the rows for the rank, or -1.
        `there` is true if the token goes to the rank."""
        owner = torch.where(self.ids >= 0, self.ids // self.work.local, -1)
        there = (owner[:, :, None] == torch.arange(self.work.ranks, device=self.device)).any(1)
        return torch.where(there, there.cumsum(0) - 1, -1), there

    def exchange(self, out, rows, group, sizes=None):
        """Sends rows to all ranks. `sizes` is a pair of lists: the numbers of rows from each rank, and the numbers of
        rows to each rank. If it is None, every rank sends the same number to each rank."""
        if sizes is None:
            dist.all_to_all_single(out, rows, group=group)
        else:
            got, sent = sizes
            dist.all_to_all_single(out[:sum(got)], rows[:sum(sent)], got, sent, group=group)

    def dispatch(self, half):
        group, n = self.groups[half.values["ctas"]], self.work.tokens
        slot, there = self.plan()
        start = torch.arange(self.work.ranks, device=self.device) * self.cap
        self.sizes = None
        if not self.padded:
            sent = there.sum(0)
            got = torch.empty_like(sent)
            dist.all_to_all_single(got, sent, group=group)
            self.sizes = (got.tolist(), sent.tolist())
            start = sent.cumsum(0) - sent
        # If a token does not go to a rank, its index there is that of a spare row, which is not sent.
        at = torch.where(there, slot + start, self.rows_there)
        token = torch.zeros(self.rows_there + 1, dtype=torch.int64, device=self.device)
        token.scatter_(0, at.reshape(-1), torch.arange(n, device=self.device).repeat_interleave(self.work.ranks))
        used = torch.zeros(self.rows_there + 1, device=self.device).scatter_(0, at.reshape(-1), 1.0)[:-1]
        self.at, token = at, token[:-1]
        meta = torch.cat([torch.arange(n, device=self.device)[:, None].float(), self.ids.float(), self.weights], 1)
        if n:
            torch.index_select(self.x, 0, token, out=self.send)
            self.send_meta.copy_(torch.where(used[:, None] > 0, meta[token], -1.0))
        else:
            self.send_meta.fill_(-1)
        self.exchange(self.got, self.send, group, self.sizes)
        self.exchange(self.meta, self.send_meta, group, self.sizes)

    def chosen(self):
        k = self.work.topk
        ids = self.meta[:, 1:1 + k].long()
        ids = torch.where((ids >= self.first) & (ids < self.first + self.work.local) & (self.meta[:, :1] >= 0), ids, -1)
        return ids, self.meta[:, 1 + k:]

    def experts(self):
        self.y.copy_(self.rank_experts(torch.nan_to_num(self.got), *self.chosen()))

    def combine(self, half):
        sizes = self.sizes and self.sizes[::-1]
        self.exchange(self.back, self.y, self.groups[half.values["ctas"]], sizes)
        total = torch.zeros(self.out.shape, device=self.device)
        for r in range(self.work.ranks):
            here = self.at[:, r] < self.rows_there
            rows = self.back[self.at[:, r].clamp(max=self.rows_there - 1)].float()
            total += torch.where(here[:, None], rows, 0.0)
        self.out.copy_(total)

    def layer(self, half):
        by, w = half.values["products"], self.work
        part = self.layers.get(by, lambda: RankLayer(by, self.layers.experts(w, self.device), self.rows_there, w.topk, mean_rows(w)))
        inside = part.stages(lambda: self.got, self.local_ids, lambda: self.chosen()[1].contiguous(), self.y)
        return [("dispatch", lambda: self.dispatch(half)), *inside, ("combine", lambda: self.combine(half))]

    def local_ids(self):
        """Returns local expert ids, [rows, top-k]. An id is -1 for an expert of another rank."""
        ids = self.chosen()[0]
        return torch.where(ids >= 0, ids - self.first, -1)

    def close(self):
        super().close()
        self.layers.close()

    def rows(self):
        if self.sizes is None:
            source = torch.arange(self.work.ranks, device=self.device).repeat_interleave(self.cap)
        else:
            source = torch.repeat_interleave(torch.tensor(self.sizes[0], device=self.device))
        meta = self.meta[:len(source)]
        used = (meta[:, 0] >= 0).nonzero()[:, 0]
        return source[used], meta[used, 0].long(), tuple(t[used] for t in self.chosen()), self.got[used]
