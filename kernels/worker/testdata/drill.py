"""The toy worker whose rank 1 misbehaves, as EPBENCH_TEST_DRILL says, where messages=4."""

import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/workers"))

import toy  # noqa: E402

DRILL = os.environ["EPBENCH_TEST_DRILL"]


class Drill(toy.Toy):
    def start(self, ranks):
        super().start(ranks)
        if self.rank == 1 and DRILL == "missing":
            import no_such_library  # noqa: F401

    def dispatch(self, half):
        bad = self.rank == 1 and half.values["messages"] == 4
        if bad and DRILL == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if bad and DRILL == "hang":
            time.sleep(3600)
        if bad and DRILL == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if bad and DRILL == "raise":
            raise RuntimeError("CUDA error: invalid configuration argument")
        if bad and DRILL == "print":
            print("NCCL INFO: a line on standard output", flush=True)
        super().dispatch(half)
        if bad and DRILL == "wrong":
            source, token, row = self.got[0]
            self.got[0] = (source, token, row[:-1] + bytes([row[-1] ^ 1]))
        if bad and DRILL == "lost":
            self.got.pop()

    def experts(self):
        super().experts()
        if DRILL == "sum" and self.rank == 1:
            self.y = self.y[1:]

    def combine(self, half):
        super().combine(half)
        if DRILL == "infinite" and self.rank == 1:
            self.out[0] = b"\x80\x7f" * self.work.hidden


if __name__ == "__main__":
    toy.main(Drill())
