"""Tests ranks that make different calls: every rank must raise the same error, long before the deadline."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from processes import join, run_ranks  # noqa: E402

from epcomm import deepep  # noqa: E402
from epcomm.comm import EpcommError  # noqa: E402

RANKS, HIDDEN, EXPERTS, TOPK = 2, 512, 16, 4
DEVICE = os.environ.get("EPCOMM_TEST_DEVICE", "cpu")
AT = torch.device("cpu") if DEVICE == "cpu" else None


def low(buffer, rank, most, **options):
    torch.manual_seed(rank)
    x, weights = torch.randn((6, HIDDEN)).to(torch.bfloat16), torch.rand((6, TOPK))
    ids = torch.rand((6, EXPERTS)).topk(TOPK, dim=1)[1]
    options = {"use_fp8": False, **options}
    got, _, handle, _, hook = buffer.low_latency_dispatch(x, ids, most, EXPERTS, **options)
    if hook is not None:
        hook()
    rows = got[0].to(torch.bfloat16) if options["use_fp8"] else got
    buffer.low_latency_combine(rows, ids, weights, handle)


def normal(buffer, rank, sms):
    x = torch.randn((6, HIDDEN)).to(torch.bfloat16)
    ids = torch.rand((6, EXPERTS)).topk(TOPK, dim=1)[1]
    per_rank, _, per_expert, is_in, _ = buffer.get_dispatch_layout(ids, EXPERTS)
    return buffer.dispatch(x, num_tokens_per_rank=per_rank, is_token_in_rank=is_in, num_tokens_per_expert=per_expert, config=deepep.Config(sms))


def order(buffer, rank):
    got, _, _, _, handle, _ = normal(buffer, rank, 4)
    buffer.combine(got, handle)

    def differ():
        normal(buffer, rank, 4) if rank else buffer.combine(got, handle)
        buffer.combine(got, handle)

    return differ


# Each situation has a name, a function f(buffer, rank), and the difference that the error must name. f makes calls
# that are equal on all ranks, and returns a function that makes a call that is not.
SITUATIONS = (
    ("the first size", lambda b, r: lambda: low(b, r, 16 if r else 8), "num_max_dispatch_tokens_per_rank is 8 on rank 0, 16 on rank 1"),
    ("a later size", lambda b, r: low(b, r, 16) or (lambda: low(b, r, 24 if r else 16)), "num_max_dispatch_tokens_per_rank is 16 on rank 0, 24 on rank 1"),
    ("SMs", lambda b, r: normal(b, r, 4) and (lambda: normal(b, r, 2 if r else 4)), "num_sms is 4 on rank 0, 2 on rank 1"),
    ("dtype", lambda b, r: lambda: low(b, r, 16, use_fp8=bool(r)), "dtype is bf16 on rank 0, fp8 on rank 1"),
    ("hooks", lambda b, r: lambda: low(b, r, 16, return_recv_hook=bool(r)), "return_recv_hook is False on rank 0, True on rank 1"),
    ("order", order, "the call is combine on rank 0, dispatch on rank 1"),
)


def one_rank(rank, port):
    os.environ.update(EPCOMM_MAX_TOKENS="16", EPCOMM_DEADLINE="40")
    raised = []
    join(rank, port, DEVICE)
    warm = deepep.Buffer(dist.group.WORLD, explicitly_destroy=True, device=AT)
    for most in (8, 16, 24):
        low(warm, rank, most)
    low(warm, rank, 16, use_fp8=True)
    for sms in (4, 2):
        normal(warm, rank, sms)
    warm.destroy()
    for name, situation, _ in SITUATIONS:
        buffer = deepep.Buffer(dist.group.WORLD, device=AT)
        differ = situation(buffer, rank)
        dist.barrier()
        began = time.monotonic()
        try:
            while time.monotonic() < began + 1:
                differ()
                time.sleep(0.01)
            raised.append((name, "nothing was raised", 0))
        except EpcommError as e:
            raised.append((name, str(e), time.monotonic() - began))
        dist.barrier()
    return raised


class TestAgreement(unittest.TestCase):
    def test_every_rank_raises_the_same_error(self):
        raised = run_ranks(self, one_rank)
        for (name, first, took), (_, second, took_too), (_, _, want) in zip(raised[0], raised[1], SITUATIONS):
            with self.subTest(name):
                self.assertEqual(first, second)
                self.assertEqual(first, f"disagree: the ranks differ in what they call: {want}; all ranks must make the same calls")
                self.assertLess(max(took, took_too), 20)  # seconds; the deadline is 40 s
        self.assertEqual(len(raised[0]), len(SITUATIONS), raised)


if __name__ == "__main__":
    unittest.main()
