"""Defines Buffer, which has the methods of DeepEP V1's Buffer."""

import os

import torch

from .. import native
from ..comm import lib
from . import agreement, events, low_latency, normal, packs
from .config import Config, NotServed, config_for, must_be, must_be_off
from .events import EventHandle, EventOverlap
from .handle import Handle, sent_of
from .keys import Keys
from .link import Link, Misread, give_back_left, leave, receive_before


def _deadline():
    return float(os.environ.get("EPCOMM_DEADLINE", "60"))


def _precision():
    """Returns EPCOMM_PRECISION. With "reduced", the default, kernels may round partial sums to bfloat16."""
    precision = os.environ.get("EPCOMM_PRECISION", "reduced")
    if precision not in ("full", "reduced"):
        raise ValueError(f"EPCOMM_PRECISION: {precision!r} is neither full nor reduced")
    return precision


class Buffer:
    """Exchanges tokens between the ranks of a group for expert parallelism. All ranks must be on one host.

    All ranks create their Buffers together. `group` is a torch.distributed group. If it is None, `comm` must be an
    mpi4py communicator. num_nvl_bytes and num_rdma_bytes are not used. Normal calls take at most EPCOMM_MAX_TOKENS
    tokens a rank, by default 4096. set_num_sms or a Config bounds the number of SMs that normal calls use.
    """

    num_sms = 20  # DeepEP's default, for programs that read it
    _bound = 0    # the number given to set_num_sms

    def __init__(self, group, num_nvl_bytes=0, num_rdma_bytes=0, low_latency_mode=False, num_qps_per_rank=24,
                 allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False, explicitly_destroy=False, enable_shrink=False, comm=None,
                 *, device=None, use_fabric=False, is_intranode=True):
        if group is None and comm is None:
            raise ValueError("Either 'group' or 'comm' must be provided.")
        must_be_off("enable_shrink", enable_shrink and not low_latency_mode, "only low-latency calls can continue without a lost rank; give low_latency_mode=True")
        must_be_off("use_fabric", use_fabric, "ranks of one host reach each other without fabric handles; leave it out")
        must_be_off("is_intranode=False", not is_intranode, "all ranks are on one host; leave it out")
        if low_latency_mode and not allow_nvlink_for_low_latency_mode:
            raise NotServed("allow_nvlink_for_low_latency_mode=False", "rows are sent over NVLink only; leave it out. It is not needed for overlap, because hooks hold no SMs between send and receive")
        self.group = group if group is not None else comm
        self.rank, self.group_size = (group.rank(), group.size()) if group is not None else (comm.Get_rank(), comm.Get_size())
        self._mpi = comm if group is None else None
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode, self.explicitly_destroy = low_latency_mode, explicitly_destroy
        config_for(self.group_size, 0, 0)
        self._precision = _precision()
        give_back_left()
        self.device = torch.device(device) if device is not None else torch.device("cuda", torch.cuda.current_device())
        if self.device.type == "cuda":
            torch.empty(1, device=self.device)  # makes torch create the CUDA context with torch's flags
        self._lane = events.new_lane(self.device, self.rank)
        self._shrinks, self._masked, self._applied = enable_shrink, set(), set()
        # With enable_shrink the ranks do not compare their calls. After a fault, some ranks may have made more calls
        # than others, so call n of one rank is not call n of another.
        self._agreement = None if enable_shrink else agreement.share(self.rank, self.group_size, self._all_gather_object, _deadline())
        self._links, self._keys = {}, Keys()
        if self._agreement is not None:
            self._agreement.end_waits = lambda links=self._links: [link.comm.stop() for link in dict.fromkeys(links.values())]
        self._found = {}
        self._calls = None
        if self._lane.native:
            self._calls = native.calls(Handle, low_latency.Sent, normal.Sent, EventOverlap())
            native.serve(Buffer, _SERVED)
        self._max_tokens = int(os.environ.get("EPCOMM_MAX_TOKENS", "4096"))
        self._counter = None
        self._next_combine = None
        self._runtime = True

    # ---- ranks ----

    def _all_gather_object(self, mine):
        if self._mpi is not None:
            return self._mpi.allgather(mine)
        everyone = [None] * self.group_size
        torch.distributed.all_gather_object(everyone, mine, group=self.group)
        return everyone

    def _link(self, op, shape, **facts):
        """Returns (communicator, key of the call). All ranks must make the first call with these arguments together."""
        if not self._runtime:
            raise RuntimeError("this Buffer was destroyed")
        key, new = self._keys.of(op, shape, facts)
        if new and self._agreement is not None:
            self._agreement.first(key, {"the call": op, **shape.facts(), **facts})
            self._keys.shared(op, shape, facts)
            key = 0
        link = self._links.get(shape)
        if link is None:
            link = self._links[shape] = self._made(shape)
        return link, key

    def _first(self, given, op, shape, **facts):
        found = self._link(op, shape, **facts)
        self._found[given] = found[0], self._keys.of(op, shape, facts)[0]
        return found

    def _made(self, shape):
        for link in self._links.values():
            if link.serves(shape):
                return link
        give_back_left()
        path = packs.get(shape, self.rank, self._all_gather_object)
        gather = lambda mine: b"".join(self._all_gather_object(mine))
        link = Link(path, shape, self.rank, self.group_size, self.device, gather, _deadline(), self._lane, self._agreement,
                    "drop" if shape.survivors else "none", self._precision)
        self._counter = link
        if self._calls is not None:
            self._calls.learn_layout(link, link.number, link.gpu)
        return link

    def destroy(self):
        """Frees the memory. All ranks must call it."""
        assert self.explicitly_destroy, "`explicitly_destroy` flag must be set"
        links, self._runtime, self._counter, self._calls = dict(self._links), False, None, None
        self._links.clear()
        self._found.clear()
        for link in dict.fromkeys(links.values()):
            link.comm.destroy()
        give_back_left()

    def __del__(self):
        for link in dict.fromkeys(getattr(self, "_links", {}).values()):
            leave(link.comm)

    # ---- functions without communication ----

    @staticmethod
    def is_sm90_compiled():
        return True

    @staticmethod
    def set_num_sms(new_num_sms):
        assert new_num_sms % 2 == 0, "The SM count must be even"
        Buffer.num_sms = Buffer._bound = new_num_sms

    @staticmethod
    def capture():
        return EventOverlap(EventHandle())

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts):
        return low_latency.size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts)

    def get_comm_stream(self):
        return self._lane.stream

    @staticmethod
    def get_dispatch_config(num_ranks):
        return config_for(num_ranks, Buffer.num_sms, Buffer._bound)

    @staticmethod
    def get_combine_config(num_ranks):
        return config_for(num_ranks, Buffer.num_sms, Buffer._bound)

    # The C++ extension replaces the methods in _SERVED by C++ functions. If a C++ function does not support its
    # arguments, it calls the Python method below (methods.cpp).

    def get_dispatch_layout(self, topk_idx, num_experts, previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        def work():
            ids, link = normal.in_rows(topk_idx)[0], self._counter
            if link is None or ids.dtype not in (torch.int32, torch.int64):
                return normal.layout(ids, num_experts, self.group_size)
            return link.call(link.ops.layout, link.now(), ids, num_experts, self.group_size)

        (per_rank, per_expert, is_token_in_rank), event = self._lane.run(previous_event, async_finish, work, topk_idx)
        return per_rank, None, per_expert, is_token_in_rank, EventOverlap(event)

    # ---- normal calls ----

    def _normal_link(self, hidden, fp8, num_experts, topk, config):
        sms = config.bound if config is not None else Buffer._bound
        given = hidden, fp8, num_experts, topk, sms
        if given in self._found:
            return self._found[given]
        link, key = self._first(given, "dispatch", packs.Shape(
            "rank:packed", self.group_size, hidden, num_experts, max(8, self.group_size, topk), self._max_tokens, sms, raw=True,
            dtype="fp8" if fp8 else "bf16"))
        if self._calls is not None:
            self._calls.learn_normal(hidden, num_experts, topk, sms, fp8, link, link.number, link.nothing, link.gpu, self._found[given][1])
        return link, key

    def dispatch(self, x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None, is_token_in_rank=None,
                 num_tokens_per_expert=None, topk_idx=None, topk_weights=None, expert_alignment=1, num_worst_tokens=0, config=None,
                 previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        x, scales = normal.unpacked(x)
        if handle is not None:
            assert topk_idx is None and topk_weights is None
            work = lambda: self._dispatch_again(sent_of(handle, "dispatch"), x, scales)
            received, event = self._lane.run(previous_event, async_finish, work, (x, scales, handle))
            return received, None, None, None, None, EventOverlap(event)
        assert num_tokens_per_rank is not None and is_token_in_rank is not None and num_tokens_per_expert is not None
        link, key = self._normal_link(x.shape[1], scales is not None, num_tokens_per_expert.shape[0],
                                      topk_idx.shape[1] if topk_idx is not None else 0, config)
        if x.shape[0] > link.max_tokens:
            raise NotServed(f"{x.shape[0]} tokens of a rank", f"this Buffer was made for {link.max_tokens}; set EPCOMM_MAX_TOKENS")
        inputs = (x, num_tokens_per_rank, num_tokens_per_expert, is_token_in_rank, topk_idx, topk_weights)
        if not self._lane.native:
            normal.check(link, *inputs)
        work = lambda: self._dispatch_new(link, key, scales, inputs, expert_alignment, num_worst_tokens)
        made, event = self._lane.run(previous_event, async_finish, work, (scales, *inputs))
        return *made, EventOverlap(event)

    def _dispatch_new(self, link, key, scales, inputs, alignment, worst):
        x, per_rank, per_expert, in_rank, ids, weights, scales = normal.in_rows(*inputs, scales)
        try:
            made = link.call(link.ops.dispatch, link.now(), key, x, scales, per_rank, per_expert, in_rank, ids, weights, alignment, worst)
        except Misread:
            normal.check(link, *inputs)
            raise
        return self._dispatched(link, made, x, scales, inputs[3], ids, weights)

    @staticmethod
    def _dispatched(link, made, x, scales, in_rank, ids, weights):
        (out, out_scales, recv_ids, recv_weights, sources, matrix, index), received, fullest, counts = made
        fp8, none = scales is not None, link.nothing
        handle = Handle((matrix, none, none, sources, in_rank, none), normal.Sent(link, fp8, index, x.shape[0], received, fullest))
        return ((out, out_scales) if fp8 else out, recv_ids if ids is not None else None, recv_weights if weights is not None else None,
                counts, handle)

    def _dispatch_again(self, sent, x, scales):
        link = sent.link
        must_be("x", x, x.dtype, sent.tokens, link.hidden)
        fp8 = scales is not None
        given = "again", link, fp8
        _, key = self._found.get(given) or self._first(given, "dispatch by a handle", link.shape._replace(dtype="fp8" if fp8 else "bf16"))
        x, scales = normal.in_rows(x, scales)
        out, out_scales = link.call(link.ops.dispatch_again, link.now(), key, x, scales, sent.index, sent.tokens, sent.received, sent.fullest)
        return (out, out_scales) if scales is not None else out

    def combine(self, x, handle, topk_weights=None, bias=None, config=None, previous_event=None, async_finish=False,
                allocate_on_comm_stream=False):
        sent = sent_of(handle, "dispatch")
        if x.dtype is not torch.bfloat16:
            raise NotServed(f"combine of {x.dtype}", "give bfloat16")
        if not self._lane.native:
            normal.check_combine(sent, x, topk_weights)
        work = lambda: self._combine(sent, x, topk_weights, bias)
        (combined, weights), event = self._lane.run(previous_event, async_finish, work, (x, handle, topk_weights, bias))
        return combined, weights, EventOverlap(event)

    def _combine_key(self, link, weighted):
        given = "combine", link, weighted
        if given not in self._found:
            key = self._first(given, "combine", link.shape, topk_weights=weighted)[1]
            if self._calls is not None:
                self._calls.learn_combine(link.number, weighted, self._found[given][1])
            return key
        return self._found[given][1]

    def _combine(self, sent, x, topk_weights, bias):
        link = sent.link
        key = self._combine_key(link, topk_weights is not None)
        y, weights = normal.in_rows(x, topk_weights)
        try:
            combined, back = link.call(link.ops.combine, link.now(), key, sent.fp8, sent.tokens, sent.received, sent.fullest, y, sent.index, weights)
        except Misread:
            normal.check_combine(sent, x, topk_weights)
            raise
        for b in (bias,) if isinstance(bias, torch.Tensor) else bias or ():
            combined += b
        return combined, back if weights is not None else None

    # ---- low-latency calls ----

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank, hidden, num_experts):
        """Does nothing."""

    def low_latency_dispatch(self, x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts, cumulative_local_expert_recv_stats=None,
                             dispatch_wait_recv_cost_stats=None, use_fp8=True, round_scale=False, use_ue8m0=False, async_finish=False,
                             return_recv_hook=False, *, use_nvfp4=False, x_global_scale=None):
        if self._masked != self._applied:
            self._apply_masks()
        if dispatch_wait_recv_cost_stats is not None or use_nvfp4 or x_global_scale is not None or use_ue8m0 and not round_scale:
            low_latency.refuse_dispatch(dispatch_wait_recv_cost_stats, use_nvfp4, x_global_scale)
        assert not (async_finish and return_recv_hook)
        (tokens, hidden), topk = x.shape, topk_idx.shape[1]
        assert tokens <= num_max_dispatch_tokens_per_rank, f"{tokens} tokens, at most {num_max_dispatch_tokens_per_rank}"
        stats, later = cumulative_local_expert_recv_stats, return_recv_hook
        link, key = self._low_link(hidden, num_experts, topk, num_max_dispatch_tokens_per_rank, use_fp8, round_scale, later)
        if not self._lane.native:
            low_latency.check(link, x, topk_idx, stats)

        def work():
            if link.begun[0] is not None:
                receive_before(link, 0)
            return low_latency.dispatch(link, key, x, topk_idx, use_fp8, round_scale, use_ue8m0, stats, later)

        said, event = self._lane.run(None, async_finish, work, (x, topk_idx, stats))
        received, count, src_info, ranges, sent, half = said
        handle = Handle((src_info, ranges, num_max_dispatch_tokens_per_rank, hidden, num_experts), sent)
        return received, count, handle, *self._finish(event, half, (x, topk_idx, received, count, handle))

    def _low_link(self, hidden, experts, topk, most, fp8, round_scale, later):
        given = hidden, experts, topk, most, fp8, round_scale, later
        if given in self._found:
            return self._found[given]
        link, key = self._first(given, "low_latency_dispatch", packs.Shape(
            "masked", self.group_size, hidden, experts, topk, most, raw=fp8 and round_scale, exact=True, dtype="fp8" if fp8 else "bf16",
            survivors=self._shrinks), return_recv_hook=later)
        if self._calls is not None and not round_scale:
            self._calls.learn_dispatch(hidden, experts, topk, most, fp8, later, link, link.number, link.begun, link.gpu, self._found[given][1])
        return link, key

    def low_latency_combine(self, x, topk_idx, topk_weights, handle, use_logfmt=False, zero_copy=False, async_finish=False,
                            return_recv_hook=False, out=None, combine_wait_recv_cost_stats=None, *, overlap=False, packed_recv_count=None,
                            comp_signal=None, block_m=64, threshold=0, num_sms=3):
        if use_logfmt or combine_wait_recv_cost_stats is not None or overlap:
            low_latency.refuse_combine(use_logfmt, combine_wait_recv_cost_stats)
        assert not (async_finish and return_recv_hook)
        sent, later = sent_of(handle, "low_latency_dispatch"), return_recv_hook
        if zero_copy:
            x = self._next_combine
            if x is None:
                raise ValueError("zero_copy: no rows to combine; first write them to the tensor that get_next_low_latency_combine_buffer returns")
        link = sent.link
        if not self._lane.native:
            low_latency.check_combine(sent, x, topk_idx, topk_weights, out)

        def work():
            key = self._low_combine_key(link, later)
            if link.begun[1] is not None:
                receive_before(link, 1)
            return low_latency.combine(sent, handle[0], key, x, topk_idx, topk_weights, out, later)

        (combined, half), event = self._lane.run(None, async_finish, work, (x, topk_idx, topk_weights, handle, out))
        return combined, *self._finish(event, half, (x, topk_idx, topk_weights, handle, combined))

    def _low_combine_key(self, link, later):
        given = "low", link, later
        if given not in self._found:
            key = self._first(given, "low_latency_combine", link.shape, return_recv_hook=later)[1]
            if self._calls is not None:
                self._calls.learn_combine(link.number, later, self._found[given][1])
            return key
        return self._found[given][1]

    def get_next_low_latency_combine_buffer(self, handle):
        """Returns memory for the rows of the next combine with zero_copy, bfloat16 [local experts, rows, hidden]."""
        sent = sent_of(handle, "low_latency_dispatch")
        self._next_combine = torch.empty(sent.link.rows_shape(sent.fp8), dtype=torch.bfloat16, device=self.device)
        return self._next_combine

    # ---- lost ranks ----

    def low_latency_update_mask_buffer(self, rank_to_mask, mask=False):
        """Notes that a rank is lost if `mask` is true, or that it is back if `mask` is false. The next
        low_latency_dispatch or low_latency_query_mask_buffer applies the change. All living ranks must make that next
        call."""
        self._must_shrink()
        if not 0 <= rank_to_mask < self.group_size or rank_to_mask == self.rank:
            raise ValueError(f"rank_to_mask: {rank_to_mask} is not another rank below {self.group_size}")
        (self._masked.add if mask else self._masked.discard)(rank_to_mask)
        if self._calls is not None:
            self._calls.pause(self._masked != self._applied)

    def low_latency_query_mask_buffer(self, mask_status):
        """Applies the noted changes. All living ranks must call it. Then it writes to mask_status, int32 [ranks], 1
        for each lost rank and 0 for each living rank."""
        self._must_shrink()
        self._apply_masks()
        mask_status.copy_(torch.tensor([int(r in self._masked) for r in range(self.group_size)], dtype=mask_status.dtype))

    def low_latency_clean_mask_buffer(self):
        """Takes all lost ranks back. All ranks must call it. If it raises, the set of lost ranks is unchanged."""
        self._must_shrink()
        masked, self._masked = self._masked, set()
        try:
            self._meet(lambda comm: comm.grow(range(self.group_size)))
        except BaseException:
            self._masked = masked
            raise

    def _must_shrink(self):
        if not self._shrinks:
            raise NotServed("mask buffers without enable_shrink", "make the Buffer with low_latency_mode=True and enable_shrink=True")

    def _apply_masks(self):
        without = lambda ranks: [r for r in range(self.group_size) if r not in ranks]
        if self._masked - self._applied:
            self._meet(lambda comm: comm.shrink(without(self._masked | self._applied)))
        if self._applied - self._masked:
            self._meet(lambda comm: comm.grow(without(self._masked)))
        self._applied = set(self._masked)

    def _meet(self, how):
        for link in dict.fromkeys(self._links.values()):
            if link.shape.survivors:
                how(link.comm)
                for half in [h for h in link.begun if h is not None]:
                    half.lose()
                link.halves[:] = link.begun[:] = None, None
        self._applied = set(self._masked)
        if self._calls is not None:
            self._calls.pause(False)

    def check(self):
        """Raises EpcommError if a kernel of this rank has waited longer than the deadline. In this case the outputs
        are NaN. After each replay of a graph, wait for the stream, then call check."""
        for link in dict.fromkeys(self._links.values()):
            link.comm.check(lib().epcomm_fault(link.comm.handle, None))

    def _finish(self, event, half, tensors):
        if half is not None:
            return EventOverlap(None), lambda: self._lane.run(None, False, half.finish, ())[0]
        return EventOverlap(event, tensors if event is not None else None), None

    # ---- not served ----

    def get_local_buffer_tensor(self, dtype, size=None, offset=0, use_rdma_buffer=False):
        raise NotServed("get_local_buffer_tensor", "there is no raw buffer; use get_next_low_latency_combine_buffer for rows")

    def internode_dispatch(self, *_, **__):
        raise NotServed("internode_dispatch", "all ranks are on one host; call dispatch")

    def internode_combine(self, *_, **__):
        raise NotServed("internode_combine", "all ranks are on one host; call combine")


_SERVED = Buffer.get_dispatch_layout, Buffer.dispatch, Buffer.combine, Buffer.low_latency_dispatch, Buffer.low_latency_combine

__all__ = ["Buffer", "Config"]
