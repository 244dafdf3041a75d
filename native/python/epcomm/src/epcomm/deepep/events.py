"""Events, and which stream a call runs on."""

import torch


class EventHandle:
    """An event on the current stream, from when this is made."""

    def __init__(self, stream=None):
        self.event = None
        if torch.cuda.is_available():
            self.event = torch.cuda.Event()
            self.event.record(stream or torch.cuda.current_stream())

    def current_stream_wait(self):
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """An event and the tensors that must live until it has passed."""

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


class Lane:
    """Orders the calls of a Buffer. A call runs on the current stream, with async_finish
    on the communication stream. Each waits for the one before, because
    they share memory."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._last = None  # (stream, whether it was being captured)

    def run(self, previous, aside, work, tensors):
        """Runs work() and returns its value and, where it ran aside, its event. tensors are
        what it reads: their memory must not be given away before it has ended."""
        if self.stream is None:
            return work(), EventHandle() if aside else None
        here = torch.cuda.current_stream()
        stream = self.stream if aside else here
        if getattr(previous, "event", None) is not None:  # a call without async_finish returns one without
            stream.wait_event(previous.event.event)
        elif aside:
            stream.wait_stream(here)
        self._follow(stream)
        with torch.cuda.stream(stream):
            value = work()
        if not aside:
            return value, None
        for t in _tensors(tensors):
            t.record_stream(stream)  # made on this stream, read on that one
        for t in _tensors(value):
            t.record_stream(here)  # the other way round
        return value, EventHandle(stream)

    def _follow(self, stream):
        capturing = torch.cuda.is_current_stream_capturing()
        if self._last is not None:
            last, captured = self._last
            if last != stream and captured == capturing:
                stream.wait_stream(last)
        self._last = (stream, capturing)


def _tensors(value):
    """All tensors of nested tuples and lists, and of what a handle holds besides."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in (*value, getattr(value, "sent", None)) for t in _tensors(v)]
    return []
