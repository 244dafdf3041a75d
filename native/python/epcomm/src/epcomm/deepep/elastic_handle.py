"""The handle and the event that ElasticBuffer returns."""

import functools

import torch

from . import expand
from .events import EventOverlap


class ElasticEvent(EventOverlap):
    def __init__(self, event=None, extra_tensors=None):
        super().__init__(event, extra_tensors)
        self.hook_after_wait, self._releases = None, False

    def current_stream_wait(self, release_handle=False):
        super().current_stream_wait()
        hook, self.hook_after_wait = self.hook_after_wait, None
        if hook is not None:
            hook()
        if release_handle:
            self.event = None

    def register_hook_after_wait(self, hook_after_wait):
        assert self.hook_after_wait is None, "a function is registered already"
        self.hook_after_wait = hook_after_wait

    def __call__(self, release_handle=False):
        self._releases = release_handle
        return self

    def __exit__(self, *_):
        if self.event is not None:
            self.current_stream_wait(self._releases)
        self._releases = False


class EPHandle:
    """DeepEP V2's handle of a dispatch."""

    token_metadata_at_forward = channel_linked_list = None

    def __init__(self, do_expand, num_experts, expert_alignment, num_max_tokens_per_rank, num_sms, rank, ranks):
        self.do_expand, self.num_experts, self.expert_alignment = do_expand, num_experts, expert_alignment
        self.num_max_tokens_per_rank, self.num_sms = num_max_tokens_per_rank, num_sms
        self._rank, self._ranks = rank, ranks

    def must_fit(self, num_experts, expert_alignment, num_max_tokens_per_rank, do_expand):
        """Raises ValueError if an argument is not None and differs from the argument of the dispatch that made the
        handle."""
        for name, got, mine in (("num_experts", num_experts, self.num_experts), ("expert_alignment", expert_alignment, self.expert_alignment),
                                ("num_max_tokens_per_rank", num_max_tokens_per_rank, self.num_max_tokens_per_rank),
                                ("do_expand", do_expand, self.do_expand)):
            if got is not None and got != mine:
                raise ValueError(f"{name}: {got}, but the handle's dispatch had {mine}; give the same value, or None")

    def filled(self, sent, ids, counts):
        """Stores results of Buffer.dispatch. `counts` has the number of rows of each local expert, padding included.
        It is empty if the host did not wait for the counts."""
        self.sent, self.recv_topk_idx, self.num_recv_tokens_per_expert_list = sent, ids, counts
        self.num_recv_tokens = sent.sent.received
        self.dst_buffer_slot_idx = sent.sent.link.nothing
        local = self.num_experts // self._ranks
        if counts:
            self.num_expanded_tokens = sum(counts)
        else:
            most = self.num_recv_tokens * min(ids.shape[1], local) + (self.expert_alignment - 1) * local
            self.num_expanded_tokens = -(-most // self.expert_alignment) * self.expert_alignment

    def tensors(self):
        counts = vars(self).get("num_unaligned_recv_tokens_per_expert")
        return self.sent, self.topk_idx, self.recv_topk_idx, self.layout, counts, self.places if self.do_expand else ()

    @functools.cached_property
    def num_unaligned_recv_tokens_per_expert(self):
        """Number of rows of each local expert without padding, int32 [local experts]."""
        return self.places.counts if self.do_expand else expand.counts_of(self.recv_topk_idx, self.num_experts // self._ranks)

    @functools.cached_property
    def places(self):
        return expand.places_of(self.sent.sent, self.recv_topk_idx, self.expert_alignment, self.num_expanded_tokens)

    @functools.cached_property
    def psum_num_recv_tokens_per_scaleup_rank(self):
        """int32 [ranks]: element r is the number of rows from ranks 0 to r."""
        return self.sent[0][:, self._rank].contiguous()

    @functools.cached_property
    def psum_num_recv_tokens_per_expert(self):
        """Index after the last row of each local expert, int32 [local experts]. If do_expand is true, padding follows
        this index. Otherwise padding lies before it."""
        counts = self.num_unaligned_recv_tokens_per_expert
        ends = expand.aligned(counts, self.expert_alignment).cumsum(0, dtype=torch.int32)
        return ends - expand.aligned(counts, self.expert_alignment) + counts if self.do_expand else ends

    @functools.cached_property
    def recv_src_metadata(self):
        """Where each row comes from, int32 [rows, 2 + top-k]. Column 0 is the token's index on the source rank, plus
        num_max_tokens_per_rank for each rank before the source. Column 1 is -1. Column 2 + k is the index of the
        expanded row for the expert at top-k position k, or -1."""
        rows, topk = self.recv_topk_idx.shape
        token, ends = self.sent[3], self.psum_num_recv_tokens_per_scaleup_rank
        source = torch.searchsorted(ends, torch.arange(rows, dtype=torch.int32, device=token.device), right=True, out_int32=True)
        slots = self.places.slots if self.do_expand else torch.full((rows, topk), -1, dtype=torch.int32, device=token.device)
        first = torch.where(token >= 0, source * self.num_max_tokens_per_rank + token, -1)[:, None]
        return torch.cat((first, torch.full_like(first, -1), slots), dim=1).to(torch.int32)
