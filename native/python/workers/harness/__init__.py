"""The parts of a worker for epbench that do not depend on the library that the worker drives.

A worker has one process for each rank, from any launcher. Rank 0 passes each request to the other ranks and answers
for all. docs/worker-protocol.md in epbench's repository describes the protocol.

gpu, gpu_beside, judge, layers, lt, moves, product and tensors import torch. All others need only the standard library.
"""

from .library import Library, installed_version, kernel, param
from .protocol import Failure
from .serve import main
from .session import Half

__all__ = ["Failure", "Half", "Library", "installed_version", "kernel", "main", "param"]
