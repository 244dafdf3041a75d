"""Runs sm90_fp8_fp8_bf16_pull_cutedsl, FlashInfer's layer for SM90 in FP8. The experts' ranks read tokens from the
memory of the tokens' ranks, and write each expert's output back there. A call first copies the tokens, which were cast
before, into the library's buffer. The layer's output stays in the library's memory.

A token has one scale for every 128 numbers, and a weight matrix has one for each block of 128 x 128. The kernel
multiplies h, the result of SwiGLU, by the router's weight. It rounds this product to FP8, with one scale for every 64
numbers.

FlashInfer compiles the kernel anew for each shape and number of tokens. It needs the packages nvidia-cutlass-dsl and
nvshmem4py-cu13, but no nvcc.
"""

import os

from harness import Failure, kernel
from harness.gpu import GPULibrary
from harness.layers import Layers

INTERLEAVED = 8  # in W1, this many rows of gate and this many rows of up take turns
LEAST_TOKENS = 8  # FlashInfer's table of kernel geometries has no entry for fewer tokens


def kernel_weights(experts):
    """Returns W1 and W2 of the experts as FlashInfer's kernel wants them. Each is a tuple: numbers [local, inputs,
    outputs] with the inputs contiguous, scales of the blocks, and two None in place of scales of whole tensors.
    The rows of W1 change their places. The scales keep theirs, because all scales of a matrix are equal."""
    local, double, hidden = experts.w1.shape
    w1 = experts.w1.view(local, 2, double // 2 // INTERLEAVED, INTERLEAVED, hidden).transpose(1, 2).reshape(local, double, hidden)
    return tuple((w.transpose(1, 2), scales, None, None) for w, scales in zip((w1, experts.w2), experts.scales))


class Library(GPULibrary):
    name = "flashinfer"

    def __init__(self):
        self.layers, self.buffers, self.shape = Layers(), {}, None

    def start(self, ranks):
        super().start(ranks)
        import flashinfer
        from flashinfer.moe_ep.kernel_src.sm90 import pull_style_cutedsl_megakernel

        self.version, self.pull = flashinfer.__version__, pull_style_cutedsl_megakernel
        # FlashInfer reads torchrun's variables, which other launchers do not set.
        os.environ.update(RANK=str(ranks.rank), LOCAL_RANK=str(ranks.local_rank), WORLD_SIZE=str(ranks.ranks))
        self.pull.init_dist()

    def kernels(self):
        rules = [('problem.dispatch == "fp8"', "dtype: the kernel computes in fp8"), ("problem.nodes == 1", "nodes: one host only"),
                 ("problem.hidden % 128 == 0", "hidden: a multiple of 128"), ("problem.intermediate % 128 == 0", "intermediate: a multiple of 128"),
                 ("problem.top_k <= 32", "topk: at most 32"), ("!problem.shared_expert && !problem.skip_a2a", "no shared expert, no skip_a2a")]
        return [kernel(self, "flashinfer-pull", "layer", "copy to the buffer, hopper_fp8_mega_moe", [], rules)]

    def open(self, work):
        super().open(work)
        shape = (work.problem["experts"], work.topk, work.hidden, work.intermediate, work.ranks)
        if shape != self.shape:
            self.drop()
            self.shape = shape
        self.packed = self.layers.get("weights", lambda: kernel_weights(self.layers.experts(work, self.device)))
        self.buffer = self.buffer_of(max(work.capacity, LEAST_TOKENS))
        self.buffer.topk_idx.fill_(-1)  # rows after the session's tokens go to no expert

    def buffer_of(self, tokens):
        """Returns the buffer with room for `tokens` tokens of each rank. It keeps each buffer, because a new one needs
        a kernel of its own, which takes seconds to compile."""
        if tokens not in self.buffers:
            experts, topk, hidden, intermediate, ranks = self.shape
            self.buffers[tokens] = self.pull.get_symm_buffer_for_hopper_fp8_mega_moe(
                experts, tokens, topk, hidden, intermediate, self.rank, ranks, fp8_scale_mode="blockwise")
        return self.buffers[tokens]

    def drop(self):
        """Frees the buffers. It first waits until no rank reads or writes their memory any more."""
        self.graphs.forget()
        self.settle()
        self.ranks.barrier()
        for buffer in self.buffers.values():
            buffer.destroy()
        self.ranks.barrier()
        self.buffers = {}

    def prepare(self, half):
        if any(bool((ids < 0).any()) for ids in self.all_ids):
            raise Failure("illegal", "routing: the kernel adds the rows of all top-k experts, so no selection may be masked")
        self.ranks.line.doing = "compiling FlashInfer's kernel"
        self.pull.hopper_fp8_mega_launch_thunk(*self.packed, self.buffer)

    def layer(self, half):
        n, buffer = self.work.tokens, self.buffer
        inputs = [(buffer.x[:n], self.q), (buffer.x_sf[:n, :self.scales.shape[1]], self.scales),
                  (buffer.topk_idx[:n], self.ids), (buffer.topk_weights[:n], self.weights)]

        def copy():
            for into, tensor in inputs:
                into.copy_(tensor)

        def compute():
            self.out = self.pull.hopper_fp8_mega_moe(None, *self.packed, buffer, num_tokens=n)

        return [("copy", copy), ("kernel", compute)]

    def close(self):
        super().close()
        self.layers.close()
