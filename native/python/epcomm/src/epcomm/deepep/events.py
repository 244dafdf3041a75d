"""Defines DeepEP's events, and the Lane that keeps calls in order."""

import contextlib
import ctypes
import functools
import threading

import torch

from .. import native

_capture_info = None  # cuStreamGetCaptureInfo_v2


def raw_stream(device):
    return torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0


def current_raw(device):
    if device.type == "cuda":
        return functools.partial(torch._C._cuda_getCurrentRawStream, device.index)
    return lambda: 0


def capture_of(stream):
    """Returns the number of the capture that a stream is in, or 0."""
    global _capture_info
    if _capture_info is None:
        _capture_info = ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo_v2
    status, number = ctypes.c_int(), ctypes.c_uint64()
    _capture_info(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None)
    return number.value if status.value else 0


def capture_here(device):
    return capture_of(raw_stream(device)) if device.type == "cuda" else 0


def record(tensors, device):
    for t in tensors:
        if t is not None:
            t.record_stream(torch.cuda.current_stream(device))


_free = []


class EventHandle:
    """An event that is recorded on the current stream. Python may delete an EventHandle during a capture, when events
    must not be destroyed. So the event of a deleted handle is used for the next EventHandle."""

    def __init__(self, stream=None):
        self.event = None
        if torch.cuda.is_available():
            self.event = _free.pop() if _free else torch.cuda.Event()
            self.event.record(stream or torch.cuda.current_stream())

    def __del__(self):
        if getattr(self, "event", None) is not None and _free is not None:
            _free.append(self.event)

    def current_stream_wait(self):
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """An event, and the tensors that must live until the event has passed."""

    def __init__(self, event=None, extra_tensors=None):
        self.event = event
        self.extra_tensors = extra_tensors

    def current_stream_wait(self):
        assert self.event is not None, "the call was not made with async_finish"
        self.event.current_stream_wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.event is not None:
            self.event.current_stream_wait()


class _Behind:
    def __init__(self):
        self.stream, self.capture, self.event = None, 0, torch.cuda.Event()

    def note(self, stream, capture):
        self.stream, self.capture = stream, capture
        self.event.record(stream)

    def follow(self, stream, capture):
        """Makes a stream wait for the last call, if both are in the same capture or both are outside captures. CUDA
        refuses a wait across captures."""
        if self.stream is not None and self.stream != stream and self.capture == capture:
            stream.wait_event(self.event)


class Lane:
    """Makes calls on one GPU run one after another, because they share memory and SMs. All Buffers that a thread
    makes for a GPU share the order. Calls in a CUDA graph and calls outside the graph cannot wait for each other: the
    program that replays the graph must order them.

    `native` is the Lane object of the C++ extension. settle() waits for kernels of the emulated driver, which runs
    them on the CPU.
    """

    def __init__(self, device, native_lane=None, settle=None, behind=None):
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.native, self.settle = native_lane, settle or (lambda: None)
        self._behind = {} if behind is None else behind

    def run(self, previous, aside, work, tensors):
        """Runs work() on a stream that first waits for the event `previous`. This is the communication stream if
        `aside` is true, and otherwise the current stream. Returns the value of work() and an event, which is None if
        `aside` is false. `tensors` are the inputs of work."""
        if previous is None and not aside and self.native:
            return work(), None
        if self.stream is None:
            return work(), EventHandle() if aside else None
        here = torch.cuda.current_stream()
        stream = self.stream if aside else here
        if getattr(previous, "event", None) is not None:
            stream.wait_event(previous.event.event)
        elif aside:
            stream.wait_stream(here)
        value = self._in_turn(stream, work)
        if not aside:
            return value, None
        for t in tensors_in(tensors):
            t.record_stream(stream)  # made on `here`, read on `stream`
        for t in tensors_in(value):
            t.record_stream(here)  # made on `stream`, read on `here`
        return value, EventHandle(stream)

    def _in_turn(self, stream, work):
        if self.native:
            with torch.cuda.stream(stream):
                return work()
        capture = capture_of(stream.cuda_stream)
        if bool(capture) not in self._behind:
            self._behind[bool(capture)] = _Behind()
        behind = self._behind[bool(capture)]
        behind.follow(stream, capture)
        try:
            with torch.cuda.stream(stream):
                return work()
        finally:
            behind.note(stream, capture)  # even if work() raised


_orders = {}


def new_lane(device, rank):
    context = settle = None
    index = device.index if device.index is not None else rank
    if device.type == "cpu":
        context, settle = native.emulated_context(index)
    key = threading.get_ident(), device.type, index
    if key not in _orders:
        here = torch.cuda.device(device) if device.type == "cuda" and native.load() else contextlib.nullcontext()
        with here:
            _orders[key] = native.new_lane(context) if native.load() else None, {}
    native_lane, behind = _orders[key]
    return Lane(device, native_lane, settle, behind)


def tensors_in(value):
    """Returns all tensors in nested tuples and lists. If a tuple has an attribute `sent`, that is searched, too."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in (*value, getattr(value, "sent", None)) for t in tensors_in(v)]
    return []
