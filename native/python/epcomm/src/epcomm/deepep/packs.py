"""Finds the pack for a shape, or makes a pack.

A pack is a file with compiled kernels. The search looks first at the packs that use_packs got, then at the paths in
EPCOMM_PACKS, which colons separate. Last it looks in the cache folder, which is EPCOMM_CACHE or else ~/.cache/epcomm.
If no pack fits, the program epbench makes a pack in the cache folder. EPBENCH_PROGRAM is the path of this program.
Without EPBENCH_PROGRAM, the program must be on PATH. The program compiles with NVRTC and takes the configs from its
embedded tables for these GPUs. With EPCOMM_OTHER_MACHINES=1 it also uses tables for GPUs that have the same
architecture and link but differ otherwise.
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import typing

from ..comm import DTYPES, LAYOUTS, EpcommError, check_pack, machine

_explicit: list[str] = []


class Shape(typing.NamedTuple):
    layout: str
    ranks: int
    hidden: int
    experts: int
    topk: int
    max_tokens: int
    max_sms: int = 0
    raw: bool = False    # with fp8: the caller casts tokens
    exact: bool = False  # a pack with a larger max_tokens does not fit
    dtype: str = "bf16"
    survivors: bool = False  # kernels can leave out lost ranks

    def facts(self):
        """Returns the values that must be equal on all ranks, as {DeepEP's name: value}."""
        return {"hidden": self.hidden, "num_experts": self.experts, "num_topk": self.topk, "num_sms": self.max_sms, "dtype": self.dtype,
                "num_max_dispatch_tokens_per_rank" if self.exact else "EPCOMM_MAX_TOKENS": self.max_tokens,
                **({"round_scale": self.raw} if self.exact else {})}

    def dtypes(self):
        return ("fp8", "bf16") if self.hidden % 128 == 0 else ("bf16",)


def use_packs(*paths):
    """Adds paths of packs, or of folders with packs. A Buffer looks at these packs first."""
    _explicit.extend(str(p) for p in paths)


def other_machines():
    return os.environ.get("EPCOMM_OTHER_MACHINES") == "1"


def cache_folder():
    folder = os.environ.get("EPCOMM_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "epcomm")
    return os.path.join(folder, "other-machines") if other_machines() else folder


def _files(places):
    for place in places:
        if os.path.isdir(place):
            yield from sorted(glob.glob(os.path.join(place, "*.pack")))
        elif place:
            yield place


def _named():
    return _explicit, [p for p in os.environ.get("EPCOMM_PACKS", "").split(":") if p]


def _runs_on(info, here):
    exact = info.arch.endswith(b"a")
    made, gpu = (divmod(int(arch[3:].rstrip(b"af")), 10) for arch in (info.arch, here.arch))
    return made == gpu if exact else made[0] == gpu[0] and made[1] <= gpu[1]


def _unfit(info, shape, here):
    """Returns a text that says why a pack does not fit, or "" if it fits."""
    for name, has, wants in (
        ("layout", LAYOUTS[info.layout], shape.layout), ("ranks", info.ranks, shape.ranks), ("hidden", info.hidden, shape.hidden),
        ("experts", info.experts, shape.experts), ("topk", info.topk, shape.topk), ("raw", bool(info.raw), shape.raw),
        ("survivors", bool(info.survivors), shape.survivors),
    ):
        if has != wants:
            return f"{name} {has}, needs {wants}"
    if info.max_tokens < shape.max_tokens or shape.exact and info.max_tokens != shape.max_tokens:
        return f"max-tokens {info.max_tokens}, needs {shape.max_tokens}"
    if not info.dtypes >> DTYPES[shape.dtype] & 1:
        return f"dtype: needs {shape.dtype}"
    if not _runs_on(info, here):
        return f"arch {info.arch.decode()}, the GPUs are {here.arch.decode()}"
    most = min(shape.max_sms or here.sms, here.sms)
    if info.largest_grid > most:
        return f"its calls take {info.largest_grid} SMs; make it with --max-sms {most}"
    return ""


def _read(path, shape, here):
    """Returns a pack's sort key, and a text that says why the pack does not fit. The text is empty if it fits."""
    try:
        with open(path, "rb") as f:
            info = check_pack(f.read())
    except (OSError, EpcommError) as e:
        return (0, 0), str(e)
    return (info.max_tokens, -info.largest_grid), _unfit(info, shape, here)


def find(shape, here):
    """Returns the path of the smallest pack that fits, or None."""
    for places in (*_named(), _made_for(here)):
        found = [(rank, path) for path in _files(places) for rank, why in [_read(path, shape, here)] if not why]
        if found:
            return min(found)[1]
    return None


def _short(text, digits):
    return hashlib.sha256(text).hexdigest()[:digits]


def _made_for(here):
    return sorted(glob.glob(os.path.join(cache_folder(), f"*-{_short(here.key, 8)}.pack")))


def _machine_file(folder, here):
    text = lambda b: b.decode(errors="replace")
    path = os.path.join(folder, f"machine-{_short(here.key, 8)}.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"machine": {
            "backend": "cuda", "name": text(here.name), "pci_id": text(here.pci_id), "arch": text(here.arch), "sms": here.sms,
            "memory_bytes": here.memory, "gpus": here.gpus, "link": text(here.link), "driver": "", "cuda": ""}}, f)
    return path


def command(shape, machine_file, path):
    program = os.environ.get("EPBENCH_PROGRAM") or shutil.which("epbench") or "epbench"
    words = [program, "pack", "--embedded", "--layout", shape.layout, "--ranks", shape.ranks, "--hidden", shape.hidden, "--experts",
             shape.experts, "--topk", shape.topk, "--max-tokens", shape.max_tokens, "--dtype", ",".join(shape.dtypes()), "--max-sms", shape.max_sms,
             "--precision", "reduced", "--machine", machine_file, "-o", path] + ["--raw"] * shape.raw + ["--survivors"] * shape.survivors + ["--other-machines"] * other_machines()
    return [str(w) for w in words]


def make(shape, here):
    """Makes a pack in the cache folder and returns its path. Several jobs may make the same pack at a time."""
    folder = cache_folder()
    os.makedirs(folder, exist_ok=True)
    name = f"{shape.layout.replace(':', '-')}-{_short(repr(shape).encode(), 16)}-{_short(here.key, 8)}.pack"
    path = os.path.join(folder, name)
    with tempfile.TemporaryDirectory(dir=folder, prefix="new-") as mine:
        machine_file = _machine_file(mine, here)
        why = _failed(command(shape, machine_file, os.path.join(mine, name)))
        if why:
            kept = os.path.join(folder, os.path.basename(machine_file))
            os.replace(machine_file, kept)
            raise LookupError(_missing(shape, here, command(shape, kept, path), why))
        os.replace(os.path.join(mine, name), path)
    return path


def _failed(words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as e:
        return str(e)
    lines = done.stderr.strip().splitlines()
    return "" if not done.returncode else lines[-1] if lines else "no reason given"


def _missing(shape, here, words, why):
    text = (f"no pack for {shape}, and making one failed: {why}. Make it on a machine with NVRTC: `{' '.join(words)}`, and name it in "
            "EPCOMM_PACKS or use_packs")
    for path in (p for places in _named() for p in _files(places)):
        unfit = _read(path, shape, here)[1]
        if not unfit.startswith("layout"):
            text += f". {path} cannot be used: {unfit}"
    return text


def get(shape, rank, all_gather_object):
    """Returns the path of a pack. Rank 0 finds or makes the pack. If rank 0 fails, all ranks raise LookupError. All
    ranks must call it."""
    result, failed = None, None
    if rank == 0:
        try:
            here = machine()
            result = (find(shape, here) or make(shape, here), None)
        except Exception as e:  # any exception, because the other ranks wait for a result
            failed = e
            result = (None, str(e) if type(e) in (LookupError, EpcommError) else f"{type(e).__name__}: {e}")
    path, why = all_gather_object(result)[0]
    if why:
        raise LookupError(why) from failed
    return path
