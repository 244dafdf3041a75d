"""epcomm: expert-parallel dispatch and combine, as epbench tuned them.

A pack (a file made by ``epbench pack``) holds the kernels, and says which of them a call launches.

``EP`` is for PyTorch: tensors in and out without copies, custom operators, CUDA
graphs. ``Comm`` is the library itself, with addresses as integers; it needs
nothing but Python. Errors are ``EpcommError`` with the library's error text.
"""

from .comm import Call, Comm, EpcommError, Explanation, Fault, Info, Machine, Outputs, check_pack, classify, machine

__all__ = ["EP", "Call", "Comm", "Dispatched", "EpcommError", "Explanation", "Fault", "Info", "Machine", "Outputs", "check_pack",
           "classify", "machine"]


def __getattr__(name):
    """Imports PyTorch at the first use of EP or Dispatched."""
    if name in ("EP", "Dispatched"):
        from . import ep

        return getattr(ep, name)
    raise AttributeError(f"module epcomm has no {name}")
