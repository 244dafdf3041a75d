"""The toy worker with a dispatch that reads the clock once per message: on a clock that counts
readings its calls take longer with more messages."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/workers"))

import toy  # noqa: E402


class Paced(toy.Toy):
    def dispatch(self, half):
        for _ in range(half.values["messages"]):
            time.perf_counter()
        super().dispatch(half)


if __name__ == "__main__":
    toy.main(Paced())
