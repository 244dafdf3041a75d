"""Replaces CUDA's streams by Python objects. They raise an error if a stream uses a tensor and has not waited for the
stream that wrote the tensor."""

import contextlib
import time

import torch

# _ABOUT: functions that read no element of a tensor. _WAITS: functions that make the host wait for a tensor's values.
_ABOUT = {"__get__", "size", "dim", "numel", "stride", "is_contiguous", "element_size", "untyped_storage", "storage_offset", "__len__"}
_WAITS = {"item", "tolist", "equal", "allclose", "__bool__", "__int__", "__float__", "__index__"}
_host = {}


def _merge(into, more):
    for stream, count in more.items():
        into[stream] = max(into.get(stream, 0), count)


class _Capture:
    def __init__(self, origin):
        self.on, self.streams = True, [origin]


class Stream:
    _as_parameter_ = None  # makes ctypes pass a null pointer
    capture = 0

    def __init__(self, *_, **__):
        self._done, self._seen = 0, {}

    @property
    def cuda_stream(self):
        return self

    def clock(self):
        """Returns for each stream the number of its operations that this stream has waited for."""
        return {**self._seen, self: self._done}

    def wait_event(self, event):
        self._join(event.capture)
        _merge(self._seen, event.clock)

    def wait_stream(self, stream):
        event = Event()
        event.record(stream)
        self.wait_event(event)

    def _join(self, capture):
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
    """Checks that the current stream has waited for each stream that wrote one of the tensors in the arguments."""
    if function.__name__ in _ABOUT:
        return
    for t in _tensors([args, kwargs]):
        made = getattr(t, "made_by", None)
        if made is not None and not current().after(made):
            raise RuntimeError(f"{function.__name__}: the stream has not waited for the stream that made {tuple(t.shape)} {t.dtype}")


def behind(function, args, results):
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
    """Checks that the stream of a launch has waited for the communicator's launch before, because both use the same
    memory."""
    last = getattr(link, "made_by", None)
    if last is not None and not current().after(last):
        raise RuntimeError("a launch has not waited for the stream of the launch before it")
    link.made_by = current().step()
