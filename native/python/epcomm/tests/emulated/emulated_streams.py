"""Streams of one thread that does everything at once: what is kept is who waited for whom.
A tensor that a stream uses before it has waited for the stream that made it is an error,
though its bytes are right here. So is what CUDA refuses while a graph is captured."""

import contextlib
import time

import torch

# What tells about a tensor without reading it, and what waits for the stream on the host.
_ABOUT = {"__get__", "size", "dim", "numel", "stride", "is_contiguous", "element_size", "untyped_storage", "storage_offset", "__len__"}
_WAITS = {"item", "tolist", "equal", "allclose", "__bool__", "__int__", "__float__", "__index__"}
_host = {}  # by stream: how many of its operations the host has waited for


def _merge(into, more):
    for stream, count in more.items():
        into[stream] = max(into.get(stream, 0), count)


class _Capture:
    """A graph that is being captured, and the streams in it."""

    def __init__(self, origin):
        self.on, self.streams = True, [origin]


class Stream:
    _as_parameter_ = None  # for the emulated driver, which runs all on its own stream
    capture = 0            # the _Capture that it is in

    def __init__(self, *_, **__):
        self._done, self._seen = 0, {}

    @property
    def cuda_stream(self):
        """What stands for the driver's number of it."""
        return self

    def clock(self):
        """By stream, how many operations lie before what this stream does next."""
        return {**self._seen, self: self._done}

    def wait_event(self, event):
        self._join(event.capture)
        _merge(self._seen, event.clock)

    def wait_stream(self, stream):
        event = Event()
        event.record(stream)
        self.wait_event(event)

    def _join(self, capture):
        """A stream that waits for one in a capture is in it from then on. It waits for nothing
        outside its capture, and for nothing of one that has ended."""
        if not self.capture and capture and capture.on:
            self.capture = capture
            capture.streams.append(self)
        if self.capture is not capture:
            raise RuntimeError("a stream waits for what is not in its capture (CUDA errors 905 and 907)")

    def step(self):
        self._done += 1
        return self, self._done

    def after(self, made):
        stream, count = made
        return stream is self or max(self._seen.get(stream, 0), _host.get(stream, 0)) >= count


class Event:
    """Without a clock until it is recorded: to wait for it then is an error."""

    def __init__(self, enable_timing=False):
        self._at = None

    def record(self, stream=None):
        stream = stream or current()
        self.clock, self.capture, self._at = stream.clock(), stream.capture, time.perf_counter()

    def elapsed_time(self, other):
        return 1e3 * (other._at - self._at)


_now = [Stream()]


def current(device=None):
    return _now[-1]


@contextlib.contextmanager
def use(stream):
    _now.append(stream)
    try:
        yield
    finally:
        _now.pop()


@contextlib.contextmanager
def graph(stream):
    """What torch.cuda.graph captures, which runs at once here: one replay."""
    synchronized()
    stream.capture = _Capture(stream)
    try:
        with use(stream):
            yield
    finally:
        captured = _end(stream)
    for other in captured:
        if other is not stream and not stream.after((other, other._done)):
            raise RuntimeError("a capture ends and has not joined all its streams (CUDA error 904)")
    _merge(_host, stream.clock())


def _end(stream):
    """The streams of a capture, which are in none from here."""
    captured, stream.capture.on = stream.capture.streams, False
    for s in captured:
        s.capture = 0
    return captured


def synchronized():
    """The host has waited for every stream."""
    _merge(_host, current().clock())


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _tensors(v)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def before(function, args, kwargs):
    """The current stream has waited for all tensors of a call. data_ptr counts: a kernel
    gets it."""
    if function.__name__ in _ABOUT:
        return
    for t in _tensors([args, kwargs]):
        made = getattr(t, "made_by", None)
        if made is not None and not current().after(made):
            raise RuntimeError(f"{function.__name__}: the stream has not waited for the one that made {tuple(t.shape)} {t.dtype}")


def behind(function, args, results):
    """What the call wrote belongs to the current stream from here."""
    name = function.__name__
    if name in _ABOUT:
        return
    made = current().step()
    given = [] if name.endswith("_") else list(_tensors(args))
    for t in _tensors(args[0] if name == "__setitem__" else results):
        if name == "__setitem__" or not any(t is g for g in given):  # contiguous may return what it got
            t.made_by = made
    if name in _WAITS:
        _merge(_host, current().clock())


def behind_last(link):
    """A launch waits for the one before on the same communicator: they share memory."""
    last = getattr(link, "made_by", None)
    if last is not None and not current().after(last):
        raise RuntimeError("a launch has not waited for the stream of the one before")
    link.made_by = current().step()
