"""Reads tuned tables, looks up configs in them, and replays search strategies."""

import dataclasses
import os
from collections.abc import Sequence

from ._program import flags, tables
from .records import Answer, Replay, Rows, TableInfo, TableRow, rows

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Table:
    """One or more tuned tables. `sources` has one entry for each table. `rows` has the rows of all tables."""

    sources: Rows[TableInfo]
    rows: Rows[TableRow]


def load_table(table: Path | None = None) -> Table:
    """Reads a table: a file table.json, a run directory, or the name of an embedded table, such as h200x4. Without
    an argument it returns all tables that a look-up would use."""
    printed = tables("table", "show", *flags(table=table))
    return Table(rows(TableInfo, printed["tables"]), rows(TableRow, printed["rows"]))


def lookup(
    table: Path | None = None,
    *,
    op: str | Sequence[str] | None = None,
    tokens: int | str | Sequence[int] | None = None,
    routing: str | Sequence[str] | None = None,
    model: str | None = None,
    dtype: str | None = None,
    ranks: int | None = None,
    nodes: int | None = None,
    hidden: int | None = None,
    experts: int | None = None,
    topk: int | None = None,
    mode: str | None = None,
    layout: str | None = None,
    machine: Path | None = None,
    precision: str | None = None,
) -> Rows[Answer]:
    """Returns the config that the tables give for each op, token count per rank, and routing.

    The arguments are the flags of `epbench table lookup`.
    """
    given = flags(
        table=table, op=op, tokens=tokens, routing=routing, model=model, dtype=dtype, ranks=ranks, nodes=nodes,
        hidden=hidden, experts=experts, topk=topk, mode=mode, layout=layout, machine=machine, precision=precision,
    )
    return rows(Answer, tables("table", "lookup", *given)["answers"])


def replay(
    *runs: Path,
    strategy: str | Sequence[str] | None = None,
    budget: int | str | Sequence[int] | None = None,
    replays: int | None = None,
    seed: int | None = None,
) -> Rows[Replay]:
    """Replays search strategies on recorded runs. Returns how much slower each strategy's winner is than the best
    config of the run. A strategy may measure `budget` distinct configs."""
    given = flags(strategy=strategy, budget=budget, replays=replays, seed=seed)
    return rows(Replay, tables("replay", *(os.fspath(r) for r in runs), *given)["replay"])
