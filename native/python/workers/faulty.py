"""Runs a worker with a fault, to test how epbench handles it:

    EPBENCH_FAULT=... faulty.py NAME LIBRARY [MODE]

    kill:PARAM=VALUE   rank 1 kills itself in the first dispatch of a config with that value
    hang:PARAM=VALUE   rank 1 does not return from such a dispatch
    print:PARAM=VALUE  rank 1 prints to standard output in each such dispatch
    missing:NAME       rank 1 does not find the library, if this program's first argument is NAME

LIBRARY is the name of a library that worker.py runs, or a file such as examples/workers/toy.py. Without EPBENCH_FAULT
the worker has no fault.
"""

import importlib
import importlib.util
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness import Library, main  # noqa: E402

FAULTY = 1


def found(name):
    """Returns the subclass of harness.Library for the argument LIBRARY."""
    if not name.endswith(".py"):
        return importlib.import_module("libraries." + name).Library
    spec = importlib.util.spec_from_file_location(pathlib.Path(name).stem, name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Library) and c.__module__ == module.__name__)


def faulty(cls, name, fault):
    kind, _, where = fault.partition(":")
    param, _, value = where.partition("=")

    class Faulty(cls):
        def start(self, ranks):
            if kind == "missing" and where == name and ranks.rank == FAULTY:
                raise ModuleNotFoundError("No module named %r" % self.name)
            super().start(ranks)

        def dispatch(self, half):
            if self.rank == FAULTY and str(half.values.get(param)) == value:
                if kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if kind == "hang":
                    time.sleep(3600)
                if kind == "print":
                    print("a line on standard output, as NCCL_DEBUG prints them", flush=True)
            super().dispatch(half)

    return Faulty


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(faulty(found(sys.argv[2]), sys.argv[1], os.environ.get("EPBENCH_FAULT", ""))(*sys.argv[3:]))
