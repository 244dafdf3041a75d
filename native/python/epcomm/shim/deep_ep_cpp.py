"""The names of DeepEP's C++ extension, except Buffer."""

from epcomm.deepep import Buffer, Config, EventHandle, topk_idx_t

get_low_latency_rdma_size_hint = Buffer.get_low_latency_rdma_size_hint
is_sm90_compiled = Buffer.is_sm90_compiled

__all__ = ["Config", "EventHandle", "get_low_latency_rdma_size_hint", "is_sm90_compiled", "topk_idx_t"]
