"""deep_ep.utils, which Megatron-Core imports."""

from epcomm.deepep import EventHandle, EventOverlap


def check_nvlink_connections(group):
    """Nothing to do: whether the ranks reach each other is checked when a shape is first called."""


__all__ = ["EventHandle", "EventOverlap", "check_nvlink_connections"]
