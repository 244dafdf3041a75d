"""Reads run directories, which `epbench sweep` and `epbench bench` write."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from ._program import tables
from .records import Row, Rows, Trial, Winner, record, rows


@dataclasses.dataclass(frozen=True)
class Run:
    """A run directory.

    `info` is the content of run.json. `tables` holds the tables of `epbench report --only all`, by name.
    """

    path: pathlib.Path
    info: Mapping[str, Any]
    winners: Rows[Winner]
    tables: Mapping[str, Rows[Row]]

    @property
    def machine(self) -> Mapping[str, Any]:
        machine: Mapping[str, Any] = self.info["machine"]
        return machine

    def trials(self) -> Iterator[Trial]:
        left_out = {"clock": "", "seconds": []}
        with open(self.path / "trials.jsonl", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield record(Trial, left_out | json.loads(line), f"{lines.name}:{number}")

    def table(self, name: str) -> Rows[Row]:
        """Returns one of `tables`. Raises KeyError if the run has no table of this name."""
        if name not in self.tables:
            raise KeyError(f"{name}: this run has {', '.join(self.tables)}")
        return self.tables[name]


def load_run(path: str | os.PathLike[str]) -> Run:
    """Reads a run directory. Raises `EpbenchError` if it is missing or damaged."""
    printed = tables("report", os.fspath(path), "--no-html", "--only", "all")
    folder = pathlib.Path(path)
    info = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return Run(folder, info, rows(Winner, printed["winners"]), {name: rows(Row, t) for name, t in printed.items()})
