"""Runs the ranks of a test as processes."""

import os
import queue
import tempfile
import time
import traceback
from unittest import mock

import torch
import torch.distributed as dist


def close(got, want, bound):
    error = ((got.double() - want.double()).norm() / want.double().norm().clamp(min=1e-9)).item()
    assert error < bound, f"relative error {error}"


def _report(rank, work, arguments, results):
    try:
        results.put((rank, work(rank, *arguments), ""))
    except BaseException:
        results.put((rank, None, traceback.format_exc()))


def join(rank, port, device="cpu", ranks=2):
    """Makes this process a rank of torch.distributed with the backend gloo."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.set_default_device(device)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)


def _collect(processes, results):
    """Waits until all ranks have ended. Returns {rank: (result, error text)}. If a rank fails or takes too long,
    ranks may be missing."""
    ended, end = {}, time.monotonic() + 500
    while len(ended) < len(processes) and time.monotonic() < end:
        try:
            rank, result, error = results.get(timeout=1)
        except queue.Empty:
            if any(p.exitcode for p in processes):
                break
            continue
        ended[rank] = result, error
        if error:
            end = min(end, time.monotonic() + 20)
    return ended


def run_ranks(test, work, *arguments, ranks=2, **environment):
    """Calls work(rank, port, *arguments) in a process for each rank, and returns the results. If a rank fails, the
    test fails."""
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, EPCOMM_CACHE=cache, **environment):
        rest = (29613 + os.getpid() % 4000, *arguments)
        processes = [context.Process(target=_report, args=(r, work, rest, results)) for r in range(ranks)]
        for p in processes:
            p.start()
        ended = _collect(processes, results)
        if len(ended) == ranks:
            for p in processes:
                p.join(10)
        missing = {r: (None, f"did not end; exit code {p.exitcode}") for r, p in enumerate(processes) if r not in ended}
        for p in processes:
            p.terminate()
    ended = {**ended, **missing}
    errors = [f"rank {r}: {ended[r][1]}" for r in range(ranks) if ended[r][1]]
    if errors:
        test.fail("\n".join(errors))
    return [ended[r][0] for r in range(ranks)]
