"""Runs sm90_bf16_bf16_bf16_push_cake, FlashInfer's layer for SM90 in BF16. It writes tokens directly to the memory of
the experts' ranks, and writes results back in the same way.

The parameter `wire` says what an experts' rank sends back for a token. With prereduced it sends the sum of its rows
as one BF16 row. With prereduced_hilo it sends this sum as two BF16 rows, which together are more exact. With
per_route it sends each row.

FlashInfer compiles eight modules with nvcc at its first use on a host.
"""

import concurrent.futures

import torch
from harness import kernel, param
from harness.gpu import GPULibrary
from harness.layers import Layers

WIRES = ["prereduced", "prereduced_hilo", "per_route"]
PRODUCTS = ("fc1_gated", "fc2")


class Library(GPULibrary):
    name = "flashinfer"

    def __init__(self):
        self.layers, self.runners, self.shape, self.packed = Layers(), {}, None, None

    def start(self, ranks):
        super().start(ranks)
        import flashinfer
        from flashinfer.comm.comm_backend import TorchDistBackend
        from flashinfer.moe_ep.kernel_src.sm90 import cake_bf16_megamoe, push_style_megamoe
        from flashinfer.moe_ep.kernel_src.sm90.cake_bf16_megamoe.shim import cake_jit

        self.version, self.cake, self.push, self.group = flashinfer.__version__, cake_bf16_megamoe, push_style_megamoe, TorchDistBackend()
        makers = [push_style_megamoe.gen_sm90_push_a2a_module,
                  *(getattr(cake_jit, "gen_sm90_cake_bf16_%s_module" % name) for name in
                    ("compact", "combine_prereduced", "combine_tail", "combine_tail_prereduced", "dispatch"))]
        specs = [make() for make in makers] + [cake_jit.gen_sm90_cake_bf16_grouped_gemm_module(product) for product in PRODUCTS]
        if self.rank == 0:
            ranks.line.doing = "compiling FlashInfer's kernels, once for this host"
            with concurrent.futures.ThreadPoolExecutor(len(specs)) as pool:
                list(pool.map(lambda spec: spec.build_and_load(), specs))
        ranks.barrier()

    def kernels(self):
        rules = [('problem.dispatch == "bf16"', "dtype: the layer computes in bf16"), ("problem.nodes == 1", "nodes: one host only"),
                 ("problem.hidden % 256 == 0", "hidden: a multiple of 256"), ("problem.top_k in [1, 2, 4, 6, 8]", "topk: 1, 2, 4, 6 or 8"),
                 ("!problem.shared_expert && !problem.skip_a2a", "no shared expert, no skip_a2a")]
        wire = param("wire", "Form of the rows that go back.", WIRES, WIRES[0], binding="session")
        return [kernel(self, "flashinfer-push", "layer", "push, grouped products with SwiGLU, push of sums", [wire], rules)]

    def open(self, work):
        super().open(work)
        self.layers.experts(work, self.device)
        self.ids32 = self.ids.to(torch.int32).contiguous()

    def prepare(self, half):
        w, wire = self.work, half.values["wire"]
        shape = (w.ranks, w.local, w.hidden, w.intermediate, w.topk, w.capacity, w.seed)
        if shape != self.shape:
            self.drop()
            self.shape = shape
        if wire in self.runners:
            return
        experts = self.layers.experts(w, self.device)
        config = self.push.Sm90PushConfig(payload_dtype=self.push.Sm90PushPayload.BF16, combine_dtype=self.push.Sm90PushCombine.BF16, dedup_dispatch=True)
        pipe = self.push.Sm90PushPipe(ep_size=w.ranks, rank=self.rank, num_local_experts=w.local, hidden_size=w.hidden, top_k=w.topk,
                                      token_capacity=w.capacity, device_index=self.device.index, config=config, comm_backend=self.group,
                                      out_dtype=torch.bfloat16)
        self.packed = self.packed or self.cake.make_sm90_cake_bf16_weights(experts.w1, experts.w2)
        self.runners[wire] = self.cake.Sm90CakeBf16MoERunner(pipe, self.packed, combine_wire=wire)

    def drop(self):
        """Frees the runners. It first waits until no rank writes to their memory any more."""
        self.graphs.forget()
        self.settle()
        self.ranks.barrier()
        for runner in self.runners.values():
            runner.destroy()
        self.ranks.barrier()
        self.runners, self.packed = {}, None

    def layer(self, half):
        self.prepare(half)
        runner = self.runners[half.values["wire"]]
        return [("dispatch", lambda: runner.stage_inputs(self.x, self.ids32, self.weights)),
                ("products and combine", lambda: runner.compute(output=self.out))]

    def close(self):
        super().close()
        self.layers.close()
