"""Declares the structs and functions of epcomm.h and epcomm_deepep.h for ctypes."""

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p

TEXT = 512

AllGather = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)


class _Sized(ctypes.Structure):
    def __init__(self, **fields):
        super().__init__(**fields)
        self.size = ctypes.sizeof(self)


class Options(_Sized):
    _fields_ = [
        ("size", c_size_t), ("pack", c_char_p), ("pack_data", c_void_p), ("pack_bytes", c_size_t),
        ("rank", c_int), ("ranks", c_int), ("device", c_int), ("all_gather", AllGather), ("context", c_void_p),
        ("deadline_ns", c_uint64), ("in_flight", c_int), ("streams", c_int), ("reduced", c_int), ("max_sms", c_int),
        ("dtypes", c_uint), ("routing", c_int), ("debug", c_int), ("extra_bytes", c_uint64),
        ("own_outputs", c_int), ("nvshmem", c_char_p), ("nodes", c_int), ("survivors", c_int), ("ordered", c_int), ("joins", c_uint64),
    ]


class Call(_Sized):
    _fields_ = [
        ("size", c_size_t), ("slot", c_int), ("dtype", c_int), ("tokens", c_int), ("fullest", c_int), ("routing", c_int),
        ("purpose", c_int), ("ids_bits", c_int), ("unused", c_int), ("x", c_void_p), ("topk_ids", c_void_p),
        ("weights", c_void_p), ("input_scale", c_void_p), ("out", c_void_p), ("out_scales", c_void_p),
        ("row_offsets", c_void_p), ("expert_ids", c_void_p), ("src_info", c_void_p), ("scale_offsets", c_void_p),
        ("y", c_void_p), ("combined", c_void_p), ("bias", c_void_p), ("epilogue_scale", c_float), ("rows", c_uint64),
        ("row_tokens", c_void_p),
    ]


class Info(_Sized):
    _fields_ = [
        ("size", c_size_t), ("rank", c_int), ("ranks", c_int), ("hidden", c_int), ("experts", c_int), ("local_experts", c_int),
        ("topk", c_int), ("max_tokens", c_int), ("groups", c_int), ("shared", c_int), ("skip_a2a", c_int), ("reduced", c_int),
        ("in_flight", c_int), ("largest_grid", c_int), ("dtypes", c_uint), ("default_dtype", c_int), ("heap_bytes", c_uint64),
        ("digest", c_char * 65), ("abi", c_char * 65), ("arch", c_char * 16), ("kernels", c_char * 1024),
        ("layout", c_int), ("raw", c_int), ("nodes", c_int), ("nvshmem", c_char * 16), ("survivors", c_int),
    ]


class Machine(_Sized):
    _fields_ = [
        ("size", c_size_t), ("sms", c_int), ("gpus", c_int), ("memory", c_uint64), ("name", c_char * 96), ("pci_id", c_char * 16),
        ("arch", c_char * 16), ("link", c_char * 16), ("key", c_char * 160),
    ]


class Outputs(_Sized):
    _fields_ = [
        ("size", c_size_t), ("out", c_void_p), ("out_scales", c_void_p), ("row_offsets", c_void_p), ("expert_ids", c_void_p),
        ("src_info", c_void_p), ("scale_offsets", c_void_p), ("max_rows", c_uint64), ("row_bytes", c_uint64),
        ("out_bytes", c_uint64), ("scale_bytes", c_uint64), ("scales", c_int), ("scale_bytes_each", c_int), ("row_pad", c_int),
        ("expert_ids_bytes", c_uint64), ("src_info_bytes", c_uint64), ("scale_offsets_bytes", c_uint64),
        ("y", c_void_p),
    ]


class Fault(_Sized):
    _fields_ = [
        ("size", c_size_t), ("rank", c_int), ("phase", c_int), ("expert", c_int), ("source", c_int), ("block", c_int),
        ("want", c_uint64), ("got", c_uint64), ("text", c_char * TEXT),
    ]


class Explanation(_Sized):
    _fields_ = [
        ("size", c_size_t), ("dispatch", c_char_p), ("combine", c_char_p), ("why", c_char_p), ("first", c_int), ("last", c_int),
        ("plan", c_int),
    ]


class LayoutOf(_Sized):
    _fields_ = [
        ("size", c_size_t), ("topk_ids", c_void_p), ("ids_bits", c_int), ("tokens", c_int), ("topk", c_int), ("experts", c_int),
        ("ranks", c_int), ("per_rank", c_void_p), ("per_expert", c_void_p), ("in_rank", c_void_p),
    ]


class Announce(_Sized):
    _fields_ = [
        ("size", c_size_t), ("per_rank", c_void_p), ("per_expert", c_void_p), ("topk_ids", c_void_p), ("in_rank", c_void_p),
        ("weights", c_void_p), ("ids_bits", c_int), ("topk", c_int), ("tokens", c_int), ("align", c_int), ("worst", c_int),
        ("ids", c_void_p), ("padded", c_void_p), ("before", c_void_p),
    ]


class Told(_Sized):
    _fields_ = [("size", c_size_t), ("ready", c_int), ("rows", c_int), ("fullest", c_int), ("per_expert", c_void_p)]


class Received(_Sized):
    _fields_ = [
        ("size", c_size_t), ("expert_ids", c_void_p), ("weights", c_void_p), ("src_info", c_void_p), ("row_offsets", c_void_p),
        ("rows", c_int), ("topk", c_int), ("ids", c_void_p), ("cut", c_void_p), ("tokens", c_void_p),
    ]


class Return(_Sized):
    _fields_ = [
        ("size", c_size_t), ("weights", c_void_p), ("src_info", c_void_p), ("row_offsets", c_void_p), ("ids", c_void_p),
        ("tokens", c_int), ("topk", c_int), ("out", c_void_p),
    ]


class Places(_Sized):
    _fields_ = [
        ("size", c_size_t), ("ids", c_void_p), ("received", c_void_p), ("slots", c_void_p), ("choices", c_void_p), ("counts", c_void_p),
        ("rows", c_int), ("topk", c_int), ("experts", c_int), ("align", c_int), ("expanded", c_int),
    ]


class Expand(_Sized):
    _fields_ = [
        ("size", c_size_t), ("x", c_void_p), ("scales", c_void_p), ("weights", c_void_p), ("slots", c_void_p), ("choices", c_void_p),
        ("received", c_void_p), ("out", c_void_p), ("out_scales", c_void_p), ("out_weights", c_void_p), ("scale_row", c_int64),
        ("scale_group", c_int64), ("rows", c_int), ("topk", c_int), ("expanded", c_int), ("row_bytes", c_int), ("groups", c_int),
        ("zeros", c_int),
    ]


class Fold(_Sized):
    _fields_ = [
        ("size", c_size_t), ("x", c_void_p), ("weights", c_void_p), ("slots", c_void_p), ("received", c_void_p), ("out", c_void_p),
        ("out_weights", c_void_p), ("rows", c_int), ("topk", c_int), ("hidden", c_int),
    ]


STATUSES = ("ok", "invalid", "pack", "driver", "machine", "disagree", "gather", "fault", "peer", "network")


def _candidates():
    named = os.environ.get("EPCOMM_LIBRARY")
    if named:
        return [named]
    beside = os.path.join(os.path.dirname(__file__), "libepcomm.so")
    return [p for p in (beside,) if os.path.exists(p)] + ["libepcomm.so.1"]


def load():
    """Opens the file that EPCOMM_LIBRARY names. Without EPCOMM_LIBRARY it opens libepcomm.so in this module's folder.
    If there is no such file, the dynamic linker searches for libepcomm.so.1."""
    tried = []
    for path in _candidates():
        try:
            return _declare(ctypes.CDLL(path))
        except OSError as e:
            tried.append(str(e))
    raise ImportError("no libepcomm: build it with `make epcomm`, or set EPCOMM_LIBRARY to its path (" + "; ".join(tried) + ")")


def _declare(lib):
    comm, call, stream = c_void_p, POINTER(Call), c_void_p
    signatures = {
        "epcomm_create": [POINTER(c_void_p), POINTER(Options), c_char_p],
        "epcomm_destroy": [comm], "epcomm_reset": [comm], "epcomm_stop": [comm],
        "epcomm_shrink": [comm, c_uint64], "epcomm_grow": [comm, c_uint64], "epcomm_survivors": [comm, POINTER(c_uint64), POINTER(c_uint64)],
        "epcomm_barrier": [comm, stream], "epcomm_stamp": [comm, c_void_p, stream], "epcomm_fault": [comm, POINTER(Fault)],
        "epcomm_explain": [comm, call, POINTER(Explanation)], "epcomm_info": [comm, POINTER(Info)],
        "epcomm_outputs": [comm, c_int, c_int, POINTER(Outputs)],
        "epcomm_classify": [POINTER(c_int64), c_int, c_int],
        "epcomm_machine": [POINTER(Machine), c_char_p],
        "epcomm_check_pack": [c_char_p, c_size_t, POINTER(Info), c_char_p],
    }
    signatures.update({
        "epcomm_layout": [comm, POINTER(LayoutOf), stream], "epcomm_announce": [comm, POINTER(Announce), stream],
        "epcomm_told": [comm, POINTER(Told)], "epcomm_received": [comm, POINTER(Received), stream],
        "epcomm_return_weights": [comm, POINTER(Return), stream],
        "epcomm_places": [comm, POINTER(Places), stream], "epcomm_expand": [comm, POINTER(Expand), stream],
        "epcomm_fold": [comm, POINTER(Fold), stream],
        "epcomm_add_counts": [comm, c_void_p, c_void_p, c_int, stream],
    })
    for op in ("dispatch", "combine"):
        for half in ("", "_send", "_recv"):
            signatures[f"epcomm_{op}{half}"] = [comm, call, stream]
    for name, arguments in signatures.items():
        f = getattr(lib, name)
        f.argtypes, f.restype = arguments, c_int
    lib.epcomm_abandon.argtypes, lib.epcomm_abandon.restype = [comm], None
    lib.epcomm_extra.argtypes, lib.epcomm_extra.restype = [comm], c_void_p
    lib.epcomm_error.argtypes, lib.epcomm_error.restype = [comm], c_char_p
    return lib
