"""Loads the C++ extension: the file that EPCOMM_NATIVE names, or libepcomm_native.so in this module's folder.

With EPCOMM_NATIVE=0 or without the file, calls go through ctypes and take longer on the host.
"""

import ctypes
import functools
import importlib.machinery
import importlib.util
import inspect
import os
import types
import warnings
from ctypes import c_int32, c_int64, c_uint32, c_uint64, c_void_p

import torch


VERSION = 4
NEEDS_WORST, ELSEWHERE, MISREAD = 100, 101, 102
_FUNCTIONS = ("dispatch", "dispatch_send", "dispatch_recv", "combine", "combine_send", "combine_recv", "layout", "announce", "told",
              "received", "return_weights", "add_counts", "error")
_DRIVER = ("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuStreamGetCaptureInfo_v2", "cuCtxSetCurrent", "cuCtxSynchronize")

_opened = []


def _paths():
    named = os.environ.get("EPCOMM_NATIVE")
    if named:
        return [] if named == "0" else [named]
    beside = os.path.join(os.path.dirname(__file__), "libepcomm_native.so")
    return [beside] if os.path.exists(beside) else []


def _open():
    reason = "no such file"
    for path in _paths():
        try:
            lib = ctypes.CDLL(path)
        except OSError as e:
            reason = str(e)
            continue
        lib.epcomm_native_version.restype = c_int64
        if lib.epcomm_native_version() == VERSION:
            return _declare(lib)
        reason = f"{path} is of another version"
    if os.environ.get("EPCOMM_NATIVE") != "0":
        warnings.warn(f"epcomm: calls go through ctypes, which is slow on the host: no extension libepcomm_native.so ({reason}); `make "
                      "epcomm-native` builds it, and EPCOMM_NATIVE may name it", stacklevel=3)
    return None


def _declare(lib):
    for name, result, *arguments in (
        ("lane", c_void_p, c_void_p, c_void_p), ("board", c_void_p, c_void_p, c_void_p, c_int32, c_int32),
        ("link", c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p), ("said", c_void_p, c_void_p),
        ("per_expert", c_void_p, c_void_p), ("experts", c_int32, c_void_p), ("profile", None, c_int32, c_void_p), ("sent_in", c_uint64, c_void_p, c_int32),
    ):
        f = getattr(lib, f"epcomm_native_{name}")
        f.restype, f.argtypes = result, arguments
    return lib


def load():
    """Returns the extension's functions, or None."""
    if not _opened:
        _opened.append(_open())
    return _opened[0]


_NAMES = ("layout", "dispatch", "dispatch_again", "combine", "ll_dispatch", "ll_combine", "ll_receive", "call")


def _plain():
    """Imports the extension as a module of plain functions. These read C++ tensors directly from Python's tensor
    objects. Returns None if the extension does not know the memory layout of these objects in this PyTorch."""
    try:
        loader = importlib.machinery.ExtensionFileLoader("epcomm_native", load()._name)
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("epcomm_native", loader))
        loader.exec_module(module)
    except ImportError:
        return None
    if not module.use(torch.Tensor, [torch.zeros(3), torch.ones((2, 2)), torch.empty(0, dtype=torch.int64)]):
        return None
    known = torch.arange(6).view(2, 3)[:, 1:]
    back = module.same(known)
    return module if back.data_ptr() == known.data_ptr() and back.stride() == known.stride() and torch.equal(back, known) else None


@functools.cache
def _module():
    return None if os.environ.get("EPCOMM_DISPATCHER") == "1" or not load() else _plain()


def calls(handle, low_sent, normal_sent, event):
    """Returns an object of the extension's type Calls. Returns None if the extension cannot be used. `handle`,
    `low_sent` and `normal_sent` are the types of objects that calls make. `event` is the event that every call
    returns."""
    return _module().Calls(handle, low_sent, normal_sent, event) if _module() else None


def serve(cls, methods):
    """Replaces methods of a class by the functions in methods.cpp. It changes nothing if a program has already
    replaced one of these methods."""
    names = [f.__name__ for f in methods]
    if _module() and all(vars(cls)[n] is f for n, f in zip(names, methods)):
        signatures = [str(inspect.signature(f)).replace("(self", "($self", 1) for f in methods]
        _module().serve(cls, {n: f"{n}{s}\n--\n\n{f.__doc__ or ''}" for n, s, f in zip(names, signatures, methods)})


@functools.cache
def operators():
    """Returns the extension's operators. Their first argument is the number of a Link. If possible they are plain
    functions, because a call through PyTorch's dispatcher takes several us longer. EPCOMM_DISPATCHER=1 selects the
    operators that PyTorch dispatches."""
    plain = _module()
    if plain:
        return types.SimpleNamespace(**{n: getattr(plain, n) for n in _NAMES})
    found = {n: getattr(torch.ops.epcomm_native, n).default for n in _NAMES}
    return types.SimpleNamespace(**{**found, "dispatch": lambda link, *rest: (found["dispatch"](link, *rest), *counts(link))})


def said(link):
    """Returns an array of three numbers about a link's last call: the status, how many rows this rank received, and how
    many tokens the fullest rank has. Each call changes this array."""
    return (c_int32 * 3).from_address(load().epcomm_native_said(link))


def counts(link):
    """Returns three results of the last dispatch: received rows, tokens of the fullest rank, and a list with the rows
    of each local expert. The list is empty if the host did not wait for counts."""
    at, (_, received, fullest) = load().epcomm_native_per_expert(link), said(link)
    return received, fullest, (c_uint32 * load().epcomm_native_experts(link)).from_address(at)[:] if at else []


PARTS = ("order", "allocation", "launch", "wait", "whole", "calls")


def profile(on):
    """Begins or ends a profile of the host's time. Returns a dict with the ns that each part of the calls took, and
    the number of calls."""
    out = (c_int64 * len(PARTS))()
    load().epcomm_native_profile(int(on), out)
    return dict(zip(PARTS, out))


def _addresses(owner, names):
    return (c_uint64 * len(names))(*(ctypes.cast(getattr(owner, n), c_void_p).value for n in names))


def emulated_context(index):
    driver, context = ctypes.CDLL("libcuda.so.1"), c_void_p()
    driver.cuInit(0)
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), index)

    def settle():
        driver.cuCtxSetCurrent(context)
        driver.cuCtxSynchronize()

    return context.value, settle


def new_lane(context):
    lane = load().epcomm_native_lane(_addresses(ctypes.CDLL("libcuda.so.1"), _DRIVER), context)
    if not lane:
        raise RuntimeError("epcomm: the driver refused an event")
    return lane


def new_link(lib, comm, lane, board, numbers):
    """Makes a link. Function epcomm_native_link in order.cpp says what `numbers` holds."""
    functions = _addresses(lib, [f"epcomm_{name}" for name in _FUNCTIONS])
    return load().epcomm_native_link(comm, functions, lane, board, (c_int64 * len(numbers))(*numbers))
