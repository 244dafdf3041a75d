"""Buffer, with DeepEP V1's signatures."""

import os

import torch

from . import low_latency, normal, packs
from .config import Config, NotServed, config_for, must_be
from .events import EventHandle, EventOverlap, Lane
from .handle import Handle, sent_of
from .link import FP8, Link


def _deadline():
    return float(os.environ.get("EPCOMM_DEADLINE", "60"))


class Buffer:
    """Expert parallelism of the ranks of a group, all on one host.

    group: a torch.distributed group; comm: an mpi4py communicator instead. Sizes are not
    used: memory is taken when a shape is first dispatched, see docs/deepep.md. Normal calls
    take at most EPCOMM_MAX_TOKENS tokens a rank, 4096 unless set.
    """

    num_sms = 20

    def __init__(self, group, num_nvl_bytes=0, num_rdma_bytes=0, low_latency_mode=False, num_qps_per_rank=24,
                 allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False, explicitly_destroy=False, enable_shrink=False, comm=None,
                 *, device=None):
        if group is None and comm is None:
            raise ValueError("Either 'group' or 'comm' must be provided.")
        if enable_shrink:
            raise NotServed("enable_shrink", "a lost rank ends calls by their deadline; make the Buffer again without it")
        if low_latency_mode and not allow_nvlink_for_low_latency_mode:
            raise NotServed("allow_nvlink_for_low_latency_mode=False", "rows travel by NVLink and hooks hold no SMs meanwhile; leave it out")
        self.group = group if group is not None else comm
        self.rank, self.group_size = (group.rank(), group.size()) if group is not None else (comm.Get_rank(), comm.Get_size())
        self._mpi = comm if group is None else None
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode, self.explicitly_destroy = low_latency_mode, explicitly_destroy
        config_for(self.group_size, 0)  # refuses more ranks than a host has
        self.device = torch.device(device) if device is not None else torch.device("cuda", torch.cuda.current_device())
        self._lane = Lane(self.device)
        self._links = {}
        self._next_combine = None  # rows for a combine with zero_copy
        self._runtime = True

    # ---- ranks ----

    def _all_gather_object(self, mine):
        if self._mpi is not None:
            return self._mpi.allgather(mine)
        everyone = [None] * self.group_size
        torch.distributed.all_gather_object(everyone, mine, group=self.group)
        return everyone

    def _all_gather(self, mine):
        """Tensors of all ranks, in their order."""
        if self._mpi is not None:
            return [t.to(self.device) for t in self._mpi.allgather(mine.cpu())]
        everyone = [torch.empty_like(mine) for _ in range(self.group_size)]
        torch.distributed.all_gather(everyone, mine, group=self.group)
        return everyone

    def _link(self, shape):
        """The communicator for a shape, made when it is first asked for. Collective then."""
        if not self._runtime:
            raise RuntimeError("this Buffer was destroyed")
        if shape not in self._links:
            path = packs.get(shape, self.rank, self._all_gather_object)
            gather = lambda mine: b"".join(self._all_gather_object(mine))
            self._links[shape] = Link(path, self.rank, self.group_size, self.device, gather, _deadline())
        return self._links[shape]

    def destroy(self):
        """Collective. Gives the memory back."""
        assert self.explicitly_destroy, "`explicitly_destroy` flag must be set"
        links, self._links, self._runtime = self._links, {}, False
        for link in links.values():
            link.comm.destroy()

    def __del__(self):
        for link in getattr(self, "_links", {}).values():
            link.comm.abandon()  # the other ranks may be gone

    # ---- what needs no communication ----

    @staticmethod
    def is_sm90_compiled():
        return True

    @staticmethod
    def set_num_sms(new_num_sms):
        assert new_num_sms % 2 == 0, "The SM count must be even"
        Buffer.num_sms = new_num_sms

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
        return config_for(num_ranks, Buffer.num_sms)

    @staticmethod
    def get_combine_config(num_ranks):
        return config_for(num_ranks, Buffer.num_sms)

    def get_dispatch_layout(self, topk_idx, num_experts, previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        work = lambda: normal.layout(topk_idx, num_experts, self.group_size)
        (per_rank, per_expert, is_token_in_rank), event = self._lane.run(previous_event, async_finish, work, topk_idx)
        return per_rank, None, per_expert, is_token_in_rank, EventOverlap(event)

    # ---- normal calls ----

    def _normal_link(self, hidden, num_experts, topk, config):
        topk = max(8, self.group_size, topk)
        tokens = int(os.environ.get("EPCOMM_MAX_TOKENS", "4096"))
        sms = (config or self.get_dispatch_config(self.group_size)).num_sms
        return self._link(packs.Shape("rank:packed", self.group_size, hidden, num_experts, topk, tokens, sms, raw=True))

    def dispatch(self, x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None, is_token_in_rank=None,
                 num_tokens_per_expert=None, topk_idx=None, topk_weights=None, expert_alignment=1, num_worst_tokens=0, config=None,
                 previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        x, scales, dtype = normal.unpacked(x)
        if handle is not None:
            assert topk_idx is None and topk_weights is None
            work = lambda: self._dispatch_again(sent_of(handle, "dispatch"), x, scales, dtype)
            received, event = self._lane.run(previous_event, async_finish, work, (x, scales, handle))
            return received, None, None, None, None, EventOverlap(event)
        assert num_tokens_per_rank is not None and is_token_in_rank is not None and num_tokens_per_expert is not None
        link = self._normal_link(x.shape[1], num_tokens_per_expert.shape[0], topk_idx.shape[1] if topk_idx is not None else 0, config)
        if x.shape[0] > link.max_tokens:
            raise NotServed(f"{x.shape[0]} tokens of a rank", f"this Buffer was made for {link.max_tokens}; set EPCOMM_MAX_TOKENS")
        normal.check(link, x, is_token_in_rank, topk_idx, topk_weights)
        inputs = (x, scales, is_token_in_rank, topk_idx, topk_weights, num_tokens_per_rank, num_tokens_per_expert)
        work = lambda: self._dispatch_new(link, dtype, inputs, expert_alignment, num_worst_tokens)
        (received, ids, weights, per_expert, new), event = self._lane.run(previous_event, async_finish, work, inputs)
        return received, ids, weights, per_expert, new, EventOverlap(event)

    def _dispatch_new(self, link, dtype, inputs, alignment, worst):
        x, scales, is_token_in_rank, topk_idx, topk_weights, per_rank, per_expert = inputs
        counts = torch.stack(self._all_gather(torch.cat((per_rank, per_expert)).to(torch.int32)))
        matrix = counts[:, :self.group_size].cumsum(dim=0, dtype=torch.int32)
        here, per_expert_list = self._received(counts, matrix, alignment, worst)
        rows = normal.not_empty(normal.new_rows(link, dtype, here, worst=worst > 0))
        ids = normal.ids_of(link, topk_idx, is_token_in_rank)
        link.dispatch(dtype, *normal.in_rows(x, scales), ids, normal.weights_of(link, topk_weights, ids), rows)
        bases = torch.cat((torch.zeros_like(matrix[:1]), matrix))
        none = torch.empty(0, dtype=torch.int32, device=link.device)
        sent = normal.Sent(link, dtype, ids, rows, bases, here)
        sources = rows.src_info[:2 * here].view(-1, 2)[:, 0].contiguous()
        handle = Handle((matrix, none, none, sources, is_token_in_rank, none), sent)
        recv_ids = recv_weights = None
        if topk_idx is not None:
            k = topk_idx.shape[1]
            recv_ids, recv_weights = rows.expert_ids[:here, :k].to(torch.int64), rows.scale_offsets[:here, :k].contiguous()
        return self._cut(rows, dtype, here), recv_ids, recv_weights, per_expert_list, handle

    def _received(self, counts, matrix, alignment, worst):
        """Rows of the outputs, and rows of each local expert rounded up to the alignment. The
        host waits for both unless the caller gives the worst case. One that is too small ends
        in an assertion on the device: the kernel would write behind the outputs."""
        if worst:
            torch._assert_async(matrix[-1, self.rank] <= worst, f"num_worst_tokens: more than {worst} rows come to rank {self.rank}")
            return worst, []
        local = (counts.shape[1] - self.group_size) // self.group_size
        first = self.group_size + self.rank * local
        mine = counts[:, first:first + local].sum(dim=0)
        mine = (mine + alignment - 1) // alignment * alignment
        here, *per_expert = torch.cat((matrix[-1, self.rank:self.rank + 1].to(mine.dtype), mine)).tolist()
        return here, per_expert

    @staticmethod
    def _cut(rows, dtype, here):
        out, scales = rows.out[:here], rows.scales[:here]
        return (out, scales) if dtype == FP8 else out

    def _dispatch_again(self, sent, x, scales, dtype):
        link, here = sent.link, sent.received  # a handle knows its rows: there is no worst case
        must_be("x", x, x.dtype, sent.ids.shape[0], link.hidden)
        rows = normal.not_empty(normal.new_rows(link, dtype, here, index=(sent.rows.row_offsets, sent.rows.src_info)))
        link.dispatch(dtype, *normal.in_rows(x, scales), sent.ids, normal.weights_of(link, None, sent.ids), rows)
        return self._cut(rows, dtype, here)

    def combine(self, x, handle, topk_weights=None, bias=None, config=None, previous_event=None, async_finish=False,
                allocate_on_comm_stream=False):
        sent = sent_of(handle, "dispatch")
        if x.dtype is not torch.bfloat16:
            raise NotServed(f"combine of {x.dtype}", "give bfloat16")
        must_be("x", x, torch.bfloat16, sent.received, sent.link.hidden)
        work = lambda: self._combine(sent, handle[4], x, topk_weights, bias)
        (combined, weights), event = self._lane.run(previous_event, async_finish, work, (x, handle, topk_weights, bias))
        return combined, weights, EventOverlap(event)

    def _combine(self, sent, is_token_in_rank, x, topk_weights, bias):
        link, tokens = sent.link, sent.ids.shape[0]
        combined = torch.empty((tokens, link.hidden), dtype=torch.bfloat16, device=link.device)
        y = x.contiguous() if x.numel() else torch.empty(64, dtype=x.dtype, device=x.device)
        link.combine(sent.dtype, y, sent.ids, sent.ids.view(torch.float32), sent.rows, combined)
        for b in (bias,) if isinstance(bias, torch.Tensor) else bias or ():
            combined += b
        weights = None
        if topk_weights is not None:
            weights = normal.combine_weights(sent, topk_weights, is_token_in_rank, self._all_gather)
        return combined, weights

    # ---- low-latency calls ----

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank, hidden, num_experts):
        """Nothing to do: normal calls have memory of their own."""

    def low_latency_dispatch(self, x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts, cumulative_local_expert_recv_stats=None,
                             dispatch_wait_recv_cost_stats=None, use_fp8=True, round_scale=False, use_ue8m0=False, async_finish=False,
                             return_recv_hook=False):
        if dispatch_wait_recv_cost_stats is not None:
            raise NotServed("dispatch_wait_recv_cost_stats", "leave it out; epbench bench times a rank's waits")
        if use_ue8m0 and not round_scale:
            raise ValueError("use_ue8m0: only with round_scale, scales are no powers of two without it")
        assert not (async_finish and return_recv_hook)
        assert x.shape[0] <= num_max_dispatch_tokens_per_rank, f"{x.shape[0]} tokens, at most {num_max_dispatch_tokens_per_rank}"
        hidden, stats, later = x.shape[1], cumulative_local_expert_recv_stats, return_recv_hook
        shape = packs.Shape("masked", self.group_size, hidden, num_experts, topk_idx.shape[1], num_max_dispatch_tokens_per_rank,
                            raw=use_fp8 and round_scale, exact=True)
        link = self._link(shape)
        work = lambda: low_latency.dispatch(link, x.contiguous(), topk_idx, use_fp8, round_scale, use_ue8m0, stats, later)
        said, event = self._lane.run(None, async_finish, work, (x, topk_idx, stats))
        received, count, src_info, ranges, sent, half = said
        handle = Handle((src_info, ranges, num_max_dispatch_tokens_per_rank, hidden, num_experts), sent)
        return received, count, handle, *self._finish(event, half, (x, topk_idx, received, count, handle))

    def low_latency_combine(self, x, topk_idx, topk_weights, handle, use_logfmt=False, zero_copy=False, async_finish=False,
                            return_recv_hook=False, out=None, combine_wait_recv_cost_stats=None):
        if use_logfmt:
            raise NotServed("use_logfmt", "rows travel back as bfloat16; leave it out")
        if combine_wait_recv_cost_stats is not None:
            raise NotServed("combine_wait_recv_cost_stats", "leave it out; epbench bench times a rank's waits")
        assert not (async_finish and return_recv_hook)
        sent = sent_of(handle, "low_latency_dispatch")
        if zero_copy:
            x = self._next_combine
            if x is None:
                raise ValueError("zero_copy: no rows to combine; write them to what get_next_low_latency_combine_buffer returns first")
        work = lambda: low_latency.combine(sent, x, topk_weights, out, later=return_recv_hook)
        (combined, half), event = self._lane.run(None, async_finish, work, (x, topk_weights, handle, out))
        return combined, *self._finish(event, half, (x, topk_weights, handle, combined))

    def get_next_low_latency_combine_buffer(self, handle):
        """Memory for the rows of the next combine with zero_copy. A combine reads rows where
        they are, so that any tensor does as well."""
        sent = sent_of(handle, "low_latency_dispatch")
        self._next_combine = torch.empty(sent.rows.out.shape, dtype=torch.bfloat16, device=self.device)
        return self._next_combine

    def _finish(self, event, half, tensors):
        """(event, hook) as DeepEP returns them."""
        if half is not None:
            return EventOverlap(None), lambda: self._lane.run(None, False, half.finish, ())[0]
        return EventOverlap(event, tensors if event is not None else None), None

    # ---- not served ----

    def get_local_buffer_tensor(self, dtype, size=None, offset=0, use_rdma_buffer=False):
        raise NotServed("get_local_buffer_tensor", "there is no raw buffer; use get_next_low_latency_combine_buffer for rows")

    def internode_dispatch(self, *_, **__):
        raise NotServed("internode_dispatch", "ranks are of one host; call dispatch")

    def internode_combine(self, *_, **__):
        raise NotServed("internode_combine", "ranks are of one host; call combine")

    def low_latency_update_mask_buffer(self, *_, **__):
        raise NotServed("low_latency_update_mask_buffer", "a lost rank ends calls by their deadline; make the Buffer again")

    low_latency_query_mask_buffer = low_latency_clean_mask_buffer = low_latency_update_mask_buffer


__all__ = ["Buffer", "Config"]
