"""Runs a decode step of a mixture-of-experts layer in PyTorch, captured in a CUDA graph.

    torchrun --standalone --nproc-per-node 2 decode.py model.pack

Each rank also computes its tokens with all experts, without epcomm. Both outputs must agree.
"""

import sys

import torch
import torch.distributed as dist

from epcomm import EP


class Layer(torch.nn.Module):
    """A layer whose experts are square matrices."""

    def __init__(self, ep, tokens):
        super().__init__()
        g = torch.Generator(device=ep.device).manual_seed(1)  # the same on every rank
        shape = {"generator": g, "device": ep.device, "dtype": torch.float32}
        self.ep, self.tokens = ep, tokens
        self.gate = (torch.randn((ep.hidden, ep.experts), **shape) / ep.hidden**0.5).bfloat16()
        every = [torch.randn((ep.hidden, ep.hidden), **shape).bfloat16() / ep.hidden**0.5 for _ in range(ep.experts)]
        first = ep.rank * ep.local_experts
        self.every, self.mine = every, torch.stack(every[first:first + ep.local_experts])
        # A graph has fixed shapes, so each step computes the largest number of rows that a rank can receive.
        self.rows = min(ep.ranks * tokens * ep.topk + 4 * ep.groups, ep.max_rows("bf16"))
        self.y = torch.zeros((ep.max_rows("bf16"), ep.hidden), dtype=torch.bfloat16, device=ep.device)

    def route(self, x):
        scores = (x @ self.gate).float().softmax(-1)
        weights, ids = scores.topk(self.ep.topk, dim=-1)
        return ids, (weights / weights.sum(-1, keepdim=True)).contiguous()

    def forward(self, x):
        ids, weights = self.route(x)
        got = self.ep.dispatch(x, ids, weights, fullest=self.tokens, dtype="bf16")
        x_rows, offsets = got.out[:self.rows], got.row_offsets[1:self.ep.groups + 1]
        if hasattr(torch, "_grouped_mm") and x.is_cuda:
            y = torch._grouped_mm(x_rows, self.mine, offs=offsets)
        else:
            expert = torch.searchsorted(offsets.contiguous(), torch.arange(self.rows, device=x.device, dtype=torch.int32), right=True)
            y = torch.bmm(x_rows[:, None], self.mine[expert.clamp_max(self.ep.groups - 1)])[:, 0]
        self.y[:self.rows] = y
        return self.ep.combine(self.y, ids, weights, fullest=self.tokens, dtype="bf16")

    def alone(self, x):
        ids, weights = self.route(x)
        out = torch.zeros_like(x, dtype=torch.float32)
        for k in range(self.ep.topk):
            for t in range(x.shape[0]):
                out[t] += weights[t, k] * (x[t] @ self.every[int(ids[t, k])]).float()
        return out


def main(pack, device="cuda"):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if device == "cuda":
        torch.cuda.set_device(rank)
    ep = EP(pack=pack, device=torch.device(device, rank) if device == "cuda" else torch.device("cpu"))
    layer = Layer(ep, tokens=min(8, ep.max_tokens))
    x = torch.randn((layer.tokens, ep.hidden), device=ep.device).bfloat16()
    step = layer
    layer(x)  # PyTorch needs a run before the capture
    if device == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layer(x)

        def step(new):
            x.copy_(new)
            graph.replay()
            return out

    for seed in range(5):
        g = torch.Generator(device=ep.device).manual_seed(100 * seed + rank)
        new = torch.randn(x.shape, generator=g, device=ep.device).bfloat16()
        got = step(new).float()
        if device == "cuda":
            torch.cuda.synchronize()
        ep.check()  # the replay of a graph cannot report a fault
        want = layer.alone(new)
        error = ((got - want).norm() / want.norm()).item()
        assert error < 0.02, f"rank {rank}: relative error {error}"
    if rank == 0:
        print(f"5 decode steps of {layer.tokens} tokens a rank are right: {ep.explain(layer.tokens, dtype='bf16')[0]}")
    ep.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
