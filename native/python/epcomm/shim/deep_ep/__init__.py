"""Replaces DeepEP's package deep_ep by epcomm.deepep. Folder v1 holds deep_ep.utils, a module of DeepEP V1.

Three variables help to run DeepEP's own tests. DEEPEP_SOURCE names a checkout of DeepEP, and deep_ep.utils is then
the module of this checkout. DEEPEP_TEST_SEED changes each seed that a test sets. With DEEPEP_TEST_NAMES=1, epcomm's
kernels have DeepEP's names in profiles.
"""

import os
import sys
import types

import torch

from epcomm.deepep import *  # noqa: F403
from epcomm.deepep import EventHandle


def get_physical_domain_size(group):
    """Returns (hosts, ranks of a host)."""
    return 1, group.size()


def get_logical_domain_size(group, allow_hybrid_mode=True):
    """Returns (hosts, ranks of a host)."""
    return 1, group.size()


_source = os.environ.get("DEEPEP_SOURCE")
__path__.append(os.path.join(_source, "deep_ep") if _source else os.path.join(os.path.dirname(__file__), "v1"))
if _source:
    sys.modules["deep_ep._C"] = types.SimpleNamespace(EventHandle=EventHandle)

_seed = int(os.environ.get("DEEPEP_TEST_SEED", "0"))
if _seed:
    _set_seed = torch.manual_seed
    torch.manual_seed = lambda seed: _set_seed(seed + 1000 * _seed)

if os.environ.get("DEEPEP_TEST_NAMES") == "1":
    from . import names

    names.use()
