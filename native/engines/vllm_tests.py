"""Runs vLLM's own tests of DeepEP. Environment variables:

VLLM_TESTS          root of vLLM v0.26.0's sources
VLLM_TESTS_WEIGHTS  random: uninitialized FP8 weights become random, not 0
VLLM_TESTS_ONLY     regular expression for names of cases
VLLM_TESTS_SECONDS  no case begins after this many seconds
VLLM_TESTS_CASE     longest time of a case, in seconds
VLLM_TESTS_SHARED   folder that several runs of this program share, so that each case runs only once"""

import faulthandler
import importlib
import inspect
import itertools
import os
import re
import sys
import time
import types
import unittest.mock

import harness
import pytest
import vllm_layers

MODULES = "test_deepep_moe", "test_deepep_deepgemm_moe"


def load():
    vllm_layers.importable()
    os.environ.setdefault("VLLM_USE_DEEP_GEMM_E8M0", "0")  # as the fixture disable_deepgemm_ue8m0 does
    sys.path.insert(0, os.environ.get("VLLM_TESTS", ".engines/vllm-tests"))
    utils = types.ModuleType("tests.utils")
    utils.multi_gpu_test = lambda *, num_gpus: lambda test: test
    sys.modules["tests.utils"] = utils
    return [importlib.import_module(f"tests.kernels.moe.{name}") for name in MODULES]


def sets(test):
    """Returns {parameter: value} for each combination of a test's parametrize marks."""
    marks = [m for m in test.pytestmark if m.name == "parametrize"]
    names = [m.args[0].replace(" ", "").split(",") for m in marks]
    values = [[v if len(n) > 1 else (v,) for v in m.args[1]] for n, m in zip(names, marks)]
    return [dict(zip(sum(names, []), sum(map(tuple, chosen), ()))) for chosen in itertools.product(*values)]


def tests(modules):
    """Returns (name, module, function, values) of all cases."""
    each = []
    for module in modules:
        for name, test in vars(module).items():
            if name.startswith("test_") and hasattr(test, "pytestmark"):
                each.append([(_named(name, values), module, test, values) for values in reversed(sets(test))])
    return [case for turn in itertools.zip_longest(*each) for case in turn if case]


def _named(test, values):
    return "-".join([test.removeprefix("test_"), *(str(v).split(".")[-1].replace(" ", "") for v in values.values())])


def filled(empty):
    """Returns a replacement of torch.empty that fills the new tensor with zeros or random numbers."""
    import torch

    @torch.no_grad()
    def fill(*arguments, **options):
        out = empty(*arguments, **options)
        if out.dtype is torch.float16 and os.environ.get("VLLM_TESTS_WEIGHTS") == "random":
            return out.normal_().div_(10)
        return out.zero_()

    return fill


def from_rank_0(value):
    """Returns rank 0's content of a tensor. Returns other values as they are."""
    import torch
    import torch.distributed as dist

    if isinstance(value, torch.Tensor):
        value = value.contiguous()
        dist.broadcast(value.view(torch.uint8), 0)
    return value


def run(module, test, values, group):
    """Runs one case. It passes None for each fixture, because vLLM's fixtures only set up the parent process."""
    import torch

    memory = unittest.mock.patch.object(torch, "empty", filled(torch.empty))

    def launch(world_size, worker, *arguments):
        memory.stop()
        worker(group, *map(from_rank_0, arguments))

    module.parallel_launch = launch
    fixtures = dict.fromkeys(n for n in inspect.signature(test).parameters if n not in values)
    skip = next((m.kwargs["reason"] for m in test.pytestmark if m.name == "skipif" and m.args[0]), None)
    memory.start()
    try:
        return f"skipped: {skip}" if skip else test(**fixtures, **values)
    except pytest.skip.Exception as e:
        return f"skipped: {e}"
    finally:
        memory.stop()


def free(name):
    """Takes a case for this run. Returns False if another run has taken it."""
    folder = os.environ.get("VLLM_TESTS_SHARED")
    try:
        if folder:
            os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def measured(test):
    """Runs a test. Returns its text and the GPU memory in use."""
    import torch

    torch.cuda.reset_peak_memory_stats()
    text = test() or ""
    left, whole = torch.cuda.mem_get_info()
    return f"{text} {torch.cuda.max_memory_allocated() >> 20} MiB allocated, {whole - left >> 20} MiB of the GPU in use".strip()


def main(rank, port):
    harness.start(rank, port)
    modules = load()
    import torch
    import torch.distributed as dist
    import vllm
    from tests.kernels.moe.parallel_utils import ProcessGroupInfo

    harness.join(rank, port)
    if rank == 0:
        print(f"vLLM {vllm.__version__}", flush=True)
    group = ProcessGroupInfo(harness.RANKS, harness.RANKS, rank, 0, rank, torch.device("cuda", rank))
    cases, left = harness.Cases(rank, "vllm-tests"), 0
    end, most = time.monotonic() + float(os.environ.get("VLLM_TESTS_SECONDS", "370")), float(os.environ.get("VLLM_TESTS_CASE", "120"))
    only = os.environ.get("VLLM_TESTS_ONLY", "")
    for name, module, test, values in (case for case in tests(modules) if re.search(only, case[0])):
        decision = [None if time.monotonic() >= end else free(name)] if rank == 0 else [None]
        dist.broadcast_object_list(decision)
        left += decision[0] is None
        if decision[0]:
            if rank == 0:
                print(f"BEGIN {name}", flush=True)
            faulthandler.dump_traceback_later(most, exit=True)
            cases.run(name, lambda: measured(lambda: run(module, test, values, group)))
            faulthandler.cancel_dump_traceback_later()
            torch.cuda.empty_cache()
    if rank == 0:
        print(f"{left} cases not begun", flush=True)
    cases.end()


if __name__ == "__main__":
    harness.spawn(main)
