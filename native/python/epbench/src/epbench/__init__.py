"""Reads runs and tables of epbench, and looks up configs. The functions return typed records.

    import epbench

    run = epbench.load_run("first")
    for w in run.winners:
        print(w.op, w.tokens, w.routing, w.verdict, w.gain_x)

Notebooks show records as a table. `pandas.DataFrame(run.winners.as_dicts())` returns a data frame.
"""

from ._program import EpbenchError, EpbenchWarning, call, program
from .answers import Table, load_table, lookup, replay
from .records import Answer, Replay, Row, Rows, TableInfo, TableRow, Trial, Winner
from .runs import Run, load_run

__all__ = [
    "Answer", "EpbenchError", "EpbenchWarning", "Replay", "Row", "Rows", "Run", "Table", "TableInfo", "TableRow", "Trial", "Winner",
    "call", "load_run", "load_table", "lookup", "program", "replay",
]
