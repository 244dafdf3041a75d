/* Combine over hosts. As with algo direct of ep/combine.cuh, every row is sent back to its own slot, and rows are
 * summed in top-k order. With EP_ROUTE_RAIL each host sends sums, see combine_rail.cuh. A dispatch with the same
 * memory must run before the combine. */
#include "hosts/combine_rail.cuh"

/* Sends every rank the number of rows that the rank gets back, even if it is 0. Every rank waits for the numbers of all
 * ranks, so no rank ends a call before all ranks have begun it. Only block 0 sends. */
EP_DEVICE void ep_announce_returns(const EpArgs &a) {
  const uint32_t call = ep_round(a);
  if (blockIdx.x != 0 || ep_drill_drops(a, a.rank * EP_LOCAL_EXPERTS)) return;
  for (uint32_t s = threadIdx.x; s < EP_RANKS; s += blockDim.x) {
    uint32_t rows = 0;
    const bool summed = ep_sums_by_host(a) && !ep_is_near(a, static_cast<int32_t>(s));
    for (uint32_t local = 0; local < EP_LOCAL_EXPERTS && !summed; local++)
      rows += static_cast<uint32_t>(ep_counter(a, EP_PAIR)[2 * recv_count_layout(local, s) + 1]);
    ep_signal(a, static_cast<int32_t>(s), ep_host_at(a, EP_H_RETURN_COUNT, static_cast<uint64_t>(a.rank)), ep_announcement(call, rows));
  }
}

/* Returns the target of a row. If src_info names no slot, the target's rank is -1. */
EP_DEVICE EpTarget ep_return_target(const EpArgs &a, int64_t row, uint32_t source) {
  const int32_t token = a.src_info[2 * row], k = a.src_info[2 * row + 1];
  if (token < 0 || token >= a.max_tokens || k < 0 || k >= EP_TOPK) return {-1, 0, 0, 0, 0};
  if (ep_sums_by_host(a) && !ep_is_near(a, static_cast<int32_t>(source)))
    return ep_collector_target(a, static_cast<int32_t>(source), static_cast<uint64_t>(token), static_cast<uint32_t>(k));
  return {static_cast<int32_t>(source), EP_NET_ADD,
          a.region[EP_H_RETURN] + combine_buf_layout(static_cast<uint64_t>(token), static_cast<uint32_t>(k)),
          ep_host_at(a, EP_H_RETURNED, static_cast<uint64_t>(a.rank)), 1};
}

/* Sends rows back. Blocks take (local expert, source) pairs in turn, and warps take a pair's rows. The kernel
 * waits until the network has read the rows, because the caller may overwrite them once the kernel has ended. */
static __device__ void ep_hosts_return(const EpArgs &a) {
  ep_drill_delay(a);
  ep_span_stage(a, EP_STAGE_READY);
  ep_announce_returns(a);
  const bool asks = ep_sums_by_host(a) && blockIdx.x == gridDim.x - 1;
  if (asks) ep_send_recipe(a);
  for (uint32_t i = blockIdx.x; i < EP_PAIRS; i += gridDim.x) {
    const EpPair p = ep_pair(a, i);
    for (int64_t row = p.start + warp_id(); row < p.end; row += warps_in_block()) {
      const EpTarget t = ep_return_target(a, row, p.source);
      if (t.rank >= 0) ep_put<EP_IN_FLIGHT>(a, t, a.y + row * EP_HIDDEN, static_cast<uint32_t>(EP_ROW_BYTES));
    }
  }
  if (EP_NODES > 1 && (asks || !ep_sums_by_host(a))) net_quiet();
  ep_span_stage(a, EP_STAGE_SENT);
}

static __device__ void ep_hosts_await_returns(const EpArgs &a) {
  const uint32_t call = ep_round(a);
  uint64_t *seen = ep_own_word(a, a.region[EP_H_RETURN_SEEN]);
  bool ok = true;
  for (uint32_t s = blockIdx.x * blockDim.x + threadIdx.x; s < EP_RANKS; s += static_cast<uint32_t>(a.wait_sms) * blockDim.x) {
    const EpWait what = {EP_PHASE_COMBINE_WAIT, -1, static_cast<int32_t>(s)};
    uint32_t rows = 0;
    uint64_t got;
    ok = ok && ep_await_announced(a, ep_host_at(a, EP_H_RETURN_COUNT, s), what, call, &rows);
    seen[s] += rows;
    ok = ok && ep_wait(a, ep_host_at(a, EP_H_RETURNED, s), what, seen[s], &got);
  }
  if (__syncthreads_or(!ok)) return;
  ep_span_stage(a, EP_STAGE_ARRIVED);
  for (uint32_t i = threadIdx.x; i < gridDim.x - static_cast<uint32_t>(a.wait_sms); i += blockDim.x)
    red_add_release_gpu(ep_counter(a, EP_GO + i), EP_READY_FLAG);
}

static __device__ void ep_hosts_sum(const EpArgs &a) {
  const uint32_t waiting = static_cast<uint32_t>(a.wait_sms);
  if (blockIdx.x < waiting) {
    ep_hosts_await_returns(a);
  } else if (ep_sums_by_host(a)) {
    ep_collect_and_finish(a, blockIdx.x - waiting, gridDim.x - waiting);
  } else {
    reduce_and_copy_to_output(a);
  }
}

EP_HALVES(ep_hosts_combine, ep_hosts_return, ep_hosts_sum)
