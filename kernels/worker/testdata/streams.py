"""Rounds on two streams of a simulated GPU: every launch takes its declared time, and streams do
not slow each other down."""

import contextlib
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

from harness.beside import Part, Plan  # noqa: E402
from harness.streams import Round, Streams  # noqa: E402


class Stream:
    def __init__(self, priority=0):
        self.priority, self.now = priority, 0.0

    def wait_stream(self, other):
        self.now = max(self.now, other.now)


class Cuda:
    def __init__(self):
        self.streams = [Stream()]

    def current_stream(self):
        return self.streams[-1]

    @contextlib.contextmanager
    def stream(self, s):
        self.streams.append(s)
        yield
        self.streams.pop()

    def take(self, ms):
        self.current_stream().now += ms

    def Stream(self, priority):
        return Stream(priority)

    def Event(self, enable_timing, external):
        assert enable_timing and external
        return Event(self)


class Event:
    def __init__(self, cuda):
        self.cuda = cuda

    def record(self):
        self.at = self.cuda.current_stream().now

    def elapsed_time(self, end):
        return end.at - self.at


def measured(parts, split=False, step=False, share=3, calls=4):
    """What a round reads, in milliseconds, and which launches of the product it made."""
    cuda, launched = Cuda(), []

    def launch(i):
        launched.append(i)
        cuda.take(10)

    part = Part(lambda: cuda.take(4), (lambda: cuda.take(1), lambda: cuda.take(2)) if split else None)
    beside = types.SimpleNamespace(product=types.SimpleNamespace(launch=launch), attention=types.SimpleNamespace(launch=lambda i: cuda.take(7)), share=share, step=step)
    streams = Streams(cuda)
    assert streams.calls.priority < streams.side.priority, "calls go first"
    of, read = Round(streams, Plan("", [], [part] * parts, beside, 0), calls), {}
    for run, result in (of.product(), of.both()):
        del launched[:]
        run()
        read.update({k: round(v * (1 if k == "done" else 1e3), 6) for k, v in result().items()})
        assert len(cuda.streams) == 1
        assert streams.calls.now <= cuda.streams[0].now >= streams.side.now, "the streams are not joined"
    return read, launched


def expect(got, **want):
    read, _ = got
    for name, value in want.items():
        assert abs(read[name] - value) < 1e-6, (name, read[name], value)


# Calls and product at the same time: 4 calls end after 16 ms. The first of the product's 4 marks comes after 30 ms.
expect(measured(1), product=30, product_in=30, call_in=4, both=30, done=16 / 30 / 4)
assert measured(1)[1] == list(range(12)), measured(1)[1]
# A call that outlasts the product.
expect(measured(2, share=1, calls=1), product=10, call_in=8, both=10)
expect(measured(4, share=1, calls=1), product=10, call_in=16, both=16, done=1)
# In phases: the product is between send and receive of a call. A pair divides the product between its two calls.
expect(measured(1, split=True), product=30, both=33, call_in=3, product_in=30, done=1)
expect(measured(2, split=True), product=30, both=36, call_in=6, product_in=30)
assert measured(2, split=True)[1] == [0, 1, 2] * 5, measured(2, split=True)[1]
# A decode step has four calls a layer. Each of them waits for the longer of call and product.
expect(measured(4, step=True, share=1), product=34, both=34, call_in=34, product_in=34)
expect(measured(4, step=True, split=True, share=1), product=34, both=46, call_in=12, product_in=34)
