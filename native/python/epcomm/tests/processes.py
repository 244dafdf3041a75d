"""Runs the ranks of a test as processes."""

import os
import tempfile
import traceback
from unittest import mock

import torch
import torch.distributed as dist


def _report(rank, work, arguments, results):
    try:
        results.put((rank, work(rank, *arguments), ""))
    except BaseException:
        results.put((rank, None, traceback.format_exc()))


def join(rank, port, device="cpu", ranks=2):
    """Makes this process a rank of torch.distributed, over gloo. device, cpu or cuda, becomes torch's default device."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.set_default_device(device)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)


def run_ranks(test, work, *arguments, ranks=2, **environment):
    """Runs work(rank, port, *arguments) in one process for each rank, with an empty cache of packs. Returns the list of
    the results. Fails the test if a rank raises an exception."""
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, EPCOMM_CACHE=cache, **environment):
        rest = (29613 + os.getpid() % 4000, *arguments)
        processes = [context.Process(target=_report, args=(r, work, rest, results)) for r in range(ranks)]
        for p in processes:
            p.start()
        ended = sorted((results.get(timeout=500) for _ in processes), key=lambda one: one[0])
        for p in processes:
            p.join(10)
            p.terminate()
    errors = [f"rank {rank}: {error}" for rank, _, error in ended if error]
    test.assertFalse(errors, "\n".join(errors))
    return [result for _, result, _ in ended]
