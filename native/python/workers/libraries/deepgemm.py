"""Runs fp8_mega_moe of DeepGEMM, a kernel that computes a whole layer in FP8 on SM90. A call first copies the tokens,
which were cast before, into the library's buffer.

DeepGEMM compiles the kernel with nvcc at the first call of a shape.
"""

from harness import installed_version, kernel
from harness.gpu import GPULibrary
from harness.layers import Layers


class Library(GPULibrary):
    name = "deepgemm"

    def __init__(self):
        self.layers, self.buffer, self.shape = Layers(), None, None

    def start(self, ranks):
        super().start(ranks)
        import torch.distributed as dist
        import deep_gemm

        if not hasattr(deep_gemm, "fp8_mega_moe"):
            raise ImportError("this deep_gemm has no fp8_mega_moe; sgl-deep-gemm 0.2.0 has it")
        self.gemm, self.group, self.version = deep_gemm, dist.group.WORLD, installed_version("deep_gemm", getattr(deep_gemm, "__version__", "2"))

    def kernels(self):
        rules = [('problem.dispatch == "fp8"', "dtype: the kernel computes in fp8"), ("problem.nodes == 1", "nodes: one host only"),
                 ("problem.hidden % 128 == 0", "hidden: a multiple of 128"), ("!problem.shared_expert && !problem.skip_a2a", "no shared expert, no skip_a2a")]
        return [kernel(self, "deepgemm-mega", "layer", "copy to the buffer, fp8_mega_moe", [], rules)]

    def open(self, work):
        super().open(work)
        experts, shape = self.layers.experts(work, self.device), (work.problem["experts"], work.capacity, work.topk, work.hidden, work.intermediate)
        if shape != self.shape:
            if self.buffer is not None:
                self.buffer.destroy()
            self.buffer = self.gemm.get_symm_buffer_for_mega_moe(self.group, *shape)
            self.shape = shape
        self.packed = self.layers.get("weights", lambda: self.gemm.transform_weights_for_mega_moe_sm90(
            (experts.w1, experts.scales[0]), (experts.w2, experts.scales[1])))

    def layer(self, half):
        n, buffer = self.work.tokens, self.buffer
        inputs = [(buffer.x, self.q), (buffer.x_sf, self.scales), (buffer.topk_idx, self.ids), (buffer.topk_weights, self.weights)]

        def copy():
            for into, tensor in inputs:
                into[:n].copy_(tensor)

        return [("copy", copy), ("kernel", lambda: self.gemm.fp8_mega_moe(self.out, *self.packed, buffer))]

    def close(self):
        super().close()
        self.layers.close()
