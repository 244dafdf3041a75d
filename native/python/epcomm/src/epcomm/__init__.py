"""epcomm: expert-parallel dispatch and combine with the kernels that epbench has tuned.

A pack (a file made by ``epbench pack``) holds the kernels and chooses among them.

``EP`` is the class for PyTorch; CUDA graphs can capture its calls. ``Comm`` gives the functions of the C library,
with addresses as integers, without other packages. Errors are ``EpcommError`` with the library's error text.
"""

from .comm import Call, Comm, EpcommError, Explanation, Fault, Info, Machine, Outputs, check_pack, classify, machine

__all__ = ["EP", "Call", "Comm", "Dispatched", "EpcommError", "Explanation", "Fault", "Info", "Machine", "Outputs", "check_pack",
           "classify", "machine"]


def __getattr__(name):
    if name in ("EP", "Dispatched"):
        from . import ep

        return getattr(ep, name)
    raise AttributeError(f"module epcomm has no {name}")
