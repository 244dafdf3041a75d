"""Defines Comm, one rank's interface to epcomm. It takes device addresses as integers."""

import ctypes
import os

from . import library
from .library import Call, Explanation, Fault, Info, Machine, Outputs

DTYPES = {"default": 0, "bf16": 1, "fp8": 2, "mxfp4": 3, "nvfp4": 4}
ROUTINGS = {"default": 0, "even": 1, "skewed": 2, "concentrated": 3, "hot-rank": 4, "all": 5}
LAYOUTS = ("expert", "expert:128", "masked", "rank", "rank:packed")
SURVIVORS = {"none": 0, "drop": 1, "refuse": 2}
PURPOSES = {"pair": 0, "dispatch": 1, "combine": 2, "halves": 3}

_lib = None


def lib():
    global _lib
    if _lib is None:
        _lib = library.load()
    return _lib


class EpcommError(RuntimeError):
    """An error of the library. `status` is one of library.STATUSES."""

    def __init__(self, status, text):
        self.status = library.STATUSES[status] if 0 <= status < len(library.STATUSES) else str(status)
        super().__init__(text if text.startswith(f"{self.status}:") else f"{self.status}: {text}")


def word(table, value, what):
    """Returns the number that `table` gives for a word. If `value` is a number already, it returns that number."""
    if isinstance(value, int):
        return value
    if value not in table:
        raise ValueError(f"{what}: {value!r} is not one of {', '.join(table)}")
    return table[value]


def _set(ranks):
    ranks = set(ranks)
    if not all(0 <= r < 64 for r in ranks):
        raise ValueError(f"ranks: {sorted(ranks)}; give numbers from 0 to 63")
    return sum(1 << r for r in ranks)


def nodes_of(pack, ranks):
    """Returns the number of hosts. It asks torchrun's variable LOCAL_WORLD_SIZE, or reads the pack if that is not
    set."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE") or 0)
    if local > 0:
        return max(1, ranks // local)
    try:
        with open(pack, "rb") as f:
            return check_pack(f.read()).nodes
    except (OSError, EpcommError):
        return 1


class Comm:
    """One rank. All ranks create their Comms together. Only one thread at a time may use a Comm.

    `all_gather(mine)` takes this rank's bytes and returns the bytes of all ranks, in order. `deadline` is the longest
    wait for another rank, in seconds. `nodes` is the number of hosts, by default nodes_of. `nvshmem` is the folder
    that contains NVSHMEM's lib/, by default EPBENCH_NVSHMEM. `survivors` says what happens to tokens for a lost rank,
    "drop" or "refuse"; without it, shrink fails. `joins` is only for a lost rank that comes back. It is the set of
    ranks that the other ranks pass to the method `grow`. With `ordered`, the caller promises that the stream of each
    recv waits for the stream of its send.
    """

    def __init__(self, pack, rank, ranks, device, all_gather=None, *, deadline=10.0, in_flight=1, streams=1,
                 precision="full", max_sms=0, dtypes=(), routing="all", debug=False, extra_bytes=0, own_outputs=False,
                 nodes=None, nvshmem=None, survivors="none", joins=(), ordered=False):
        if precision not in ("full", "reduced"):
            raise ValueError(f"precision: {precision!r} is neither full nor reduced")
        self._comm = None
        self._raised = None
        self._gather = library.AllGather(self._bring_together(all_gather, ranks))
        options = library.Options(
            pack=str(pack).encode(), rank=rank, ranks=ranks, device=device, all_gather=self._gather,
            deadline_ns=int(deadline * 1e9), in_flight=in_flight, streams=streams, reduced=precision == "reduced",
            max_sms=max_sms, dtypes=sum(1 << word(DTYPES, d, "dtypes") for d in dtypes),
            routing=word(ROUTINGS, routing, "routing"), debug=bool(debug), extra_bytes=extra_bytes,
            own_outputs=bool(own_outputs), nvshmem=str(nvshmem).encode() if nvshmem else None,
            nodes=nodes_of(pack, ranks) if nodes is None else nodes, survivors=word(SURVIVORS, survivors, "survivors"), joins=_set(joins),
            ordered=bool(ordered))
        comm, text = ctypes.c_void_p(), ctypes.create_string_buffer(library.TEXT)
        status = lib().epcomm_create(ctypes.byref(comm), ctypes.byref(options), text)
        if status:
            raise EpcommError(status, text.value.decode(errors="replace")) from self._raised
        self._comm = comm.value
        self.info = self._info()

    def _bring_together(self, all_gather, ranks):
        def gather(_context, mine, everyone, size):
            try:
                got = all_gather(ctypes.string_at(mine, size))
                if len(got) != ranks * size:
                    raise ValueError(f"all_gather gave {len(got)} bytes of {ranks} ranks instead of {ranks * size}")
                ctypes.memmove(everyone, got, len(got))
                return 0
            except BaseException as e:
                self._raised = e
                return 1

        return gather

    def check(self, status):
        if status:
            raise EpcommError(status, lib().epcomm_error(self._comm).decode(errors="replace"))

    def _info(self):
        info = Info()
        self.check(lib().epcomm_info(self._comm, ctypes.byref(info)))
        return info

    @property
    def handle(self):
        """Returns the address of the library's EpComm."""
        if self._comm is None:
            raise EpcommError(1, "this rank was destroyed")
        return self._comm

    def dispatch(self, call, stream=0):
        self.check(lib().epcomm_dispatch(self.handle, ctypes.byref(call), stream))

    def combine(self, call, stream=0):
        self.check(lib().epcomm_combine(self.handle, ctypes.byref(call), stream))

    def dispatch_send(self, call, stream=0):
        self.check(lib().epcomm_dispatch_send(self.handle, ctypes.byref(call), stream))

    def dispatch_recv(self, call, stream=0):
        self.check(lib().epcomm_dispatch_recv(self.handle, ctypes.byref(call), stream))

    def combine_send(self, call, stream=0):
        self.check(lib().epcomm_combine_send(self.handle, ctypes.byref(call), stream))

    def combine_recv(self, call, stream=0):
        self.check(lib().epcomm_combine_recv(self.handle, ctypes.byref(call), stream))

    def barrier(self, stream=0):
        self.check(lib().epcomm_barrier(self.handle, stream))

    def stamp(self, at, stream=0):
        """Makes the stream write the GPU's clock, in ns, to 8 bytes of device memory."""
        self.check(lib().epcomm_stamp(self.handle, at, stream))

    def outputs(self, slot=0, dtype="default"):
        o = Outputs()
        self.check(lib().epcomm_outputs(self.handle, slot, word(DTYPES, dtype, "dtype"), ctypes.byref(o)))
        return o

    def extra(self):
        return lib().epcomm_extra(self.handle)

    def explain(self, call):
        """Returns (dispatch, combine, why, first, last). The first two name the kernels of a call, and `why` says why
        the pack chooses them. It chooses them for token counts from `first` to `last`."""
        x = Explanation()
        self.check(lib().epcomm_explain(self.handle, ctypes.byref(call), ctypes.byref(x)))
        return x.dispatch.decode(), x.combine.decode(), x.why.decode(), x.first, x.last

    def fault(self):
        """Returns a Fault, which describes the wait that passed its deadline, or None."""
        f = Fault()
        return f if lib().epcomm_fault(self.handle, ctypes.byref(f)) else None

    def reset(self):
        """Makes all ranks ready for calls after a fault. All ranks must call it."""
        self.check(lib().epcomm_reset(self.handle))

    def shrink(self, alive):
        """Continues without the ranks that are not in `alive`. All ranks in `alive` must call it."""
        self.check(lib().epcomm_shrink(self.handle, _set(alive)))

    def grow(self, alive):
        """Takes back lost ranks. All ranks in `alive` must call it."""
        self.check(lib().epcomm_grow(self.handle, _set(alive)))

    def survivors(self):
        """Returns (living ranks, number of dropped expert ids)."""
        alive, dropped = ctypes.c_uint64(), ctypes.c_uint64()
        self.check(lib().epcomm_survivors(self.handle, ctypes.byref(alive), ctypes.byref(dropped)))
        return [r for r in range(64) if alive.value >> r & 1], dropped.value

    def stop(self):
        """Ends the waits of all ranks' kernels. The next call must be reset or destroy."""
        self.check(lib().epcomm_stop(self.handle))

    def destroy(self):
        """Frees everything. All ranks must call it."""
        comm, self._comm = self._comm, None
        if comm is not None:
            status = lib().epcomm_destroy(comm)
            if status:
                raise EpcommError(status, "destroy: a rank is gone or its GPU failed; this rank's memory is freed all the same")

    def abandon(self):
        """Frees everything without waiting for ranks that are gone."""
        comm, self._comm = self._comm, None
        if comm is not None:
            lib().epcomm_abandon(comm)


def classify(counts, ranks):
    """Returns the routing class, which says how unevenly tokens select experts. counts[e] says how often the tokens
    of all ranks selected expert e."""
    array = (ctypes.c_int64 * len(counts))(*counts)
    number = lib().epcomm_classify(array, len(counts), ranks)
    return next(name for name, n in ROUTINGS.items() if n == number)


def machine():
    """Returns a Machine, which describes this host's GPUs. Tables identify the GPUs by the field ``key``."""
    out, text = Machine(), ctypes.create_string_buffer(library.TEXT)
    status = lib().epcomm_machine(ctypes.byref(out), text)
    if status:
        raise EpcommError(status, text.value.decode(errors="replace"))
    return out


def check_pack(data):
    """Returns the Info of a pack. `data` holds the bytes of the file. The function needs no GPU."""
    info, text = Info(), ctypes.create_string_buffer(library.TEXT)
    status = lib().epcomm_check_pack(data, len(data), ctypes.byref(info), text)
    if status:
        raise EpcommError(status, text.value.decode(errors="replace"))
    return info


__all__ = ["Call", "Comm", "EpcommError", "Explanation", "Fault", "Info", "Machine", "Outputs", "check_pack", "classify", "machine", "nodes_of"]
