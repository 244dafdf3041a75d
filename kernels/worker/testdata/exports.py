"""Checks that DeepEP's worker takes its config from DeepEP's map, a JSON file or a shim, and
names the source. Needs PyTorch; a stand-in replaces deep_ep."""

import json
import os
import pathlib
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

from harness.session import Half  # noqa: E402
from libraries import deepep  # noqa: E402

NAMES = ("num_sms", "num_max_nvl_chunked_send_tokens", "num_max_nvl_chunked_recv_tokens")


class Config(tuple):
    def __new__(cls, *values, **named):
        return super().__new__(cls, values or [named[n] for n in NAMES])


class Buffer:
    get_dispatch_config = staticmethod(lambda ranks: Config(20, 24, 256))
    get_combine_config = staticmethod(lambda ranks: Config(20, 10, 256))


# A shim replaces the methods of Buffer, and is asked through them.
SHIM = """
import deep_ep
def register():
    deep_ep.Buffer.get_dispatch_config = staticmethod(lambda ranks: deep_ep.Config(128, 4, 256))
    deep_ep.Buffer.get_combine_config = staticmethod(lambda ranks: deep_ep.Config(128, 6, 256))
"""


def started(folder):
    """The worker's library on the only rank, with both files in the environment."""
    sys.modules["deep_ep"] = types.SimpleNamespace(Config=Config, Buffer=Buffer)
    sys.path.insert(0, str(folder))
    (folder / "shim_of_a_test.py").write_text(SHIM)
    (folder / "sglang.json").write_text(json.dumps({"normal_" + op: dict(zip(NAMES, v)) for op, v in (("dispatch", (96, 8, 256)), ("combine", (96, 9, 256)))}))
    os.environ.update(EPBENCH_DEEPEP_CONFIG=str(folder / "sglang.json"), EPBENCH_DEEPEP_SHIM="shim_of_a_test")
    library = deepep.Library("own")
    library.ranks, library.deep_ep = types.SimpleNamespace(rank=0, ranks=2), sys.modules["deep_ep"]
    library.machine = lambda: {"sms": 132}
    library.read_exports()
    return library


def asked(library, op, values):
    """What DeepEP runs with: it asks its own methods where it is given no config."""
    config = library.config(Half("k", values), op)
    return config or getattr(Buffer, "get_%s_config" % op)(2)


with tempfile.TemporaryDirectory() as folder:
    library = started(pathlib.Path(folder))
    for by, dispatch, combine in (("map", (20, 24), (20, 10)), ("json", (96, 8), (96, 9)), ("shim", (128, 4), (128, 6))):
        got = asked(library, "dispatch", {"by": by}), asked(library, "combine", {"by": by})
        assert got == ((*dispatch, 256), (*combine, 256)), (by, got)
    assert asked(library, "combine", {"sms": 64, "send": 9, "recv": 256}) == (64, 9, 256)
    declared = {(k["name"], k["op"]): k for k in library.kernels()}
    by = declared["deepep-own", "combine"]["params"][0]
    assert (by["values"], by["default"]) == (["map", "json", "shim"], "map"), by
    assert declared["deepep-own", "combine"]["accepts"] == ["deepep-own"], declared
    combine = Half("deepep-own", {"by": "json"})
    assert library.follow(combine, Half("deepep-own", {"by": "map"})).values == {"by": "json"}
