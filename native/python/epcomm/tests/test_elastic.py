"""Compares ElasticBuffer with plain PyTorch on two ranks."""

import unittest
import warnings

import test_deepep as base
import torch
import torch.distributed as dist
from processes import close, join, run_ranks
from test_deepep import DEVICE, EXPERTS, RANKS, TOKENS, TOPK, cast, draw, gathered, refused, widened

from epcomm import deepep
from epcomm.deepep import elastic

LOCAL, HIDDEN = EXPERTS // RANKS, base.HIDDEN
MOST = TOKENS + 2


def drawn(rank, seed):
    x, ids, weights = draw(rank, seed)
    ids[1, 1] = ids[1, 0]
    return x, ids, weights


def expected(rank, everyone, x_of):
    """Returns what dispatch must return: column 0 of recv_src_metadata, the rows, the local ids and the weights."""
    parts = []
    for r, (x, ids, weights) in enumerate(everyone):
        here = (ids // LOCAL == rank) & (ids >= 0)
        tokens = here.any(1).nonzero()[:, 0]
        parts.append((r * MOST + tokens, x_of(x)[tokens], torch.where(here, ids % LOCAL, -1)[tokens], torch.where(here, weights, 0)[tokens]))
    return tuple(torch.cat(column) for column in zip(*parts))


def check_packed(buffer, rank, seed, fp8, sync):
    x, ids, weights = drawn(rank, seed)
    at, want, want_ids, want_weights = expected(rank, gathered((x, ids, weights)), (lambda x: widened(*cast(x))) if fp8 else lambda x: x)
    n, stats = len(at), torch.ones(LOCAL, dtype=torch.int32)
    call = dict(num_experts=EXPERTS, num_max_tokens_per_rank=MOST, do_cpu_sync=sync)
    rows, got_ids, got_weights, handle, event = buffer.dispatch(
        cast(x) if fp8 else x, ids, weights, cumulative_local_expert_recv_stats=stats, expert_alignment=8, async_with_compute_stream=True, **call)
    event.current_stream_wait(release_handle=True)
    values = widened(*rows) if fp8 else rows
    assert len(values) == handle.num_recv_tokens == (n if sync else RANKS * MOST), "rows"
    assert torch.equal(values[:n], want) and torch.equal(got_ids[:n], want_ids) and (got_ids[n:] == -1).all()
    assert torch.equal(torch.where(want_ids >= 0, got_weights[:n], 0), want_weights)
    counts = torch.tensor([(want_ids == e).sum() for e in range(LOCAL)], dtype=torch.int32)
    spans = (counts + 7) // 8 * 8
    assert torch.equal(stats, counts + 1) and handle.num_recv_tokens_per_expert_list == (spans.tolist() if sync else [])
    assert torch.equal(handle.psum_num_recv_tokens_per_expert, spans.cumsum(0).int())
    assert handle.psum_num_recv_tokens_per_scaleup_rank[-1] == n and torch.equal(handle.recv_src_metadata[:n, 0].long(), at)
    again, same_ids, none, same, _ = buffer.dispatch(cast(x) if fp8 else x, handle=handle)
    assert torch.equal((widened(*again) if fp8 else again)[:n], want) and same is handle and none is None and torch.equal(same_ids, got_ids)
    _, _, again_weights, _, _ = buffer.dispatch(cast(x) if fp8 else x, topk_weights=2 * weights, handle=handle)
    assert torch.equal(torch.where(want_ids >= 0, again_weights[:n], 0), 2 * want_weights)
    check_combine(buffer, handle, values, got_weights, x, ids, weights, fp8)


def check_combine(buffer, handle, y, got_weights, x, ids, weights, fp8):
    owners = torch.where(ids >= 0, ids // LOCAL, -1)
    times = sum((owners == r).any(1).float() for r in range(RANKS)) if not handle.do_expand else (ids >= 0).sum(1).float()
    sent = widened(*cast(x)) if fp8 else x
    for bias in (None, torch.randn(x.shape).to(torch.bfloat16), (torch.ones_like(x), torch.randn(x.shape).to(torch.bfloat16))):
        back, back_weights, event = buffer.combine(y, handle, topk_weights=got_weights, bias=bias, previous_event=buffer.capture(),
                                                   allocate_on_comm_stream=True)
        added = sum(b.float() for b in ((bias,) if isinstance(bias, torch.Tensor) else bias or ()))
        close(back, sent.float() * times[:, None] + added, 8e-3)
        assert event.event is None
        close(back_weights, weights.masked_fill(ids < 0, 0), 1e-6)


def check_expanded(buffer, rank, seed, fp8, sync, alignment):
    x, ids, weights = drawn(rank, seed)
    at, want, want_ids, want_weights = expected(rank, gathered((x, ids, weights)), (lambda x: widened(*cast(x))) if fp8 else lambda x: x)
    rows, none, got_weights, handle, _ = buffer.dispatch(
        cast(x) if fp8 else x, ids, weights, num_experts=EXPERTS, num_max_tokens_per_rank=MOST, expert_alignment=alignment, do_cpu_sync=sync,
        do_expand=True, do_zero_padding=True, use_tma_aligned_col_major_sf=True)
    assert none is None and (not fp8 or rows[1].stride(0) == 1 and rows[1].stride(1) % 4 == 0)
    values = widened(rows[0], rows[1].contiguous()) if fp8 else rows
    slots, ends, begin = handle.recv_src_metadata[:len(at), 2:].long(), handle.psum_num_recv_tokens_per_expert.tolist(), 0
    assert torch.equal(slots >= 0, want_ids >= 0)
    filled = torch.zeros(len(values), dtype=torch.bool)
    for e in range(LOCAL):
        there = (want_ids == e).nonzero()
        assert ends[e] == begin + len(there), (e, ends, begin)
        mine = slots[want_ids == e]
        assert sorted(mine.tolist()) == list(range(begin, ends[e])), "a row of an expert is filled twice, or not at all"
        assert torch.equal(values[mine], want[there[:, 0]]) and torch.equal(got_weights[mine], want_weights[want_ids == e])
        filled[mine] = True
        begin = -(-ends[e] // alignment) * alignment
    assert len(values) == begin or not sync and len(values) >= begin
    assert (values[~filled] == 0).all() and (got_weights[~filled] == 0).all()
    again, _, again_weights, _, _ = buffer.dispatch(cast(x) if fp8 else x, topk_weights=weights, handle=handle, do_expand=True)
    assert torch.equal((widened(*again) if fp8 else again)[filled], values[filled]) and torch.equal(again_weights, got_weights)
    check_combine(buffer, handle, torch.where(filled[:, None], values, float("nan")), got_weights, x, ids, weights, fp8)


def idle(buffer, rank):
    x, ids, weights = (t[:0] if rank == 1 else t for t in draw(rank, 10))
    for sync in (True, False):
        for spread in (False, True):
            rows, _, got_weights, handle, _ = buffer.dispatch(x, ids, weights, num_experts=EXPERTS, do_cpu_sync=sync, do_expand=spread)
            back, back_weights, _ = buffer.combine(rows, handle, topk_weights=got_weights)
            assert back.shape == x.shape and back_weights.shape == weights.shape


def refusals(buffer, rank):
    x, ids, weights = draw(rank, 0)
    make = lambda **more: deepep.ElasticBuffer(dist.group.WORLD, num_max_tokens_per_rank=MOST, device=buffer._calls.device, **more)
    _, _, _, handle, _ = buffer.dispatch(x, ids, num_experts=EXPERTS)
    _, _, _, spread, _ = buffer.dispatch(x, ids, num_experts=EXPERTS, do_expand=True)
    precise = make(allow_multiple_reduction=False)
    for error, says, call in (
        (deepep.NotServed, "num_cpu_bytes", lambda: make(num_cpu_bytes=1 << 21)),
        (deepep.NotServed, "engram_fetch", lambda: buffer.engram_fetch(ids)),
        (deepep.NotServed, "torch.distributed.send", lambda: buffer.pp_send(x, 1)),
        (deepep.NotServed, "all_gather_into_tensor", lambda: buffer.all_gather(x)),
        (deepep.NotServed, "get_pp_buffer_size_hint", lambda: deepep.ElasticBuffer.get_pp_buffer_size_hint(1, 1)),
        (deepep.NotServed, "num_scaleout_topk", lambda: buffer.get_theoretical_num_sms(EXPERTS, TOPK, 2)),
        (ValueError, "num_experts, num_topk", lambda: buffer.get_theoretical_num_sms(EXPERTS, EXPERTS + 1)),
        (ValueError, "num_experts, num_topk", lambda: buffer.get_theoretical_num_sms(0, 0)),
        (deepep.NotServed, "allow_multiple_reduction", lambda: precise.combine(x, spread)),
        (ValueError, "x: torch.bfloat16", lambda: buffer.combine(x[:, :-8], spread)),
        (ValueError, "topk_weights: torch.float64", lambda: buffer.combine(x.new_empty(spread.num_expanded_tokens, HIDDEN), spread, topk_weights=weights.double())),
        (ValueError, "do_expand", lambda: buffer.dispatch(x, handle=handle, do_expand=True)),
        (ValueError, "expert_alignment", lambda: buffer.dispatch(x, handle=handle, expert_alignment=2)),
        (ValueError, "num_max_tokens_per_rank: 99", lambda: buffer.dispatch(x, ids, num_experts=EXPERTS, num_max_tokens_per_rank=99)),
        (AssertionError, "do_cpu_sync", lambda: buffer.dispatch(x, handle=handle, do_cpu_sync=True)),
    ):
        refused(error, says, call)


def one_rank(rank, port):
    join(rank, port, DEVICE)
    if DEVICE == "cpu":
        elastic.ElasticBuffer._device_sms = lambda buffer: 4
        torch.cuda.synchronize = lambda: None
    device = torch.device("cpu") if DEVICE == "cpu" else None
    buffer = deepep.ElasticBuffer(dist.group.WORLD, num_bytes=1 << 21, explicitly_destroy=True, device=device)
    refused(ValueError, "num_max_tokens_per_rank", lambda: buffer.dispatch(*drawn(rank, 0)[:2], num_experts=EXPERTS))
    for fp8 in (False, True):
        for sync in (True, False):
            check_packed(buffer, rank, 1, fp8, sync)
            check_expanded(buffer, rank, 2, fp8, sync, 8 if fp8 else 1)
    idle(buffer, rank)
    refusals(buffer, rank)
    buffer.barrier(with_cpu_sync=True)
    buffer.destroy()
    dist.barrier()


class TestElastic(unittest.TestCase):
    def test_two_ranks(self):
        run_ranks(self, one_rank)

    def test_theoretical_sms(self):
        """Compares with numbers of SMs that come from DeepEP V2."""
        buffer = elastic.ElasticBuffer.__new__(elastic.ElasticBuffer)
        buffer._sms, buffer._device_sms = {}, lambda: 132
        gbs = 18 * 26.562 * elastic.LINK_EFFICIENCY
        for ranks, shares, want in ((2, True, 22), (8, True, 14), (2, False, 64), (1, True, 132)):
            buffer.num_ranks, buffer.prefer_overlap_with_compute = ranks, shares
            self.assertEqual(buffer._theoretical_sms(256, 8, gbs, elastic.READ_GBS, elastic.WRITE_GBS), want)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            buffer.num_ranks, buffer.prefer_overlap_with_compute, elastic.nvlink_gbs = 2, True, lambda: 0.0
            self.assertEqual(buffer._theoretical_sms(256, 8, 0, elastic.READ_GBS, elastic.WRITE_GBS), elastic.LEAST_SMS)
        self.assertIn("give num_sms", str(caught[0].message))


if __name__ == "__main__":
    unittest.main()
