"""Finds and runs the program epbench."""

import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
import warnings
from typing import Any


class EpbenchError(Exception):
    """The program epbench failed.

    `code` is its exit code: 1 failed, 2 usage or bad input, 3 wrong numbers or a regression, 4 undecided,
    5 not comparable, 130 interrupted.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class EpbenchWarning(UserWarning):
    """A warning of the program epbench."""


def program() -> str:
    """Returns the path of the program epbench. If `EPBENCH_PROGRAM` is not set, it looks for a program that was
    installed with this package, and then on `PATH`."""
    named = os.environ.get("EPBENCH_PROGRAM")
    if named:
        return named
    package = pathlib.Path(__file__).resolve().parent
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))]
    folders.append(str(package.parent / "bin"))
    for folder in folders:
        path = os.path.join(folder, "epbench")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("epbench")
    if found is None:
        raise EpbenchError(f"no epbench in {', '.join(folders)} or on PATH; set EPBENCH_PROGRAM to its path", 1)
    return found


def call(*arguments: str) -> str:
    """Runs `epbench ARGUMENTS...` and returns what it prints. Text on standard error becomes an `EpbenchWarning`. If
    the program fails, the function raises `EpbenchError`."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, check=False)
    errors = done.stderr.strip()
    if done.returncode != 0:
        raise EpbenchError(errors or f"epbench {arguments[0]}: exit code {done.returncode}", done.returncode)
    if errors:
        warnings.warn(errors, EpbenchWarning, stacklevel=3)
    return done.stdout


def tables(*arguments: str) -> dict[str, dict[str, Any]]:
    printed: list[dict[str, Any]] = json.loads(call(*arguments, "--format", "json"))
    for text in dict.fromkeys(w for t in printed for w in t.get("warnings", [])):
        warnings.warn(text, EpbenchWarning, stacklevel=4)
    return {t["name"]: t for t in printed}


def flags(**values: object) -> list[str]:
    """Returns flags: `tokens=[1, 8]` gives `--tokens=1,8`, `reduced=True` gives `--reduced`, and None gives nothing."""
    out = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            out.append(flag)
        elif isinstance(value, list | tuple):
            out.append(f"{flag}={','.join(map(str, value))}")
        elif value is not None and value is not False:
            out.append(f"{flag}={value}")
    return out
