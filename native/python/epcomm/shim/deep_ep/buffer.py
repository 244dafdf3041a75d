"""deep_ep.buffer."""

from epcomm.deepep import Buffer, Config, EventHandle, EventOverlap

__all__ = ["Buffer", "Config", "EventHandle", "EventOverlap"]
