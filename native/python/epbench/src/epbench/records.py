"""Typed records of the tables that epbench prints as JSON. The name of a field ends with its unit.

Later versions keep the fields declared here. `more` holds all further columns: the key is the column's name in the
JSON.
"""

import dataclasses
import html
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

Value = str | int | float | bool | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table that epbench prints."""

    more: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Value]:
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "more"}
        return {**own, **self.more}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Winner(Row):
    """The config that a sweep chose for one op, routing and token count.

    `gain_x` is the default config's time divided by this config's time. [`low_x`, `high_x`] is the 95 % interval of
    the gain. All three are None if the default won. `verdict` is faster, same or undecided. A round's time is that of
    the slowest rank, and `median_us` is the median over rounds.
    """

    op: str
    routing: str
    tokens: int
    verdict: str
    gain_x: float | None
    low_x: float | None
    high_x: float | None
    median_us: float | None
    id: str
    config: str
    rounds: int
    clock: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableInfo(Row):
    """A tuned table. `answer` is the number of rows that are valid for this build's kernels."""

    source: str
    id: str
    rows: int
    answer: int
    name: str
    machine: str
    created: str
    edited: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableRow(Row):
    """A row of a tuned table. `tokens` is a range such as 9-16."""

    op: str
    mode: str
    dtype: str
    ranks: int
    nodes: int
    hidden: int
    experts: int
    topk: int
    routing: str
    tokens: str
    id: str
    config: str
    median_us: float | None
    gain_x: float | None
    low_x: float | None
    high_x: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer(Row):
    """The config that a table gives for one call. `reason` says why the table gives it. With exact, a row matches the
    call. With kept, no config is faster than the default. With uncovered, no row matches."""

    op: str
    mode: str
    dtype: str
    ranks: int
    nodes: int
    hidden: int
    experts: int
    topk: int
    routing: str
    tokens: int
    id: str
    config: str
    reason: str
    gain_x: float | None
    low_x: float | None
    high_x: float | None
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replay(Row):
    """The result of replays of a search strategy. `regret_percent` says how much slower the strategy's winner is than
    the best config. `flips_percent` is the share of repeated searches that do not choose the same config.
    `false_percent` is the share of searches that report a gain where there is none."""

    strategy: str
    budget: int | str
    regret_percent: float
    p95_percent: float
    worst_percent: float
    flips_percent: float
    false_percent: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial(Row):
    """One line of trials.jsonl, the measurement of one config. `seconds[i][r]` is the time of rank r in round i.

    `status` is ok, or the cause of a failure: illegal, compile, launch, mismatch, hang, crash or unstable.
    """

    seq: int
    problem: Mapping[str, Value]
    routing: str
    config: Mapping[str, Any]
    role: str
    stage: str
    status: str
    clock: str
    seconds: Sequence[Sequence[float]]


R = TypeVar("R", bound=Row)


class Rows(Sequence[R], Generic[R]):
    """An immutable list of records."""

    def __init__(self, rows: Sequence[R], title: str = "", notes: Sequence[str] = ()) -> None:
        self._rows, self.title, self.notes = tuple(rows), title, tuple(notes)

    @overload
    def __getitem__(self, at: int) -> R: ...
    @overload
    def __getitem__(self, at: slice) -> "Rows[R]": ...
    def __getitem__(self, at: int | slice) -> "R | Rows[R]":
        return Rows(self._rows[at], self.title, self.notes) if isinstance(at, slice) else self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"{self.title or 'rows'}: {len(self)} rows"

    def where(self, **values: Value) -> "Rows[R]":
        """Returns the rows with these values: `where(op="pair", tokens=128)`."""
        kept = [r for r in self if all(r.as_dict()[name] == value for name, value in values.items())]
        return Rows(kept, self.title, self.notes)

    def as_dicts(self) -> list[dict[str, Value]]:
        """Returns all columns of all rows, for `pandas.DataFrame`."""
        return [r.as_dict() for r in self]

    def _repr_html_(self) -> str:
        def line(cells: Sequence[object], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape('' if c is None else str(c))}</{tag}>" for c in cells) + "</tr>"

        rows = self.as_dicts()
        head = line(list(rows[0]), "th") if rows else ""
        notes = "".join(f"<p>{html.escape(n)}</p>" for n in self.notes)
        return f"<p>{html.escape(self.title)}</p><table>{head}{''.join(line(list(r.values()), 'td') for r in rows)}</table>{notes}"


_known: dict[str, dict[str, tuple[type, ...]]] = {}


def _fields(kind: type[Row]) -> dict[str, tuple[type, ...]]:
    if kind.__name__ not in _known:
        hints = typing.get_type_hints(kind)
        names = [f.name for f in dataclasses.fields(kind) if f.name != "more"]
        _known[kind.__name__] = {name: _options(hints[name]) for name in names}
    return _known[kind.__name__]


def _options(hint: Any) -> tuple[type, ...]:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return tuple(typing.get_origin(o) or o for o in options)


def record(kind: type[R], values: Mapping[str, Any], what: str) -> R:
    """Makes a record from a JSON object. Raises ValueError if a field is missing, and TypeError if a field has the
    wrong type."""
    own: dict[str, Any] = {}
    for name, allowed in _fields(kind).items():
        if name not in values:
            raise ValueError(f"{what}: no {name!r}; it has {', '.join(values)}")
        value = values[name]
        if float in allowed and type(value) is int:
            value = float(value)
        if not isinstance(value, allowed):
            raise TypeError(f"{what}: {name} is {value!r}, which is not {' or '.join(t.__name__ for t in allowed)}")
        own[name] = value
    return kind(**own, more={k: v for k, v in values.items() if k not in own})


def rows(kind: type[R], table: Mapping[str, Any]) -> Rows[R]:
    made = [record(kind, r, f"{table['name']}[{i}]") for i, r in enumerate(table["rows"])]
    return Rows(made, table["title"], table.get("notes", ()))
