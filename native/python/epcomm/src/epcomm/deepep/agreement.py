"""Checks that all ranks make the same calls.

Each rank writes to shared memory how many calls it has made, and the key of each call. A key is a hash of the call's
arguments. At the first call with a key, the rank also writes the arguments, which are called facts, and waits until
all ranks have reached the call.
"""

import ctypes
import json
import mmap
import os
import secrets
import tempfile
import time

from ..comm import EpcommError

RING = 1023                # keys that a rank keeps, as in native.h
_RECORD = 8 * (1 + RING)   # bytes of a rank's record: its number of calls and its last keys
_FACTS, _FACT = 64, 512    # how many facts a rank keeps; bytes of one: key, length, JSON
_TEXT = 1024
_DISAGREE = 5
_LATE = 1.0


def _folder():
    return "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()


class Agreement:
    def __init__(self, memory, rank, ranks, deadline):
        self._memory, self.rank, self.ranks, self._deadline = memory, rank, ranks, deadline
        self._whole = (ctypes.c_uint8 * len(memory)).from_buffer(memory)
        base = ctypes.addressof(self._whole)
        self.verdict_at, self.records_at = base, base + 64
        words = ctypes.c_uint64 * (1 + RING)
        self._verdict = ctypes.c_uint32.from_address(base)
        self._records = [words.from_address(self.records_at + r * _RECORD) for r in range(ranks)]
        self._facts_at = 64 + ranks * _RECORD
        self._texts_at = self._facts_at + ranks * _FACTS * _FACT
        self._known = {}
        self.end_waits = lambda: None

    @staticmethod
    def bytes_for(ranks):
        return 64 + ranks * (_RECORD + _FACTS * _FACT + _TEXT)

    # ---- facts and error texts ----

    def _write(self, at, room, text):
        data = text.encode()[:room - 4]
        self._memory[at + 4:at + 4 + len(data)] = data
        self._memory[at:at + 4] = len(data).to_bytes(4, "little")

    def _read(self, at):
        size = int.from_bytes(self._memory[at:at + 4], "little")
        return bytes(self._memory[at + 4:at + 4 + size]).decode(errors="replace")

    def _fact(self, rank, key):
        return self._facts_at + (rank * _FACTS + key % _FACTS) * _FACT

    def _facts_of(self, rank, key):
        at = self._fact(rank, key)
        if int.from_bytes(self._memory[at:at + 8], "little") != key:
            return {}
        try:
            return json.loads(self._read(at + 8))
        except ValueError:  # cut off because too long, or the rank is still writing
            return {}

    def _note(self, key, facts):
        self._known[key] = facts
        at = self._fact(self.rank, key)
        self._memory[at:at + 8] = bytes(8)
        self._write(at + 8, _FACT - 8, json.dumps(facts))
        self._memory[at:at + 8] = key.to_bytes(8, "little")

    def _at_call(self, n):
        """Returns {rank: key of call n} for the ranks that have made call n."""
        return {r: rec[1 + n % RING] for r, rec in enumerate(self._records) if n <= rec[0] < n + RING - 1}

    def _difference(self, keys):
        facts = {r: self._facts_of(r, key) for r, key in keys.items()}
        names = [n for n in next(iter(facts.values()), {}) if len({json.dumps(f.get(n)) for f in facts.values()}) > 1]
        if "the call" in names:
            names = ["the call"]
        parts = [f"{n} is " + ", ".join(f"{f.get(n)} on rank {r}" for r, f in sorted(facts.items())) for n in names]
        return "the ranks differ in what they call: " + ("; ".join(parts) or "the calls are in another order") + "; all ranks must make the same calls"

    def difference(self):
        """Returns a text that says how the ranks' calls differ. The first rank that finds a difference writes the
        text for all ranks."""
        n = self._records[self.rank][0]
        end = time.monotonic() + _LATE
        while not self._verdict.value:
            keys = self._at_call(n)
            if len(keys) == self.ranks or time.monotonic() > end:
                self._write(self._texts_at + self.rank * _TEXT, _TEXT, self._difference(keys))
                self._verdict.value = 1
                self.end_waits()
                break
            time.sleep(0.001)
        texts = (self._read(self._texts_at + r * _TEXT) for r in range(self.ranks))
        return next(t for t in texts if t)

    def refuse(self):
        raise EpcommError(_DISAGREE, self.difference())

    # ---- calls ----

    def look(self):
        if self._verdict.value:
            self.refuse()

    def step(self, key):
        mine = self._records[self.rank]
        n = mine[0] + 1
        mine[1 + n % RING], mine[0] = key, n
        if self._verdict.value or any(k != key for k in self._at_call(n).values()):
            self.refuse()

    def first(self, key, facts):
        """Waits until all ranks have reached a call whose key is new, and compares the ranks' keys."""
        self._note(key, facts)
        self.step(key)
        n, end, pause = self._records[self.rank][0], time.monotonic() + self._deadline, 1e-5
        while any(rec[0] < n for rec in self._records):
            if self._verdict.value:
                self.refuse()
            if time.monotonic() > end:
                late = [str(r) for r, rec in enumerate(self._records) if rec[0] < n]
                raise EpcommError(8, f"rank {', '.join(late)}: no call number {n} in {self._deadline:g} s; all ranks must make the same calls")
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)
        if self._verdict.value or any(k != key for k in self._at_call(n).values()):
            self.refuse()


def share(rank, ranks, all_gather_object, deadline):
    """Returns an Agreement, or None if there is only one rank or no shared memory. All ranks must call it."""
    if ranks == 1:
        return None
    name = os.path.join(_folder(), f"epcomm-{secrets.token_hex(8)}")
    memory = None
    try:
        if rank == 0:
            memory = _map(name, Agreement.bytes_for(ranks), os.O_CREAT | os.O_EXCL)
        name = all_gather_object(name)[0]
        if rank != 0:
            memory = _map(name, Agreement.bytes_for(ranks), 0)
        fine = all(all_gather_object(memory is not None))
    finally:
        if rank == 0 and memory is not None:
            os.unlink(name)
    return Agreement(memory, rank, ranks, deadline) if fine else None


def _map(name, size, flags):
    try:
        fd = os.open(name, os.O_RDWR | flags, 0o600)
    except OSError:
        return None
    try:
        if flags:
            os.ftruncate(fd, size)
        return mmap.mmap(fd, size)
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
