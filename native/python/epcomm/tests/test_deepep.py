"""Compares epcomm.deepep with plain PyTorch on two ranks. EPCOMM_TEST_DEVICE=cuda uses two GPUs.
EPCOMM_TEST_SHAPE=hidden,experts,topk,tokens sets the shape. EPBENCH_PROGRAM must name the program epbench.
EPCOMM_NATIVE names the C++ extension. With EPCOMM_NATIVE=0, calls go through ctypes."""

import contextlib
import inspect
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from processes import close, join, run_ranks  # noqa: E402

from epcomm import deepep  # noqa: E402
from epcomm.comm import PURPOSES, Call, EpcommError  # noqa: E402

RANKS, DEVICE = 2, os.environ.get("EPCOMM_TEST_DEVICE", "cpu")
HIDDEN, EXPERTS, TOPK, TOKENS = map(int, os.environ.get("EPCOMM_TEST_SHAPE", "512,16,4,11").split(","))


def cast(x):
    groups = x.view(x.shape[0], -1, 128).float()
    scales = groups.abs().amax(dim=2, keepdim=True).clamp(1e-4) / 448
    return (groups / scales).to(torch.float8_e4m3fn).view(x.shape), scales.squeeze(2)


def widened(x, scales):
    if scales.dtype is torch.int32:
        scales = (scales.clone(memory_format=torch.contiguous_format).view(torch.uint8).to(torch.int32) << 23).view(torch.float32)
    return (x.float().view(*x.shape[:-1], -1, 128) * scales.unsqueeze(-1)).view(x.shape).to(torch.bfloat16)


def draw(rank, seed):
    torch.manual_seed(seed * RANKS + rank)
    tokens = TOKENS - rank
    x = torch.randn((tokens, HIDDEN)).to(torch.bfloat16)
    ids = torch.rand((tokens, EXPERTS)).topk(TOPK, dim=1)[1]
    ids[0, 1] = -1
    ids[-1] = -1
    return x, ids, torch.rand((tokens, TOPK), dtype=torch.float32)


def gathered(t):
    everyone = [None] * RANKS
    dist.all_gather_object(everyone, tuple(v.cpu() for v in t))
    return [tuple(v.to(DEVICE) for v in one) for one in everyone]


def check_normal(buffer, rank, seed):
    x, ids, weights = draw(rank, seed)
    everyone = gathered((x, ids, weights))
    per_rank, _, per_expert, is_in, _ = buffer.get_dispatch_layout(ids, EXPERTS)
    local = EXPERTS // RANKS
    for r in range(RANKS):
        assert per_rank[r] == is_in[:, r].sum() == ((ids // local == r) & (ids >= 0)).any(dim=1).sum()
    assert per_expert.tolist() == [(ids == e).sum().item() for e in range(EXPERTS)]
    args = {"num_tokens_per_rank": per_rank, "is_token_in_rank": is_in, "num_tokens_per_expert": per_expert}
    for source in (x, cast(x), (cast(x)[0], cast(x)[1].T.contiguous().T)):
        for topk in (False, True):
            more = {"topk_idx": ids, "topk_weights": weights} if topk else {}
            got, got_ids, got_weights, counts, handle, _ = buffer.dispatch(source, **args, **more)
            check_rows(rank, everyone, source, got, got_ids, got_weights, counts, handle)
            worst, worst_ids, _, none, _, _ = buffer.dispatch(source, num_worst_tokens=RANKS * TOKENS, **args, **more)
            n = got[0].shape[0] if isinstance(got, tuple) else got.shape[0]
            first = worst[0] if isinstance(worst, tuple) else worst
            assert none == [] and first.shape[0] == RANKS * TOKENS
            assert torch.equal(first[:n].view(torch.uint8), (got[0] if isinstance(got, tuple) else got).view(torch.uint8))
            if topk:
                assert torch.equal(worst_ids[:n], got_ids) and (worst_ids[n:] == -1).all()
            again, *_ = buffer.dispatch(source, handle=handle, num_worst_tokens=RANKS * TOKENS)
            assert (again[0] if isinstance(again, tuple) else again).shape[0] == n, "the number of rows is not the handle's"
            assert torch.equal((again[0] if isinstance(again, tuple) else again).view(torch.uint8), first[:n].view(torch.uint8))
            y = widened(*got) if isinstance(got, tuple) else got
            bias = torch.ones((x.shape[0], HIDDEN), dtype=torch.bfloat16)
            back, back_weights, _ = buffer.combine(y, handle, topk_weights=got_weights, bias=bias if topk else None)
            sent = widened(*cast(x)) if isinstance(source, tuple) else x
            close(back, sent.float() * is_in.sum(dim=1, keepdim=True) + topk, 5e-3)
            if topk:
                close(back_weights, weights.masked_fill(ids < 0, 0), 1e-6)


def check_rows(rank, everyone, source, got, got_ids, got_weights, counts, handle):
    """Checks that rows are sorted by source rank and then by token, and that they have the right local experts."""
    local, at = EXPERTS // RANKS, 0
    rows = widened(*got) if isinstance(got, tuple) else got
    for r, (x, ids, weights) in enumerate(everyone):
        here = (ids // local == rank) & (ids >= 0)
        tokens = here.any(dim=1).nonzero().flatten()
        want = widened(*cast(x)) if isinstance(source, tuple) else x
        assert torch.equal(rows[at:at + len(tokens)], want[tokens]), f"rows of rank {r}"
        assert torch.equal(handle[3][at:at + len(tokens)], tokens.int())
        if got_ids is not None:
            assert torch.equal(got_ids[at:at + len(tokens)], torch.where(here, ids % local, -1)[tokens])
            assert torch.equal(got_weights[at:at + len(tokens)], torch.where(here, weights, 0)[tokens])
        at += len(tokens)
        assert handle[0][r, rank] == at
    assert at == rows.shape[0] and handle[3].is_contiguous()
    assert counts == [sum((ids == rank * local + e).sum().item() for _, ids, _ in everyone) for e in range(local)]


def check_low_latency(buffer, rank, seed):
    x, ids, weights = draw(rank, seed)
    everyone = gathered((x, ids, weights))
    local = EXPERTS // RANKS
    options = [dict(use_fp8=False), dict(), dict(round_scale=True), dict(round_scale=True, use_ue8m0=True)]
    for option in options:
        for hook in (False, True):
            stats = torch.zeros(local, dtype=torch.int32)
            got, count, handle, event, finish = buffer.low_latency_dispatch(
                x, ids, TOKENS, EXPERTS, cumulative_local_expert_recv_stats=stats, async_finish=not hook, return_recv_hook=hook, **option)
            finish() if hook else event.current_stream_wait()
            assert torch.equal(stats, count)
            fp8 = option.get("use_fp8", True)
            rows = widened(*got) if fp8 else got
            assert rows.shape == (local, RANKS * TOKENS, HIDDEN)
            if fp8:
                assert got[1].stride()[1] == 1, "the scales of a column are not contiguous"
            for e in range(local):
                check_block(rank * local + e, everyone, rows[e], count[e], handle[0][e], handle[1][e], 0.1 if fp8 else 1e-9)
            for zero_copy in (False, True):
                y = rows
                if zero_copy:
                    buffer.get_next_low_latency_combine_buffer(handle)[:] = rows
                    y = torch.zeros_like(rows)
                out = torch.empty((x.shape[0], HIDDEN), dtype=torch.bfloat16)
                back, event, finish = buffer.low_latency_combine(y, ids, weights, handle, zero_copy=zero_copy, return_recv_hook=hook, out=out)
                if hook:
                    finish()
                assert back is out
                close(back, x.float() * weights.masked_fill(ids < 0, 0).sum(dim=1, keepdim=True), 0.06 if fp8 else 6e-3)


def check_block(expert, everyone, rows, count, src_info, ranges, bound):
    at = 0
    for r, (x, ids, _) in enumerate(everyone):
        tokens = (ids == expert).any(dim=1).nonzero().flatten()
        assert ranges[r].item() == at << 32 | len(tokens)
        assert torch.equal(src_info[at:at + len(tokens)], tokens.int())
        if len(tokens):
            close(rows[at:at + len(tokens)], x[tokens], bound)
        at += len(tokens)
    assert count.item() == at


def known_calls(buffer, rank):
    """Makes calls twice with the same arguments. Checks that the second calls do not run Buffer's Python methods."""
    x, ids, weights = draw(rank, 4)

    def calls(source, config, named):
        per_rank, _, per_expert, is_in, _ = buffer.get_dispatch_layout(topk_idx=ids, num_experts=EXPERTS) if named else buffer.get_dispatch_layout(ids, EXPERTS)
        got, got_ids, got_weights, counts, handle, event = buffer.dispatch(
            source, None, per_rank, None, is_in, per_expert, ids, weights, 4, config=config)
        y = widened(*got) if isinstance(got, tuple) else got
        back, back_weights, _ = buffer.combine(y, handle, got_weights) if named else buffer.combine(x=y, handle=handle, topk_weights=got_weights)
        assert event.event is None and type(handle.sent).__module__ == "epcomm.deepep.normal"
        return per_rank, per_expert, is_in, y, got_ids, got_weights, torch.tensor(counts), *handle, back, back_weights

    for source in (x, cast(x)):
        for config in (None, deepep.Config(buffer.num_sms)):
            first = calls(source, config, False)
            python = mock.Mock(side_effect=AssertionError("a call went through Buffer's Python methods"))
            with mock.patch.object(buffer._lane, "run", python) if buffer._calls is not None else contextlib.nullcontext():
                for named in (False, True):
                    for a, b in zip(first, calls(source, config, named)):
                        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if buffer._calls is not None:
        with mock.patch.object(buffer._lane, "run", wraps=buffer._lane.run) as run:
            buffer.get_dispatch_layout(ids.T.contiguous().T, EXPERTS)
            assert run.called, "a call whose tensor must be copied did not reach Buffer's Python method"
        refused(TypeError, "nothing", lambda: buffer.dispatch(x, nothing=1))
        assert "num_worst_tokens=0" in str(inspect.signature(deepep.Buffer.dispatch))


def handles_in_any_order(buffer, rank):
    """Combines two dispatches in reverse order."""
    sent, hooks = [], []
    for seed in (5, 6):
        x, ids, weights = draw(rank, seed)
        per_rank, _, per_expert, is_in, _ = buffer.get_dispatch_layout(ids, EXPERTS)
        got, _, _, _, handle, _ = buffer.dispatch(x, num_tokens_per_rank=per_rank, is_token_in_rank=is_in, num_tokens_per_expert=per_expert)
        low, _, low_handle, _, hook = buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False, return_recv_hook=True)
        hooks.append(hook)
        sent.append((x, ids, weights, is_in, got, handle, low, low_handle))
    for hook in hooks:
        hook()
    dispatch, combine, *_ = low_handle.sent.link.comm.explain(Call(tokens=1, purpose=PURPOSES["halves"], dtype=1))
    assert DEVICE == "cuda" or "mode=split" in dispatch and "mode=split" in combine, dispatch
    for x, ids, weights, is_in, got, handle, low, low_handle in reversed(sent):
        close(buffer.combine(got, handle)[0], x.float() * is_in.sum(dim=1, keepdim=True), 5e-3)
        want = x.float() * weights.masked_fill(ids < 0, 0).sum(dim=1, keepdim=True)
        close(buffer.low_latency_combine(low, ids, weights, low_handle)[0], want, 6e-3)


def uneven(buffer, rank):
    """Makes a call in which rank 1 has few tokens. Such calls end only if both ranks use the same kernels."""
    x, ids, weights = (t[:3] if rank == 1 else t for t in draw(rank, 7))
    got, _, handle, _, _ = buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False)
    back, again = (buffer.low_latency_combine(got, ids, weights, handle)[0] for _ in range(2))
    assert torch.equal(back, again) and back.data_ptr() != again.data_ptr(), "outputs share memory"
    close(back, x.float() * weights.masked_fill(ids < 0, 0).sum(dim=1, keepdim=True), 6e-3)


def idle(buffer, rank):
    x, ids, weights = (t[:0] if rank == 1 else t for t in draw(rank, 10))
    per_rank, _, per_expert, is_in, event = buffer.get_dispatch_layout(ids, EXPERTS)
    got, got_ids, got_weights, _, handle, _ = buffer.dispatch(
        x, num_tokens_per_rank=per_rank, is_token_in_rank=is_in, num_tokens_per_expert=per_expert, topk_idx=ids, topk_weights=weights,
        previous_event=event)
    back, back_weights, _ = buffer.combine(got, handle, topk_weights=got_weights)
    assert back.shape == x.shape and back_weights.shape == weights.shape
    close(back, x.float() * is_in.sum(dim=1, keepdim=True), 5e-3)
    for hook in (False, True):
        for fp8 in (False, True):
            low, _, handle, _, finish = buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=fp8, round_scale=fp8, return_recv_hook=hook)
            finish() if hook else None
            y = widened(*low) if fp8 else low
            back, _, finish = buffer.low_latency_combine(y, ids, weights, handle, return_recv_hook=hook)
            finish() if hook else None
            close(back, x.float() * weights.masked_fill(ids < 0, 0).sum(dim=1, keepdim=True), 0.06)


def copies_on_the_stream_of_the_call(buffer, rank):
    """Passes a tensor that is not contiguous. Checks that it is copied on the call's stream."""
    x, ids, _ = draw(rank, 11)
    per_rank, _, per_expert, is_in, _ = buffer.get_dispatch_layout(ids, EXPERTS)
    args = {"num_tokens_per_rank": per_rank, "is_token_in_rank": is_in, "num_tokens_per_expert": per_expert}
    turned = lambda t: t.T.contiguous().T
    q, scales = cast(x)
    with mock.patch.object(buffer._lane, "run", wraps=buffer._lane.run) as run:
        read = lambda: [id(t) for t in run.call_args.args[3] if t is not None]
        scales = turned(scales)
        (rows, got), _, _, _, handle, _ = buffer.dispatch((q, scales), **args)
        assert id(scales) in read()
        buffer.dispatch((q, scales), handle=handle)
        assert id(scales) in read()
        y = turned(widened(rows, got))
        back, _, _ = buffer.combine(y, handle)
        assert id(y) in read()
    close(back, widened(q, scales.contiguous()).float() * is_in.sum(dim=1, keepdim=True), 5e-3)


def full_precision(buffer, rank):
    """Checks that EPCOMM_PRECISION=full rounds only once."""
    refused(ValueError, "EPCOMM_PRECISION", lambda: with_precision("half"))
    fresh = with_precision("full", device=buffer.device)
    x, ids, weights = draw(rank, 13)
    rows, _, handle, _, _ = fresh.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False)
    factors = torch.tensor([(1 + e / 8) * (-1) ** e for e in range(EXPERTS)])
    local = EXPERTS // RANKS
    y = (rows.float() * factors[rank * local:(rank + 1) * local, None, None].to(rows.device)).to(torch.bfloat16)
    back = fresh.low_latency_combine(y, ids, weights, handle)[0]
    terms = torch.stack([(x.float() * factors[ids[:, k]][:, None]).to(torch.bfloat16).double() * (weights[:, k] * (ids[:, k] >= 0))[:, None].double()
                         for k in range(TOPK)])
    want, size = terms.sum(dim=0), terms.abs().sum(dim=0)
    assert ((back.double() - want).abs() <= want.abs() / 256 + size * (TOPK + 1) / 2**24 + 1e-30).all()
    precisions = [h.sent.link.comm.info.reduced for h in (handle, buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False)[2])]
    assert precisions == [0, 1], precisions


def with_precision(precision, **more):
    with mock.patch.dict(os.environ, EPCOMM_PRECISION=precision):
        return deepep.Buffer(dist.group.WORLD, **more)


def mixed_halves(buffer, rank):
    x, ids, _ = draw(rank, 8)
    _, _, handle, _, hook = buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False, return_recv_hook=True)
    assert (type(hook).__name__ == "Hook") == (buffer._calls is not None), "the extension makes a call whose arguments the ranks have compared"
    link = handle.sent.link
    hook()
    refused(EpcommError, "recv without a send", lambda: link.call(link.ops.ll_receive, link.now(), 0, None))


def too_small_worst(buffer, rank):
    """Receives more rows than num_worst_tokens: this call or the next call must raise an error."""
    fresh = deepep.Buffer(dist.group.WORLD, device=buffer.device)
    x, ids, _ = draw(rank, 12)
    per_rank, _, per_expert, is_in, _ = buffer.get_dispatch_layout(ids, EXPERTS)
    args = {"num_tokens_per_rank": per_rank, "is_token_in_rank": is_in, "num_tokens_per_expert": per_expert}

    def calls():
        rows, *_ = fresh.dispatch(x, num_worst_tokens=1, **args)
        assert rows.isnan().all()
        fresh.dispatch(x, **args)

    refused(EpcommError, "room for 1; give more num_worst_tokens", calls)
    dist.barrier()


def refusals(buffer, rank):
    x, ids, weights = draw(rank, 0)
    for call, says in (
        (lambda: buffer.low_latency_combine(None, ids, weights, (1, 2, 3, 4, 5)), "another library"),
        (lambda: buffer.low_latency_combine(None, ids, weights, (), use_logfmt=True), "bfloat16"),
        (lambda: buffer.get_local_buffer_tensor(torch.uint8), "get_next_low_latency_combine_buffer"),
        (lambda: buffer.internode_dispatch(x), "call dispatch"),
        (lambda: buffer.dispatch(x.float()), "give bfloat16"),
        (lambda: deepep.Buffer.get_dispatch_config(16), "one host"),
        (lambda: deepep.Buffer(dist.group.WORLD, low_latency_mode=True, allow_nvlink_for_low_latency_mode=False), "hooks hold no SMs"),
    ):
        refused(deepep.NotServed, says, call)


def misread(buffer, rank):
    x, ids, weights = draw(rank, 9)
    per_rank, _, per_expert, is_in, _ = buffer.get_dispatch_layout(ids, EXPERTS)
    args = {"num_tokens_per_rank": per_rank, "is_token_in_rank": is_in, "num_tokens_per_expert": per_expert}
    rows, _, _, _, handle, _ = buffer.dispatch(x, **args)
    low, _, low_handle, _, _ = buffer.low_latency_dispatch(x, ids, TOKENS, EXPERTS, use_fp8=False)
    out = torch.empty((HIDDEN, x.shape[0]), dtype=torch.bfloat16).T
    for says, call in (
        ("topk_weights: torch.bfloat16", lambda: buffer.dispatch(x, topk_idx=ids, topk_weights=weights.bfloat16(), **args)),
        ("topk_idx: ", lambda: buffer.dispatch(x, topk_idx=ids[1:], topk_weights=weights, **args)),
        ("is_token_in_rank: ", lambda: buffer.dispatch(x[1:], **args)),
        ("x: ", lambda: buffer.dispatch(x[1:], handle=handle)),
        ("x: ", lambda: buffer.combine(rows[1:], handle)),
        ("x: torch.float32", lambda: buffer.low_latency_dispatch(x.float(), ids, TOKENS, EXPERTS)),
        ("topk_idx: ", lambda: buffer.low_latency_dispatch(x, ids[1:], TOKENS, EXPERTS)),
        ("cumulative_local_expert_recv_stats: ", lambda: buffer.low_latency_dispatch(
            x, ids, TOKENS, EXPERTS, cumulative_local_expert_recv_stats=torch.zeros(1, dtype=torch.int32))),
        ("x: ", lambda: buffer.low_latency_combine(low[1:], ids, weights, low_handle)),
        ("topk_weights: ", lambda: buffer.low_latency_combine(low, ids, weights.double(), low_handle)),
        ("x: it is on meta", lambda: buffer.low_latency_dispatch(x.to("meta"), ids, TOKENS, EXPERTS)),
        ("topk_weights: it is on meta", lambda: buffer.low_latency_combine(low, ids, weights.to("meta"), low_handle)),
        ("topk_weights: it is on meta", lambda: buffer.dispatch(x, topk_idx=ids, topk_weights=weights.to("meta"), **args)),
        ("out: strides", lambda: buffer.low_latency_combine(low, ids, weights, low_handle, out=out)),
    ):
        refused(ValueError, says, call)
    buffer.low_latency_combine(low, ids, weights, low_handle)
    fresh = deepep.Buffer(dist.group.WORLD, device=buffer.device)
    refused(ValueError, "get_next_low_latency_combine_buffer", lambda: fresh.low_latency_combine(
        low, ids, weights, low_handle, zero_copy=True))


def refused(error, says, call):
    try:
        call()
    except error as e:
        assert says in str(e), e
    else:
        raise AssertionError(says)


def one_rank(rank, port):
    os.environ["EPCOMM_MAX_TOKENS"] = str(max(16, TOKENS))
    join(rank, port, DEVICE)
    deepep.Buffer.set_num_sms(4 if DEVICE == "cpu" else 20)
    buffer = deepep.Buffer(dist.group.WORLD, explicitly_destroy=True, device=torch.device("cpu") if DEVICE == "cpu" else None)
    for seed in (1, 2):
        check_normal(buffer, rank, seed)
        check_low_latency(buffer, rank, seed)
    for check in (known_calls, handles_in_any_order, uneven, idle, copies_on_the_stream_of_the_call, full_precision, mixed_halves, refusals, misread, too_small_worst):
        check(buffer, rank)
    buffer.destroy()
    dist.barrier()


class TestDeepEP(unittest.TestCase):
    def test_two_ranks(self):
        run_ranks(self, one_rank)

    def test_names_in_profiles(self):
        with tempfile.TemporaryDirectory() as folder:
            self.runs(PROFILED, os.path.join(folder, "trace.json"), DEEPEP_TEST_NAMES="1")

    def test_modules_of_the_shim(self):
        self.runs(IMPORTS)
        with tempfile.TemporaryDirectory() as source:
            os.makedirs(os.path.join(source, "deep_ep", "utils"))
            with open(os.path.join(source, "deep_ep", "utils", "math.py"), "w", encoding="utf-8") as f:
                f.write("four = 4\n")
            self.runs("from deep_ep import Buffer\nfrom deep_ep.utils.math import four\nassert four == 4\n", DEEPEP_SOURCE=source)

    def runs(self, program, *args, **environment):
        paths = [os.path.join(os.path.dirname(__file__), "..", p) for p in ("src", "shim")]
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), **environment)
        done = subprocess.run([sys.executable, "-c", program, *args], env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


IMPORTS = """
import deep_ep, deep_ep_cpp
from deep_ep import Buffer, Config, EventOverlap, topk_idx_t  # SGLang, vLLM, TensorRT-LLM
from deep_ep.utils import EventHandle, EventOverlap as Overlap  # Megatron-Core
from deep_ep.buffer import Buffer as B

assert Buffer is deep_ep.Buffer is B and Overlap is EventOverlap and deep_ep_cpp.EventHandle is EventHandle and deep_ep_cpp.Config is Config
assert deep_ep_cpp.get_low_latency_rdma_size_hint(8, 512, 2, 16) == Buffer.get_low_latency_rdma_size_hint(8, 512, 2, 16)
assert not hasattr(deep_ep, "HybridEPBuffer")
"""

PROFILED = """
import json, sys, torch, deep_ep

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    for name in ("dispatch_masked_ids", "dispatch_masked_recv", "combine_masked", "mine", "mine_dispatch_masked"):
        with torch.profiler.record_function(name):
            pass
table = {e.key: e.count for e in profile.key_averages()}
assert table["deep_ep::dispatch"] == 2 and table["deep_ep::combine"] == table["mine"] == table["mine_dispatch_masked"] == 1, table
profile.export_chrome_trace(sys.argv[1])
names = [e["name"] for e in json.load(open(sys.argv[1]))["traceEvents"]]
assert names.count("deep_ep::dispatch") == 2 and names.count("deep_ep::combine") == 1, names
"""


if __name__ == "__main__":
    unittest.main()
