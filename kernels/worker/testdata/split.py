"""The toy worker in split phases: one call sends, a later call receives. With
EPBENCH_TEST_DRILL=none it offers no matrix product to run beside the calls."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/workers"))

import toy  # noqa: E402


class Split(toy.Toy):
    if os.environ["EPBENCH_TEST_DRILL"] == "none":
        beside = ()

    def phases(self, op, half):
        return lambda: None, lambda: getattr(self, op)(half)


if __name__ == "__main__":
    toy.main(Split())
