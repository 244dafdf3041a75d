/* Dispatch over hosts. All blocks of a grid must run at the same time, and all ranks must launch with the same
 * parameters. Between two dispatches, all ranks must make a combine or a barrier. */
#include "hosts/dispatch_send.cuh"

/* Forwards message `slot` of host `node` to those ranks of this host that have experts of the token, with one warp. */
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

/* Forwards messages from other hosts, beginning with the host after this one. The first EP_RELAY_WARPS warps of
 * every copying block take chunks of EP_RELAY_CHUNK messages in turn. They wait for no other warp of this rank, so
 * ranks cannot deadlock. */
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

EP_DEVICE bool ep_collect_messages(const EpArgs &a, const EpOffsets &o) {
  ep_span_stage(a, EP_STAGE_READY);
  bool ok = true;
  uint64_t *seen = ep_own_word(a, a.region[EP_H_SEEN]);
  for (uint32_t s = threadIdx.x; s < EP_RANKS; s += blockDim.x) {
    uint64_t want = seen[s], got;
    for (uint32_t local = 0; local < EP_LOCAL_EXPERTS; local++) want += static_cast<uint64_t>(o.pair_ends[local * EP_SOURCES + s]) * ep_message_parts(a);
    if (ok) ok = ep_wait(a, ep_host_at(a, EP_H_ARRIVED, s), {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(s)}, want, &got);
    seen[s] = want;
  }
  return __syncthreads_or(!ok) == 0;
}

static __device__ void ep_hosts_receive(const EpArgs &a) {
  const uint32_t copiers = gridDim.x - 1;
  if (blockIdx.x == copiers) {
    ep_offsets_block(a);
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

EP_HALVES(ep_hosts_dispatch, ep_hosts_send, ep_hosts_receive)
