"""Tests Buffer with enable_shrink on two ranks. Rank 1 misses some calls, so that rank 0 must continue without it.
EPBENCH_PROGRAM must name the program epbench. If EPCOMM_NATIVE names the C++ extension, the tests run a second time
with it."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from processes import join, run_ranks  # noqa: E402

from epcomm import deepep, native  # noqa: E402
from epcomm.comm import EpcommError  # noqa: E402
from epcomm.deepep.config import NotServed  # noqa: E402

RANKS, HIDDEN, EXPERTS, TOPK, TOKENS = 2, 512, 16, 4, 11
LOCAL = EXPERTS // RANKS


def draw(rank, seed):
    torch.manual_seed(seed * RANKS + rank)
    return torch.randn((TOKENS, HIDDEN)).to(torch.bfloat16), torch.rand((TOKENS, EXPERTS)).topk(TOPK, dim=1)[1], torch.rand((TOKENS, TOPK))


def call(buffer, rank, seed, alive, halves=False):
    """Makes a dispatch and a combine, and checks that the sums have no share of experts on lost ranks."""
    x, ids, weights = draw(rank, seed)
    rows, count, handle, _, hook = buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False, return_recv_hook=halves)
    if halves:
        hook()
    out, _, hook = buffer.low_latency_combine(rows, ids, weights, handle, return_recv_hook=halves)
    if halves:
        hook()
    buffer.check()
    lives = torch.tensor([e // LOCAL in alive for e in range(EXPERTS)])
    want = x.float() * (weights * lives[ids]).sum(1, keepdim=True)
    assert torch.allclose(out.float(), want, rtol=0.02, atol=0.02), (out.float() - want).abs().max()
    sent = sum(int((draw(r, seed)[1] // LOCAL == rank).sum()) for r in alive)
    assert int(count.sum()) == sent, f"{int(count.sum())} rows from ranks {alive}, want {sent}"


def masked(buffer):
    status = torch.full((RANKS,), 7, dtype=torch.int32)
    buffer.low_latency_query_mask_buffer(status)
    return status.tolist()


def without_the_other(buffer):
    """Makes the buffer continue with rank 0 alone. Returns the receive hook of a dispatch."""
    x, ids, weights = draw(0, 3)
    rows, _, handle, _, _ = buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False)
    for what in (buffer.check, lambda: buffer.low_latency_combine(rows, ids, weights, handle)):
        try:
            what()
        except EpcommError as e:
            assert e.status == "fault" and "rank 1" in str(e), e
        else:
            raise AssertionError("a call that did not end raised no error")
    buffer.low_latency_update_mask_buffer(1, True)
    for seed in range(4, 7):
        call(buffer, 0, seed, [0], halves=seed == 5)
    assert masked(buffer) == [0, 1], masked(buffer)
    rank_1_does_not_come(buffer)
    return buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False, return_recv_hook=True)[-1]


def rank_1_does_not_come(buffer):
    def meet(_):
        raise EpcommError(8, "rank 1 did not make it")

    buffer._meet = meet
    try:
        buffer.low_latency_clean_mask_buffer()
    except EpcommError:
        del buffer._meet
    assert masked(buffer) == [0, 1], masked(buffer)


def one_rank(rank, port, extension):
    os.environ["EPCOMM_DEADLINE"] = "5"
    join(rank, port)
    plain = deepep.Buffer(dist.group.WORLD, low_latency_mode=True, device=torch.device("cpu"))
    try:
        plain.low_latency_update_mask_buffer(1 - rank, True)
    except NotServed as e:
        assert "enable_shrink" in str(e), e
    buffer = deepep.Buffer(dist.group.WORLD, low_latency_mode=True, explicitly_destroy=True, enable_shrink=True, device=torch.device("cpu"))
    assert bool(buffer._lane.native) == (extension != "0"), "the run without the extension uses it, or the run with the extension does not"
    for seed in (1, 2):
        call(buffer, rank, seed, [0, 1], halves=seed == 2)
    dist.barrier()
    late = without_the_other(buffer) if rank == 0 else None
    dist.barrier()
    buffer.low_latency_clean_mask_buffer()
    assert masked(buffer) == [0, 0]
    if late is not None:
        try:
            late()
        except RuntimeError as e:
            assert "is lost" in str(e), e
        else:
            raise AssertionError("a hook received a call from before ranks came back")
    for seed in range(7, 10):
        call(buffer, rank, seed, [0, 1], halves=seed == 8)
    buffer.destroy()


class TestShrink(unittest.TestCase):
    def leaves_and_comes_back(self, extension):
        run_ranks(self, one_rank, extension, EPCOMM_NATIVE=extension)

    def test_a_rank_leaves_and_comes_back_by_ctypes(self):
        self.leaves_and_comes_back("0")

    @unittest.skipUnless(native.load(), "the extension is not built")
    def test_a_rank_leaves_and_comes_back_by_the_extension(self):
        self.leaves_and_comes_back(os.path.abspath(native.load()._name))


if __name__ == "__main__":
    unittest.main()
