"""Defines ElasticBuffer, which has the methods of DeepEP V2's ElasticBuffer. Its dispatch and combine call a Buffer's
normal dispatch and combine."""

import re
import subprocess
import warnings
from math import ceil, comb

import torch
import torch.distributed as dist

from . import expand
from .buffer import Buffer
from .config import Config, NotServed, must_be_off
from .elastic_handle import ElasticEvent, EPHandle
from .events import EventHandle, EventOverlap

ALIGNMENT = 2 << 20  # V2's buffers are multiples of 2 MiB
LINK_EFFICIENCY, READ_GBS, WRITE_GBS, MARGIN = 0.9, 200, 50, 1.25
LEAST_SMS, LEAST_SMS_ALONE = 4, 64


def nvlink_gbs():
    """Returns the sum of the speeds of a GPU's NVLinks in GB/s, or 0 if nvidia-smi prints none."""
    try:
        output = subprocess.run(["nvidia-smi", "nvlink", "-s"], capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return 0.0
    first = output.split("\nGPU ")[0]
    return sum(map(float, re.findall(r"Link \d+: *([\d.]+) GB/s", first)))


def refused(name, use):
    def method(*_, **__):
        raise NotServed(name, use)
    return method


class ElasticBuffer:
    """Exchanges tokens between the ranks of a group for expert parallelism. All ranks must be on one host.

    All ranks create their ElasticBuffers together, with the arguments of DeepEP V2. num_bytes and the arguments for
    queue pairs and timeouts are not used. The variable EPCOMM_DEADLINE bounds all waits. Received rows are sorted by
    source rank, then by token.
    """

    def __init__(self, group, num_bytes=None, num_cpu_bytes=0, num_max_tokens_per_rank=0, hidden=0, num_topk=0, use_fp8_dispatch=False,
                 deterministic=False, allow_hybrid_mode=True, allow_multiple_reduction=True, prefer_overlap_with_compute=True, sl_idx=3,
                 num_allocated_qps=0, num_cpu_timeout_secs=300, num_gpu_timeout_secs=100, explicitly_destroy=False, *, device=None):
        must_be_off("num_cpu_bytes", num_cpu_bytes, "it is for Engram, which is not supported; leave it out")
        self._refuse_hosts(group)
        self.group, self.rank_idx, self.num_ranks = group, group.rank(), group.size()
        self.allow_hybrid_mode, self.allow_multiple_reduction = allow_hybrid_mode, allow_multiple_reduction
        self.prefer_overlap_with_compute, self.deterministic = prefer_overlap_with_compute, deterministic
        self.explicitly_destroy, self.num_max_tokens_per_rank = explicitly_destroy, num_max_tokens_per_rank
        self.num_bytes = num_bytes if num_bytes is not None else self.get_buffer_size_hint(group, num_max_tokens_per_rank, hidden, num_topk)
        self.num_allocated_qps = num_allocated_qps or 17
        self.num_scaleout_ranks, self.num_scaleup_ranks = self.get_logical_domain_size()
        self.scaleout_rank_idx, self.scaleup_rank_idx = 0, self.rank_idx
        self.num_rdma_ranks, self.num_nvlink_ranks = self.get_physical_domain_size()
        self._calls = Buffer(group, explicitly_destroy=explicitly_destroy, device=device)
        self._calls._max_tokens = num_max_tokens_per_rank
        self._lane, self._sms = self._calls._lane, {}
        self.runtime = self._calls

    @staticmethod
    def _refuse_hosts(group):
        everyone = [None] * group.size()
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
                host = f.read()
        except OSError:
            return
        dist.all_gather_object(everyone, host, group=group)
        hosts = len(set(everyone))
        must_be_off(f"ranks of {hosts} hosts (hybrid mode)", hosts > 1, "give a group of the ranks of one host")

    def destroy(self):
        """Frees the memory. All ranks must call it."""
        assert self.explicitly_destroy, "`explicitly_destroy` flag must be set"
        if self.runtime is not None:
            self.runtime = None
            self._calls.destroy()

    # ---- functions without communication ----

    @staticmethod
    def get_buffer_size_hint(group, num_max_tokens_per_rank, hidden, num_topk=0, use_fp8_dispatch=False, allow_hybrid_mode=True,
                             allow_multiple_reduction=True):
        """Returns how many bytes the BF16 rows, ids and weights take if every token of every rank goes to one rank.
        The number is rounded up to a multiple of 2 MiB."""
        return expand.aligned(group.size() * num_max_tokens_per_rank * (2 * hidden + 12 * num_topk + 4), ALIGNMENT)

    @staticmethod
    def capture():
        return EventHandle()

    def get_comm_stream(self):
        return self._calls.get_comm_stream()

    def get_physical_domain_size(self):
        """Returns (hosts, ranks of a host)."""
        return 1, self.num_ranks

    get_logical_domain_size = get_physical_domain_size

    def get_theoretical_num_sms(self, num_experts, num_topk, num_scaleout_topk=0, rdma_gbs=0, nvlink_gbs=0, sm_read_gbs=READ_GBS,
                                sm_write_gbs=WRITE_GBS):
        """Returns the number of SMs that DeepEP V2 computes for a balanced routing (deep_ep/buffers/elastic.py)."""
        must_be_off("num_scaleout_topk", num_scaleout_topk, "all ranks are on one host; leave it out")
        if not 1 <= num_topk <= num_experts or num_experts % self.num_ranks:
            raise ValueError(f"num_experts, num_topk: {num_experts}, {num_topk}; give a multiple of {self.num_ranks} as num_experts, and a num_topk from 1 to num_experts")
        key = num_experts, num_topk, nvlink_gbs, sm_read_gbs, sm_write_gbs
        if key not in self._sms:
            self._sms[key] = self._theoretical_sms(*key)
        return self._sms[key]

    def _theoretical_sms(self, experts, topk, gbs, read_gbs, write_gbs):
        most, ranks = self._device_sms(), self.num_ranks
        if ranks == 1:
            return most
        gbs = gbs or LINK_EFFICIENCY * nvlink_gbs()
        if gbs == 0:
            warnings.warn("get_theoretical_num_sms: nvidia-smi prints no speed of NVLinks; give num_sms, or nvlink_gbs", stacklevel=3)
        there = ranks * (1 - comb(experts - experts // ranks, topk) / comb(experts, topk))
        carried = gbs / (1 - 1 / ranks)
        sms = expand.aligned(max(LEAST_SMS, ceil(MARGIN * max(carried / there / read_gbs, carried / write_gbs))), 2)
        return min(sms if self.prefer_overlap_with_compute else max(sms, LEAST_SMS_ALONE), most)

    def _device_sms(self):
        return torch.cuda.get_device_properties(self._calls.device).multi_processor_count

    def get_theoretical_num_qps(self, num_sms):
        """Returns the number of queue pairs that DeepEP V2 would use."""
        return min(num_sms, 9, self.num_allocated_qps)

    def barrier(self, use_comm_stream=True, with_cpu_sync=False, sequential=True):
        """Makes the current stream wait until all ranks have called barrier and their current streams have come this
        far."""
        on_gpu = self._calls.device.type == "cuda" and "nccl" in str(dist.get_backend(self.group))
        if with_cpu_sync or not on_gpu:
            torch.cuda.synchronize()
        dist.all_reduce(torch.zeros(1, device=self._calls.device if on_gpu else "cpu"), group=self.group)
        if with_cpu_sync:
            torch.cuda.synchronize()

    # ---- dispatch and combine ----

    def _run(self, previous, before_epilogue, aside, work, tensors):
        if previous is None and before_epilogue is None and not aside:
            return work(), ElasticEvent()

        def after():
            if before_epilogue is not None:
                before_epilogue.current_stream_wait()
            return work()

        before = EventOverlap(previous) if isinstance(previous, EventHandle) else previous
        value, event = self._lane.run(before, aside, after, tensors)
        return value, ElasticEvent(event)

    def _most_tokens(self, given):
        """Returns num_max_tokens_per_rank. If the buffer was made without this number, the first call sets it."""
        most = self.num_max_tokens_per_rank
        if most == 0:
            if not given:
                raise ValueError("num_max_tokens_per_rank: neither the buffer nor the call gives it; give it to one of them")
            most = self.num_max_tokens_per_rank = self._calls._max_tokens = given
        if given and given > most:
            raise ValueError(f"num_max_tokens_per_rank: {given}, but the buffer was made for {most}; make it for the largest number")
        return given or most

    def dispatch(self, x, topk_idx=None, topk_weights=None, cumulative_local_expert_recv_stats=None, num_experts=None,
                 num_max_tokens_per_rank=None, expert_alignment=None, num_sms=0, num_qps=0, previous_event=None,
                 previous_event_before_epilogue=None, async_with_compute_stream=False, allocate_on_comm_stream=False, handle=None,
                 do_handle_copy=True, do_cpu_sync=None, do_expand=False, do_zero_padding=False, use_tma_aligned_col_major_sf=False):
        """Sends each token to the ranks of its experts.

        x: bfloat16 [tokens, hidden], or (float8_e4m3fn [tokens, hidden], float32 scales [tokens, hidden/128]).
        Returns (rows, ids, weights, handle, event). `ids` is int64 [rows, top-k]: local experts, or -1 for experts of
        other ranks. `weights` is float32 [rows, top-k]. With do_expand, `ids` is None and `weights` is [rows]. The
        call takes at most num_sms SMs, or get_theoretical_num_sms if num_sms is 0. With do_cpu_sync=False the host
        does not wait for counts. Then the outputs of this call, and of later calls with its handle, have room for the
        largest possible number of rows. A row without a token has the id -1.
        """
        assert do_expand or not do_zero_padding, "do_zero_padding: only with do_expand"
        inputs = (x, topk_idx, topk_weights, cumulative_local_expert_recv_stats)
        if handle is not None:
            assert topk_idx is None and not do_cpu_sync, "with a handle, leave out topk_idx and do_cpu_sync"
            handle.must_fit(num_experts, expert_alignment, num_max_tokens_per_rank, do_expand)
            work = lambda: self._again(handle, x, topk_weights, cumulative_local_expert_recv_stats)
        else:
            assert topk_idx is not None and num_experts is not None, "topk_idx and num_experts: both are needed without a handle"
            most = self._most_tokens(num_max_tokens_per_rank)
            tokens = (x[0] if isinstance(x, tuple) else x).shape[0]
            assert tokens <= most, f"x has {tokens} tokens, more than num_max_tokens_per_rank = {most}"
            sms = num_sms or self.get_theoretical_num_sms(num_experts, topk_idx.shape[1])
            worst = 0 if do_cpu_sync or do_cpu_sync is None else most * self.num_ranks
            made = EPHandle(do_expand, num_experts, expert_alignment or 1, most, sms, self.rank_idx, self.num_ranks)
            work = lambda: self._new(made, x, topk_idx, topk_weights, cumulative_local_expert_recv_stats, worst, do_handle_copy)
        (rows, ids, weights, handle, _), event = self._run(
            previous_event, previous_event_before_epilogue, async_with_compute_stream,
            lambda: self._finished(*work(), do_zero_padding, use_tma_aligned_col_major_sf), inputs)
        return rows, ids, weights, handle, event

    def _new(self, handle, x, topk_idx, topk_weights, stats, worst, copies):
        per_rank, _, per_expert, in_rank, _ = self._calls.get_dispatch_layout(topk_idx, handle.num_experts)
        handle.layout = per_rank, per_expert, in_rank
        handle.topk_idx = topk_idx.clone() if copies else topk_idx
        rows, ids, weights, counts, sent, _ = self._calls.dispatch(
            x, num_tokens_per_rank=per_rank, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert, topk_idx=topk_idx,
            topk_weights=topk_weights, expert_alignment=handle.expert_alignment, num_worst_tokens=worst, config=Config(handle.num_sms))
        handle.filled(sent, ids, counts)
        if stats is not None:
            stats += handle.num_unaligned_recv_tokens_per_expert
        return rows, weights, handle

    def _again(self, handle, x, topk_weights, stats):
        if topk_weights is None:
            rows, weights = self._calls.dispatch(x, handle=handle.sent)[0], None
        else:
            per_rank, per_expert, in_rank = handle.layout
            rows, _, weights, *_ = self._calls.dispatch(
                x, num_tokens_per_rank=per_rank, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert, topk_idx=handle.topk_idx,
                topk_weights=topk_weights, num_worst_tokens=max(handle.num_recv_tokens, 1), config=Config(handle.num_sms))
            cut = slice(handle.num_recv_tokens)
            rows, weights = tuple(r[cut] for r in rows) if isinstance(rows, tuple) else rows[cut], weights[cut]
        if stats is not None:
            stats += handle.num_unaligned_recv_tokens_per_expert
        return rows, weights, handle

    @staticmethod
    def _finished(rows, weights, handle, zeros, columns):
        ids = handle.recv_topk_idx
        if handle.do_expand:
            rows, weights = expand.spread(handle.sent.sent, rows, weights, handle.places, zeros, columns)
            ids = None
        elif columns and isinstance(rows, tuple):
            rows = rows[0], expand.by_columns(rows[1])
        return rows, ids, weights, handle, handle.tensors()

    def combine(self, x, handle, topk_weights=None, bias=None, num_sms=0, num_qps=0, previous_event=None, previous_event_before_epilogue=None,
                async_with_compute_stream=False, allocate_on_comm_stream=False):
        """Adds the rows of each token. The rows must already be multiplied by the weights.

        x: bfloat16 [rows, hidden], in the order of dispatch's rows. topk_weights: the weights that dispatch returned.
        bias: bfloat16 [tokens, hidden], or a pair of such tensors. Returns (bfloat16 [tokens, hidden], weights
        float32 [tokens, top-k] or None, event). num_sms is not used: combine takes as many SMs as the dispatch that
        made the handle.
        """
        if handle.do_expand and not self.allow_multiple_reduction:
            raise NotServed("combine of expanded rows with allow_multiple_reduction=False",
                            "the rows of a rank are added and rounded before they are sent; make the buffer with allow_multiple_reduction=True")
        biases = [bias] if isinstance(bias, torch.Tensor) else list(bias or ())

        def work():
            y, weights = x, topk_weights
            if handle.do_expand:
                y, weights = expand.fold(handle.sent.sent, x, topk_weights, handle.places)
            if biases:
                return self._combine_onto(biases, y, weights, handle)
            return self._calls.combine(y, handle.sent, topk_weights=weights)[:2]

        (combined, weights), event = self._run(previous_event, previous_event_before_epilogue, async_with_compute_stream, work,
                                               (x, topk_weights, bias, handle.tensors()))
        return combined, weights, event

    def _combine_onto(self, biases, y, weights, handle):
        """Adds the biases and then the ranks' rows, in float32, in the order of expand.order_of_ranks. One combine
        for each rank brings back the rows of that rank alone, because a combine of all ranks' rows would round their
        sum."""
        total, parts, back = sum(b.float() for b in biases), [], None
        for rank in range(self.num_ranks):
            mine = y if rank == self.rank_idx else torch.zeros_like(y)
            part, got, _ = self._calls.combine(mine, handle.sent, topk_weights=weights if rank == 0 else None)
            parts.append(part)
            back = got if rank == 0 else back
        for n in expand.order_of_ranks(handle.topk_idx, handle.num_experts // self.num_ranks, self.num_ranks).unbind(1):
            for rank, part in enumerate(parts):
                total += torch.where((n == rank)[:, None], part, 0).float()
        return total.to(torch.bfloat16), back

    # ---- not served ----

    engram_write = refused("engram_write", "there is no Engram; keep DeepEP's ElasticBuffer for it, in a second buffer")
    engram_fetch = refused("engram_fetch", "there is no Engram; keep DeepEP's ElasticBuffer for it, in a second buffer")
    get_engram_storage_size_hint = staticmethod(refused("get_engram_storage_size_hint", "there is no Engram"))
    pp_set_config = refused("pp_set_config", "send between stages of a pipeline with torch.distributed")
    pp_send = refused("pp_send", "call torch.distributed.send")
    pp_recv = refused("pp_recv", "call torch.distributed.recv")
    get_pp_buffer_size_hint = staticmethod(refused("get_pp_buffer_size_hint", "send between stages of a pipeline with torch.distributed"))
    create_agrs_session = refused("create_agrs_session", "call torch.distributed.all_gather_into_tensor")
    destroy_agrs_session = refused("destroy_agrs_session", "call torch.distributed.all_gather_into_tensor")
    agrs_new_session = refused("agrs_new_session", "call torch.distributed.all_gather_into_tensor")
    agrs_set_config = refused("agrs_set_config", "call torch.distributed.all_gather_into_tensor")
    agrs_get_inplace_tensor = refused("agrs_get_inplace_tensor", "call torch.distributed.all_gather_into_tensor")
    all_gather = refused("all_gather", "call torch.distributed.all_gather_into_tensor")
    get_agrs_num_max_session_bytes = staticmethod(refused("get_agrs_num_max_session_bytes", "call torch.distributed.all_gather_into_tensor"))
    get_agrs_buffer_size_hint = staticmethod(refused("get_agrs_buffer_size_hint", "call torch.distributed.all_gather_into_tensor"))
