"""The parts of a worker for epbench that do not depend on the library that the worker drives.

A worker has one process for each rank. Any launcher can start the processes. They find epbench
through environment variables. Rank 0 reads a request and sends it to the other ranks, every rank
performs it, and rank 0 answers for all. The page "How does a worker start, fail and end?" of
epbench's repository describes the protocol. The modules gpu, gpu_beside, judge, lt, product and
tensors import torch; all others need only the standard library.
"""

from .library import Library, installed_version, kernel, param
from .protocol import Failure
from .serve import main
from .session import Half

__all__ = ["Failure", "Half", "Library", "installed_version", "kernel", "main", "param"]
