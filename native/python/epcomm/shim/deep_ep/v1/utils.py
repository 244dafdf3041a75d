"""deep_ep.utils, which Megatron-Core imports."""

from epcomm.deepep import EventHandle, EventOverlap


def check_nvlink_connections(group):
    """Does nothing."""


__all__ = ["EventHandle", "EventOverlap", "check_nvlink_connections"]
