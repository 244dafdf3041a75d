"""Replaces CUDA's streams in one thread. Work runs at once; the streams only record which stream has
waited for which. A stream that uses a tensor before it has waited for the stream that made the tensor
raises an error, because on a GPU the bytes could be wrong. Calls that CUDA refuses during a capture raise
an error too."""

import contextlib
import time

import torch

# Functions that describe a tensor without reading it, and functions in which the host waits for the stream.
_ABOUT = {"__get__", "size", "dim", "numel", "stride", "is_contiguous", "element_size", "untyped_storage", "storage_offset", "__len__"}
_WAITS = {"item", "tolist", "equal", "allclose", "__bool__", "__int__", "__float__", "__index__"}
_host = {}  # how many operations of each stream the host has waited for


def _merge(into, more):
    for stream, count in more.items():
        into[stream] = max(into.get(stream, 0), count)


class _Capture:
    """The capture of a graph, and the streams in it. `on` is False after its end."""

    def __init__(self, origin):
        self.on, self.streams = True, [origin]


class Stream:
    _as_parameter_ = None  # ctypes passes null, because the emulated driver runs everything on one stream
    capture = 0            # the _Capture that this stream is in, or 0

    def __init__(self, *_, **__):
        self._done, self._seen = 0, {}

    @property
    def cuda_stream(self):
        """Returns the stream itself, in place of the driver's number of the stream."""
        return self

    def clock(self):
        """Returns {stream: the number of its operations for which this stream has waited}. The entry of this stream
        itself is the number of its operations so far."""
        return {**self._seen, self: self._done}

    def wait_event(self, event):
        self._join(event.capture)
        _merge(self._seen, event.clock)

    def wait_stream(self, stream):
        event = Event()
        event.record(stream)
        self.wait_event(event)

    def _join(self, capture):
        """Adds this stream to the capture of a stream for which it waits. Raises an error if this stream is in another
        capture than that stream, or if that stream's capture has ended."""
        if not self.capture and capture and capture.on:
            self.capture = capture
            capture.streams.append(self)
        if self.capture is not capture:
            raise RuntimeError("a stream waits for a stream that is not in its capture (CUDA errors 905 and 907)")

    def step(self):
        self._done += 1
        return self, self._done

    def after(self, made):
        stream, count = made
        return stream is self or max(self._seen.get(stream, 0), _host.get(stream, 0)) >= count


class Event:
    """Replaces CUDA's event. A wait for an event that was never recorded fails."""

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
    """Replaces torch.cuda.graph. The captured work runs at once, as if the graph were replayed once."""
    synchronized()
    stream.capture = _Capture(stream)
    try:
        with use(stream):
            yield
    finally:
        captured = _end(stream)
    for other in captured:
        if other is not stream and not stream.after((other, other._done)):
            raise RuntimeError("a capture ends before its first stream has waited for all its streams (CUDA error 904)")
    _merge(_host, stream.clock())


def _end(stream):
    captured, stream.capture.on = stream.capture.streams, False
    for s in captured:
        s.capture = 0
    return captured


def synchronized():
    """Notes that the host has waited for every stream."""
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
    """Checks that the current stream has waited for the makers of all tensors of a call. data_ptr counts as a use,
    because a kernel gets the address."""
    if function.__name__ in _ABOUT:
        return
    for t in _tensors([args, kwargs]):
        made = getattr(t, "made_by", None)
        if made is not None and not current().after(made):
            raise RuntimeError(f"{function.__name__}: the stream has not waited for the stream that made {tuple(t.shape)} {t.dtype}")


def behind(function, args, results):
    """Notes that the current stream made the tensors that a call wrote."""
    name = function.__name__
    if name in _ABOUT:
        return
    made = current().step()
    given = [] if name.endswith("_") else list(_tensors(args))
    for t in _tensors(args[0] if name == "__setitem__" else results):
        if name == "__setitem__" or not any(t is g for g in given):  # contiguous() may return its argument
            t.made_by = made
    if name in _WAITS:
        _merge(_host, current().clock())


def behind_last(link):
    """Checks that a launch waits for the last launch of the same communicator, because they share memory."""
    last = getattr(link, "made_by", None)
    if last is not None and not current().after(last):
        raise RuntimeError("a launch has not waited for the stream of the launch before it")
    link.made_by = current().step()
