"""The parts of a worker for epbench, apart from the library that it drives.

A worker is one process a rank. The processes are started by any launcher, find epbench
by the environment, and do the same at the same time: rank 0 reads a request, shares it,
every rank acts on it, and rank 0 answers for all. docs/worker-protocol.md is the
protocol. Everything here needs the standard library alone; harness.gpu needs torch.
"""

from .library import Library, kernel, param
from .protocol import Failure
from .serve import main
from .session import Half

__all__ = ["Failure", "Half", "Library", "kernel", "main", "param"]
