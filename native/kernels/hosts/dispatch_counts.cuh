/* Dispatch over hosts. As in ep/dispatch.cuh there is one kernel (ep_hosts_dispatch), or one for each half
 * (ep_hosts_dispatch_async, ep_hosts_dispatch_wait). All blocks of a grid must run at the same time, and all ranks
 * must launch with the same parameters.
 *
 * The buffers may be used again after a combine on all ranks. If two dispatches have no combine between them, they
 * need a barrier of all ranks between them. */
#include "hosts/dispatch_send.cuh"

/* ---- forwarding ---- */

/* Forwards message `slot` of host `node` to the ranks of this host that have its experts. One warp calls it. */
EP_DEVICE bool ep_forward_message(const EpArgs &a, int32_t node, uint32_t slot, uint32_t call) {
  const uint64_t at = static_cast<uint64_t>(node) * static_cast<uint64_t>(a.max_tokens) + slot;
  const int32_t source = ep_rail(a, node);
  bool ok = true;
  if (lane_id() == 0) {
    uint64_t got;
    ok = ep_wait_call(a, ep_host_at(a, EP_H_RELAY_FLAG, at), {EP_PHASE_DISPATCH_WAIT, -1, source}, call, 0, &got);
  }
  if (!__all_sync(EP_FULL_WARP, ok)) return false;
  fence_acq_rel_sys();
  const uint8_t *message = ep_own_heap(a) + a.region[EP_H_RELAY] + at * EP_MSG_BYTES;
  EpTarget mine = EP_NOWHERE;
  if (lane_id() < EP_TOPK) {
    const uint32_t id = reinterpret_cast<const uint16_t *>(message + EP_IDS_AT)[lane_id()];
    const int32_t expert = id == EP_NO_EXPERT ? -1 : static_cast<int32_t>(id);
    if (ep_sends_to(a, expert) && ep_node_of(expert / EP_LOCAL_EXPERTS) == ep_node_of(a.rank)) {
      const uint32_t here = static_cast<uint32_t>(expert) % (EP_EXPERTS / EP_NODES);
      int32_t to;
      if (ep_take_slot(a, ep_counter(a, EP_RELAYED + (call & 1u) * EP_EXPERTS + static_cast<uint32_t>(node) * (EP_EXPERTS / EP_NODES) + here), expert, &to))
        mine = ep_expert_target(a, expert, source, to);
    }
  }
  for (uint32_t todo = __ballot_sync(EP_FULL_WARP, mine.rank >= 0); todo != 0; todo &= todo - 1) {
    const int k = __ffs(todo) - 1;
    const EpTarget t = {__shfl_sync(EP_FULL_WARP, mine.rank, k), EP_NET_ADD, __shfl_sync(EP_FULL_WARP, mine.to, k),
                        __shfl_sync(EP_FULL_WARP, mine.word, k), 1};
    ep_put<EP_IN_FLIGHT>(a, t, message, EP_MSG_BYTES);
  }
  return true;
}

/* Forwards messages of other hosts. The first EP_RELAY_WARPS warps of every copying block take chunks of
 * EP_RELAY_CHUNK messages in turn; they begin with the messages of the next host. They wait for no other warp of this
 * rank. So there is no deadlock between ranks, whatever else a block has to do before or after it forwards. */
EP_DEVICE bool ep_forward(const EpArgs &a, uint32_t block, uint32_t blocks) {
  const uint32_t call = ep_round(a), warps = min(static_cast<uint32_t>(EP_RELAY_WARPS), warps_in_block());
  if (warp_id() >= warps) return true;
  const uint32_t me = block + warp_id() * blocks;
  for (int32_t turn = 1; turn < EP_NODES; turn++) {
    const int32_t node = (ep_node_of(a.rank) + turn) % EP_NODES;
    uint32_t count = 0;
    bool ok = true;
    if (lane_id() == 0)
      ok = ep_await_announced(a, ep_host_at(a, EP_H_RELAY_COUNT, static_cast<uint64_t>(node)), {EP_PHASE_DISPATCH_WAIT, -1, ep_rail(a, node)}, call, &count);
    if (!__all_sync(EP_FULL_WARP, ok)) return false;
    count = min(__shfl_sync(EP_FULL_WARP, count, 0), static_cast<uint32_t>(a.max_tokens));
    for (uint32_t first = me * EP_RELAY_CHUNK; first < count; first += warps * blocks * EP_RELAY_CHUNK)
      for (uint32_t slot = first; slot < min(first + EP_RELAY_CHUNK, count); slot++)
        if (!ep_forward_message(a, node, slot, call)) return false;
  }
  return true;
}

/* ---- receiving ---- */

/* Waits for the counts, as ep_collect_counts does, and then for every message of every source. */
EP_DEVICE bool ep_collect_arrivals(const EpArgs &a, EpOffsets &o) {
  const uint32_t call = ep_round(a);
  bool ok = true;
  for (uint32_t i = threadIdx.x; i < EP_PAIRS; i += blockDim.x) {
    const EpWait what = {EP_PHASE_DISPATCH_WAIT, static_cast<int32_t>(static_cast<uint32_t>(a.rank) * EP_LOCAL_EXPERTS + i / EP_SOURCES),
                         static_cast<int32_t>(i % EP_SOURCES)};
    uint32_t count = 0;
    if (ok) ok = ep_await_announced(a, ep_host_at(a, EP_H_COUNT, i), what, call, &count);
    if (ok && count > static_cast<uint32_t>(a.max_tokens)) {
      ep_fault(a, what, static_cast<uint64_t>(a.max_tokens), count);
      ok = false;
    }
    o.pair_ends[i] = ok ? count : 0;
  }
  if (__syncthreads_or(!ok)) return false;
  ep_span_stage(a, EP_STAGE_READY);
  uint64_t *seen = ep_own_word(a, a.region[EP_H_SEEN]);
  for (uint32_t s = threadIdx.x; s < EP_RANKS; s += blockDim.x) {
    uint64_t want = seen[s], got;
    for (uint32_t local = 0; local < EP_LOCAL_EXPERTS; local++) want += static_cast<uint64_t>(o.pair_ends[local * EP_SOURCES + s]) * ep_message_parts(a);
    if (ok) ok = ep_wait(a, ep_host_at(a, EP_H_ARRIVED, s), {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(s)}, want, &got);
    seen[s] = want;
  }
  return __syncthreads_or(!ok) == 0;
}

/* Does over hosts what ep_offsets_block does. */
static __device__ void ep_hosts_offsets(const EpArgs &a) {
  __shared__ EpOffsets o;
  if (!ep_collect_arrivals(a, o)) return;
  ep_span_stage(a, EP_STAGE_ARRIVED);
  block_scan(o.pair_ends, EP_PAIRS);
  ep_pad_offsets(a, o);
  ep_publish_prefixes(a, o);
  __syncthreads();
  if (threadIdx.x == 0) {
    st_relaxed_gpu(ep_counter(a, EP_CLEANUP), static_cast<int32_t>(gridDim.x - 1));
    st_release_gpu(ep_counter(a, EP_READY), EP_READY_FLAG);
  }
  for (uint32_t i = threadIdx.x; i < EP_PAIRS; i += blockDim.x) { /* for combine */
    const uint32_t local = i / EP_SOURCES;
    ep_counter(a, EP_PAIR)[2 * i] = static_cast<int32_t>(EP_READY_FLAG + ep_group_start(o, local) + o.pair_ends[i] - ep_rows_before(o, local));
    ep_counter(a, EP_PAIR)[2 * i + 1] = static_cast<int32_t>(ep_pair_count(o, i));
  }
}

static __device__ void ep_hosts_receive(const EpArgs &a) {
  const uint32_t copiers = gridDim.x - 1;
  if (blockIdx.x == copiers) {
    ep_hosts_offsets(a);
    return;
  }
  bool ok = EP_ROUTE != EP_ROUTE_RAIL || ep_forward(a, blockIdx.x, copiers);
  if (EP_ROUTE == EP_ROUTE_RAIL) ok = __syncthreads_or(!ok) == 0;
  ok = ok && (!EP_SHARED || ep_copy_shared(a, blockIdx.x, copiers));
  ok = ok && ep_await_ready(a);
  if (!ok) return;
  ep_copy_experts(a, blockIdx.x, copiers);
  ep_leave_copying(a);
}

EP_ENTRY(EP_THREADS, 1) ep_hosts_dispatch_async(const __grid_constant__ EpArgs a) {
  ep_run(a, [&] { ep_hosts_send(a); });
}

EP_ENTRY(EP_THREADS, 1) ep_hosts_dispatch_wait(const __grid_constant__ EpArgs a) {
  ep_run(a, [&] { ep_hosts_receive(a); });
}

EP_ENTRY(EP_THREADS, 1) ep_hosts_dispatch(const __grid_constant__ EpArgs a) {
  ep_run(a, [&] {
    ep_hosts_send(a);
    ep_hosts_receive(a);
  });
}
