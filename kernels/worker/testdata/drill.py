"""The toy worker; its rank 1 misbehaves if messages=4, in the way of EPBENCH_TEST_DRILL."""

import contextlib
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/workers"))

import toy  # noqa: E402
from harness import Failure  # noqa: E402
from harness.capture import Graphs  # noqa: E402

DRILL = os.environ["EPBENCH_TEST_DRILL"]
NO_NUMBERS = {"infinite": b"\x80\x7f", "nan": b"\xc0\x7f"}


class Cuda:
    """torch.cuda as far as capturing needs it. The first `fails` captures fail at their end. Each of them leaves its
    stream as the current stream, as torch.cuda.graph does."""

    def __init__(self, fails):
        self.fails, self.stream = fails, "usual"
        self.graph.default_capture_stream = None

    class CUDAGraph:
        def replay(self):
            self.replayed = True

        def pool(self):
            return self

    class graph(contextlib.AbstractContextManager):
        default_capture_stream = None

        def __init__(self, made, pool, capture_error_mode):
            assert pool is None or isinstance(pool, Cuda.CUDAGraph) and capture_error_mode == "thread_local"

        def __enter__(self):
            assert CUDA.stream == "usual", "captured on the stream of a capture that failed"
            assert self.default_capture_stream != "damaged", "captured on a damaged stream"
            CUDA.stream = type(self).default_capture_stream = "capture"

        def __exit__(self, *_):
            if CUDA.fails:
                CUDA.fails -= 1
                type(self).default_capture_stream = "damaged"
                raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
            CUDA.stream = "usual"

    def current_stream(self):
        return self.stream

    def set_stream(self, stream):
        self.stream = stream

    def synchronize(self):
        assert self.stream == "usual", "work goes to the stream of a capture that failed"


CUDA = None  # this rank's


class Drill(toy.Toy):
    lost = False

    def start(self, ranks):
        global CUDA
        super().start(ranks)
        CUDA = Cuda({"capture": 1, "captures": 2}.get(DRILL, 0) * (self.rank == 1))
        self.graphs = Graphs(CUDA, ranks)
        if self.rank == 1 and DRILL == "missing":
            import no_such_library  # noqa: F401

    def prepare(self, half):
        super().prepare(half)
        Drill.lost = Drill.lost or self.rank == 1 and half.values["messages"] == 4 and DRILL == "sticky"
        if Drill.lost:  # as a CUDA context is after an illegal access
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

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
        if DRILL == "alone%d" % self.rank and half.values["messages"] == 4:
            raise Failure("launch", "too many resources requested here alone")
        if bad and DRILL == "print":
            print("NCCL INFO: a line on standard output", flush=True)
        super().dispatch(half)
        if bad and DRILL == "wrong":
            source, token, row = self.got[0]
            self.got[0] = (source, token, row[:-1] + bytes([row[-1] ^ 1]))
        if bad and DRILL == "lost":
            self.got.pop()

    def timed(self, name, steps, rounds, fold):
        if DRILL.startswith("capture") and '"messages": 4' in name:
            ran = []
            replay = self.graphs.get(name, lambda: self.graphs.capture(lambda: ran.append(1)))
            replay()
            assert replay.__self__.replayed and len(ran) in (0, 2), ran  # 0: captured before
        return super().timed(name, steps, rounds, fold)

    def experts(self):
        super().experts()
        if DRILL == "sum" and self.rank == 1:
            self.y = self.y[1:]

    def combine(self, half):
        super().combine(half)
        if DRILL in NO_NUMBERS and self.rank == 1:
            self.out[0] = NO_NUMBERS[DRILL] * self.work.hidden


if __name__ == "__main__":
    toy.main(Drill())
