"""Defines the handle that dispatch returns and combine takes."""

from .config import NotServed


class Handle(tuple):
    """DeepEP's handle is a tuple. Its attribute ``sent`` holds what combine must know about the dispatch.

    After a normal dispatch the tuple has rank_prefix_matrix, channel_prefix_matrix, recv_channel_prefix_matrix,
    recv_src_idx, is_token_in_rank and send_head. After a low-latency dispatch it has src_info int32 [local experts,
    rows], layout_range int64 [local experts, ranks], num_max_dispatch_tokens_per_rank, hidden and num_experts.
    """

    def __new__(cls, items, sent):
        self = tuple.__new__(cls, items)
        self.sent = sent
        return self


def sent_of(handle, call):
    sent = getattr(handle, "sent", None)
    if sent is None:
        raise NotServed("a handle that another library made", f"pass what this Buffer's {call} returned")
    return sent
