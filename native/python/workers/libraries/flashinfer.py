"""Runs MoeAlltoAll, FlashInfer's one-sided all-to-all.

In the output each source rank has a segment of max_tokens rows. The experts write their outputs to the library's
workspace, so that combine need not copy them. Dispatch and combine must alternate, because each resets flags that the
next call waits for.

The library reads block sizes from environment variables, but only at its first launch. So this worker loads a copy of
the library for each block size.
"""

import os
import pathlib
import shutil
import tempfile

import torch
from harness import kernel, param
from harness.gpu import GPULibrary
from harness.tensors import dequantized

THREADS = [128, 192, 256, 320, 384, 448, 512]
NOBODY = -1  # expert id of an empty row


class Library(GPULibrary):
    name, strict = "flashinfer", True
    written = ("got",)

    def start(self, ranks):
        super().start(ranks)
        import flashinfer
        import tvm_ffi
        from flashinfer.comm import trtllm_moe_alltoall
        from flashinfer.comm.comm_backend import TorchDistBackend
        from flashinfer.comm.mapping import Mapping
        from flashinfer.comm.mnnvl import MnnvlConfig
        from flashinfer.jit.comm import gen_moe_alltoall_module

        self.version, self.a2a, self.ffi = flashinfer.__version__, trtllm_moe_alltoall, tvm_ffi
        spec = gen_moe_alltoall_module("legacy")
        if self.rank == 0:
            ranks.line.doing = "compiling FlashInfer's kernel, once for this host"
            spec.build_and_load()
        ranks.barrier()
        spec.build_and_load()
        self.binary, self.loaded, self.where = pathlib.Path(spec.get_library_path()), {}, tempfile.mkdtemp()
        self.mapping = Mapping(world_size=ranks.ranks, rank=ranks.rank, gpus_per_node=ranks.ranks, tp_size=ranks.ranks, moe_ep_size=ranks.ranks)
        self.config = MnnvlConfig(comm_backend=TorchDistBackend())

    def kernels(self):
        rules = [("!problem.shared_expert && !problem.skip_a2a", "no shared expert, no skip_a2a"),
                 ('problem.dispatch == "bf16" || problem.dispatch == "fp8"', "bf16 and fp8 only")]
        threads = param("threads", "Threads of a block; the library's default is 256.", THREADS, 256, "threads", binding="session", cost=2)
        return [kernel(self, "flashinfer", "dispatch", "moe_a2a_dispatch", [threads], rules, layout="rank", inside=["counts"]),
                kernel(self, "flashinfer", "combine", "moe_a2a_combine, rows in its workspace", [threads], rules, layout="rank", sum="plain", inside=["reduction"])]

    def module(self, half):
        """Returns the copy of the library for a block size. Dispatch and combine use the same copy."""
        threads = half.values["threads"]
        if threads not in self.loaded:
            os.environ["TLLM_MOE_A2A_DISPATCH_BLOCK_SIZE"] = os.environ["TLLM_MOE_A2A_COMBINE_BLOCK_SIZE"] = str(threads)
            copy = shutil.copy(self.binary, pathlib.Path(self.where) / ("threads%d.so" % threads))
            self.loaded[threads] = self.ffi.load_module(str(copy))
            self.pass_through(self.loaded[threads])  # makes the first launch now, which reads the variables
        return self.loaded[threads]

    def prepare(self, half):
        self.module(half)

    def open(self, work):
        super().open(work)
        self.moe = self.a2a.MoeAlltoAll(self.mapping, work.capacity, work.topk, work.problem["experts"], hidden_size=work.hidden,
                                        workspace_size_per_rank=self.bytes_per_rank(work), mnnvl_config=self.config)
        self.workspace, self.metainfo = self.moe.workspace, self.moe.metainfo
        ids = self.ids.to(torch.int32).contiguous()
        token = torch.arange(work.tokens, dtype=torch.int32, device=self.device)[:, None].repeat(1, 4).contiguous()  # identifies a received row
        self.payloads = ([self.q, self.scales] if self.fp8 else [self.x]) + [ids, self.weights, token]
        self.ids32 = ids

    def bytes_per_rank(self, work):
        row = work.hidden * (1 if self.fp8 else 2) + (work.hidden // 32 if self.fp8 else 0) + 8 * work.topk + 16
        return self.a2a.moe_a2a_get_workspace_size_per_rank(work.ranks, work.capacity, row, 2 * work.hidden)

    def pass_through(self, module):
        self.send(module)
        self.reduce(module)
        self.settle()

    def send(self, module):
        w = self.work
        offsets, sizes, self.back, _, _ = module.moe_a2a_dispatch(
            self.ids32, self.payloads, self.workspace, self.metainfo, w.capacity, self.rank, w.ranks, w.topk, w.problem["experts"], True, None, False, None)
        self.got = [self.a2a.moe_a2a_wrap_payload_tensor_in_workspace(self.workspace, [w.ranks, w.capacity], o, o + s, p.dtype)
                    for p, o, s in zip(self.payloads, offsets, sizes)]

    def reduce(self, module):
        w = self.work
        y = self.slots()
        self.out = module.moe_a2a_combine(y, w.tokens, self.workspace, self.metainfo, w.capacity, self.rank, w.ranks, w.topk, self.back, True,
                                          None, None, 1.0, self.a2a.SfLayout.layout_linear.value, False, True, False, None)

    def slots(self):
        """Returns the part of the workspace to which the experts write, [ranks, max_tokens, hidden]."""
        w = self.work
        size = w.ranks * w.capacity * w.hidden * 2
        return self.a2a.moe_a2a_wrap_payload_tensor_in_workspace(self.workspace[self.rank, :], [w.ranks, w.capacity], self.back, self.back + size, torch.bfloat16)

    def dispatch(self, half):
        self.send(self.module(half))

    def combine(self, half):
        self.reduce(self.module(half))

    def used(self):
        """Returns each row's expert ids. In an empty row they are NOBODY."""
        ids = self.got[-3].clone()
        self.a2a.moe_a2a_sanitize_expert_ids(ids, self.workspace, self.metainfo, self.rank, NOBODY)
        return ids.view(-1, self.work.topk).long()

    def values(self):
        if self.fp8:
            return dequantized(self.got[0].reshape(-1, self.work.hidden), self.got[1].reshape(-1, self.scales.shape[1]))
        return self.got[0].reshape(-1, self.work.hidden)

    def experts(self):
        ids = self.used()
        here = torch.where(ids // self.work.local == self.rank, ids, NOBODY)
        y = self.rank_experts(torch.nan_to_num(self.values()), here, torch.nan_to_num(self.got[-2].reshape(-1, self.work.topk)))
        self.slots().copy_(y.view(self.work.ranks, self.work.capacity, -1))

    def rows(self):
        ids, weights = self.used(), self.got[-2].reshape(-1, self.work.topk)
        at = ((ids // self.work.local == self.rank).any(1)).nonzero()[:, 0]
        return at // self.work.capacity, self.got[-1].reshape(-1, 4)[at, 0].long(), (ids[at], weights[at]), self.values()[at]
