"""Defines the handle that dispatch returns and combine takes."""

from .config import NotServed


class Handle(tuple):
    """DeepEP's handle is a tuple. Its attribute ``sent`` holds what combine must know about the dispatch."""

    def __new__(cls, items, sent):
        self = tuple.__new__(cls, items)
        self.sent = sent
        return self


def sent_of(handle, call):
    sent = getattr(handle, "sent", None)
    if sent is None:
        raise NotServed("a handle that another library made", f"pass what this Buffer's {call} returned")
    return sent
