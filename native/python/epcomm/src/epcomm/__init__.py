"""epcomm: expert-parallel dispatch and combine with the kernels that epbench has tuned.

A pack (a file that ``epbench pack`` makes) holds the kernels.

``EP`` works with PyTorch's tensors. ``Comm`` works with addresses and needs no other package. Errors are
``EpcommError`` with the library's error text.
"""

from .comm import Call, Comm, EpcommError, Explanation, Fault, Info, Machine, Outputs, check_pack, classify, machine

__all__ = ["EP", "Call", "Comm", "Dispatched", "EpcommError", "Explanation", "Fault", "Info", "Machine", "Outputs", "check_pack",
           "classify", "machine"]


def __getattr__(name):
    if name in ("EP", "Dispatched"):
        from . import ep

        return getattr(ep, name)
    raise AttributeError(f"module epcomm has no {name}")
