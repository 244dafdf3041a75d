"""notebook.py FILE.ipynb runs a notebook and prints the last expression of each cell."""

import ast
import json
import os
import pathlib
import sys
import tempfile


def show(value):
    if value is not None:
        print(value._repr_html_()[:100] if hasattr(value, "_repr_html_") else repr(value))


def run(cell, names):
    code = ast.parse(cell)
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    exec(compile(code, "cell", "exec"), names)  # noqa: S102
    if last is not None:
        show(eval(compile(ast.Expression(last.value), "cell", "eval"), names))


def main(path):
    cells = [c for c in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    names = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, cell in enumerate(cells, 1):
            print(f"cell {number}", flush=True)
            run("".join(cell["source"]), names)
        os.chdir("/")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
