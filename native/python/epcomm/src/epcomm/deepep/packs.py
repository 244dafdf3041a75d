"""Finds the pack for a shape, or makes one.

In this order: the files given to use_packs; files and folders that EPCOMM_PACKS
names, separated by colons; the cache folder, EPCOMM_CACHE or ~/.cache/epcomm. What is
not found is made there by the program epbench (EPBENCH_PROGRAM or PATH) where NVRTC is
to be had; that takes half a minute. A pack of a table is better than one made so, as
that holds defaults for what no embedded table covers: make it with epbench pack. With
EPCOMM_OTHER_MACHINES=1 rows that were measured on other GPUs of this architecture and
link count too (epbench pack --other-machines); such packs have a folder of their own.
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import typing

from ..comm import EpcommError, check_pack, machine

LAYOUTS = ("expert", "expert:128", "masked", "rank", "rank:packed")
_explicit: list[str] = []


class Shape(typing.NamedTuple):
    """What a pack must be for. max_tokens and max_sms are bounds that it keeps to."""

    layout: str
    ranks: int
    hidden: int
    experts: int
    topk: int
    max_tokens: int
    max_sms: int = 0
    raw: bool = False
    exact: bool = False  # max_tokens is part of the layout


def use_packs(*paths):
    """Names packs, or folders of packs, to be looked at before all others."""
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


def _serves(path, shape):
    """The pack's capacity if it is for the shape, else 0."""
    try:
        with open(path, "rb") as f:
            info = check_pack(f.read())
    except (OSError, EpcommError):
        return 0
    same = (LAYOUTS[info.layout], info.ranks, info.hidden, info.experts, info.topk, bool(info.raw)) == (
        shape.layout, shape.ranks, shape.hidden, shape.experts, shape.topk, shape.raw)
    room = info.max_tokens == shape.max_tokens if shape.exact else info.max_tokens >= shape.max_tokens
    few = shape.max_sms == 0 or info.largest_grid <= shape.max_sms
    return info.max_tokens if same and room and few else 0


def find(shape):
    """The path of the smallest pack that serves a shape, None where there is none. Of the
    places in the order above the first that has one counts."""
    named = [p for p in os.environ.get("EPCOMM_PACKS", "").split(":") if p]
    for places in (_explicit, named, [cache_folder()]):
        found = [(size, path) for path in _files(places) if (size := _serves(path, shape))]
        if found:
            return min(found)[1]
    return None


def _machine_file(folder):
    m = machine()
    text = lambda b: b.decode(errors="replace")
    path = os.path.join(folder, "machine.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"machine": {
            "backend": "cuda", "name": text(m.name), "pci_id": text(m.pci_id), "arch": text(m.arch), "sms": m.sms,
            "memory_bytes": m.memory, "gpus": m.gpus, "link": text(m.link), "driver": "", "cuda": ""}}, f)
    return path


def command(shape, machine_file, path):
    """The command that makes a pack."""
    program = os.environ.get("EPBENCH_PROGRAM") or shutil.which("epbench") or "epbench"
    words = [program, "pack", "--embedded", "--layout", shape.layout, "--ranks", shape.ranks, "--hidden", shape.hidden, "--experts",
             shape.experts, "--topk", shape.topk, "--max-tokens", shape.max_tokens, "--dtype", "fp8,bf16", "--max-sms", shape.max_sms,
             "--precision", "reduced", "--machine", machine_file, "-o", path] + ["--raw"] * shape.raw + ["--other-machines"] * other_machines()
    return [str(w) for w in words]


def make(shape):
    """Makes a pack in the cache folder and returns its path."""
    folder = cache_folder()
    os.makedirs(folder, exist_ok=True)
    name = hashlib.sha256(repr(shape).encode()).hexdigest()[:16]
    path = os.path.join(folder, f"{shape.layout.replace(':', '-')}-{name}.pack")
    words = command(shape, _machine_file(folder), path + ".new")
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as e:
        raise LookupError(_missing(shape, words, str(e))) from e
    if done.returncode:
        raise LookupError(_missing(shape, words, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no reason given"))
    os.replace(path + ".new", path)
    return path


def _missing(shape, words, why):
    return (f"no pack for {shape}, and making one failed: {why}. Make it where NVRTC is: `{' '.join(words)}`, and name it in "
            "EPCOMM_PACKS or use_packs")


def get(shape, rank, all_gather_object):
    """The path of a pack for a shape: rank 0 finds or makes it, and tells the others.
    Collective. The ranks are of one host, with one file system."""
    said = None
    if rank == 0:
        try:
            said = (find(shape) or make(shape), None)
        except (LookupError, OSError, EpcommError) as e:
            said = (None, str(e))
    path, why = all_gather_object(said)[0]
    if why:
        raise LookupError(why)
    return path
