"""Tests Megatron-Core's fused_dispatch and fused_combine, forward and backward."""

import harness
import torch
import torch.distributed as dist


def layer(a2a, shape, rank, tokens, seed, aside, experts, drop):
    """`aside` is the value of async_finish and of allocate_on_comm_stream."""
    x, ids, weights = harness.draw(shape, tokens, seed, rank)
    if drop:
        ids[:, -1] = -1
        weights = weights.masked_fill(ids < 0, 0)
    inputs = x.requires_grad_(), weights.requires_grad_()
    rows, got_ids, got_weights, counts, handle = a2a.fused_dispatch(x, ids, weights, shape.experts, dist.group.WORLD, aside, aside)
    out, by_expert = experts.by_row(rank, rows, got_ids, got_weights)
    assert counts.tolist() == by_expert, "tokens_per_expert"
    combined, _ = a2a.fused_combine(out, dist.group.WORLD, handle, aside, aside)
    torch.manual_seed(seed + 77 + rank)
    gradient = torch.randn(combined.shape, device="cuda").to(torch.bfloat16)
    torch.autograd.backward(combined, gradient)  # communicates, so ranks without tokens call it too
    if not tokens:
        return "this rank has no tokens"
    again = [t.detach().clone().requires_grad_() for t in inputs]
    want = harness.expected(again[0], ids, again[1], experts, False)
    want.backward(gradient.float())
    pairs = (combined, want), (inputs[0].grad, again[0].grad), (inputs[1].grad, again[1].grad)
    return ", ".join(harness.close(got.detach().float(), w.detach().float(), 1.5e-2) for got, w in pairs)


def main(rank, port):
    harness.start(rank, port)
    harness.join(rank, port)
    import deep_ep
    import megatron.core
    from megatron.core.transformer.moe import fused_a2a as a2a

    assert a2a.HAVE_DEEP_EP and a2a.Buffer is deep_ep.Buffer
    if harness.EMULATED:
        import emulated

        emulated.backward(a2a.FusedDispatch, a2a.FusedCombine)
    if rank == 0:
        print(f"Megatron-Core {megatron.core.__version__}", flush=True)
    cases = harness.Cases(rank, "megatron")
    a2a.set_deepep_num_sms(20)
    for shape in harness.SHAPES:
        experts = harness.Experts(shape)
        for aside in (False, True):
            for seed, counts in enumerate(shape.counts):
                cases.run(f"{shape.name}-{counts[0]}+{counts[1]}{'-async' * aside}",
                          lambda: layer(a2a, shape, rank, counts[rank], seed, aside, experts, False))
        cases.run(f"{shape.name}-dropped", lambda: layer(a2a, shape, rank, 6 + rank, 40, True, experts, True))
    cases.end()


if __name__ == "__main__":
    harness.spawn(main)
