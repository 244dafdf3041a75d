"""epcomm: expert-parallel dispatch and combine with the kernels that epbench has tuned.

A pack (a file made by ``epbench pack``) holds the kernels, and determines which of them a call launches.

``EP`` is the class for PyTorch. It takes and returns tensors without copies, and has custom operators; CUDA
graphs can capture its calls. ``Comm`` gives the functions of the C library, with addresses as integers; it
needs no other package. Errors are ``EpcommError`` with the library's error text.
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
