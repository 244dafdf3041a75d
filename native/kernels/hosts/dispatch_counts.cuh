/* Dispatch over hosts ("nodes" in names). All blocks of a grid must run at the same time, and all ranks must launch
 * with the same parameters. Between two dispatches, all ranks must make a combine or a barrier.
 *
 * Some blocks send tokens. The monitor blocks announce the number of tokens, perhaps before the tokens arrive. From
 * the arrival words the receiver sees when all tokens have arrived, in whatever order. */
#include "hosts/layout.cuh"

typedef EpTarget EpDestination;
EP_DEVICE bool ep_await_pair(const EpArgs &a, uint32_t pair, EpWait what, uint64_t *count) {
  uint32_t tokens = 0;
  const bool ok = ep_await_announced(a, ep_host_at(a, EP_H_COUNT, pair), what, ep_round(a), &tokens);
  *count = tokens;
  return ok;
}

#include "ep/dispatch_wait.cuh"

EP_DEVICE EpTarget ep_expert_target(const EpArgs &a, int32_t expert, int32_t source, int32_t slot) {
  const uint64_t at = recv_buf_layout(static_cast<uint32_t>(expert % EP_LOCAL_EXPERTS), static_cast<uint32_t>(source),
                                      static_cast<uint64_t>(slot), static_cast<uint64_t>(a.max_tokens));
  return {expert / EP_LOCAL_EXPERTS, EP_NET_ADD, a.region[EP_H_RECV] + at, ep_host_at(a, EP_H_ARRIVED, static_cast<uint64_t>(source)), 1};
}

constexpr EpTarget EP_NOWHERE = {-1, 0, 0, 0, 0};

EP_DEVICE EpTarget ep_direct_target(const EpArgs &a, int32_t expert, uint32_t call) {
  int32_t slot;
  if (!ep_take_slot(a, ep_counter(a, EP_SLOTS + (call & 1u) * EP_EXPERTS + static_cast<uint32_t>(expert)), expert, &slot)) return EP_NOWHERE;
  return ep_expert_target(a, expert, a.rank, slot);
}

EP_DEVICE EpTarget ep_rail_target(const EpArgs &a, int32_t expert, int32_t node, uint32_t call) {
  int32_t slot;
  if (!ep_take_slot(a, ep_counter(a, EP_RAIL_SLOTS + (call & 1u) * EP_NODES + static_cast<uint32_t>(node)), expert, &slot)) return EP_NOWHERE;
  const uint64_t at = static_cast<uint64_t>(ep_node_of(a.rank)) * static_cast<uint64_t>(a.max_tokens) + static_cast<uint64_t>(slot);
  return {ep_rail(a, node), EP_NET_SET, a.region[EP_H_RELAY] + at * EP_MSG_BYTES, ep_host_at(a, EP_H_RELAY_FLAG, at), call};
}

/* Finds the targets of one token, in warp 0; lane k gets the target of top-k position k. Under EP_ROUTE_RAIL, only
 * the first position with an expert on another host has a target there. */
EP_DEVICE EpDestination ep_reserve(const EpArgs &a, int64_t token) {
  const uint32_t k = lane_id(), call = ep_round(a);
  const int32_t expert = k < EP_TOPK ? a.topk_ids[token * EP_TOPK + k] : -1;
  const bool sends = ep_sends_to(a, expert);
  const int32_t node = sends ? ep_node_of(expert / EP_LOCAL_EXPERTS) : -1;
  if (EP_ROUTE == EP_ROUTE_RAIL) {
    const uint32_t same = __match_any_sync(EP_FULL_WARP, node);
    if (sends && node != ep_node_of(a.rank))
      return static_cast<uint32_t>(__ffs(same)) == k + 1 ? ep_rail_target(a, expert, node, call) : EP_NOWHERE;
  }
  return sends ? ep_direct_target(a, expert, call) : EP_NOWHERE;
}

EP_DEVICE void ep_send_copies(const EpArgs &a, const uint8_t *message, const EpDestination *to) {
  const uint32_t parts = ep_message_parts(a);
  const uint32_t part_bytes = parts > 1 ? static_cast<uint32_t>(a.chunk_bytes) : EP_MSG_BYTES;
  for (uint32_t u = warp_id(); u < EP_TOPK * parts; u += warps_in_block()) {
    EpTarget t = to[u % EP_TOPK];
    if (t.rank < 0) continue;
    const uint32_t at = u / EP_TOPK * part_bytes;
    t.to += at;
    ep_put<EP_IN_FLIGHT>(a, t, message + at, min(part_bytes, EP_MSG_BYTES - at));
  }
}

static __device__ void ep_announce(const EpArgs &a, uint32_t block, uint32_t blocks) {
  const uint32_t call = ep_round(a);
  const uint32_t items = EP_EXPERTS + (EP_ROUTE == EP_ROUTE_RAIL ? EP_NODES : 0);
  for (uint32_t i = block * warps_in_block() + warp_id(); i < items; i += blocks * warps_in_block()) {
    const int32_t expert = static_cast<int32_t>(i), node = expert - EP_EXPERTS;
    if (node >= 0) {
      const uint32_t count = node == ep_node_of(a.rank) ? 0 : ep_count_tokens(a, [node](int32_t e) { return ep_node_of(e / EP_LOCAL_EXPERTS) == node; });
      if (lane_id() == 0 && node != ep_node_of(a.rank))
        ep_signal(a, ep_rail(a, node), ep_host_at(a, EP_H_RELAY_COUNT, static_cast<uint64_t>(ep_node_of(a.rank))), ep_announcement(call, count));
      continue;
    }
    const uint32_t count = ep_count_ids(a, [expert](int32_t id) { return id == expert; });
    if (lane_id() != 0 || ep_drill_drops(a, expert)) continue;
    const uint32_t pair = recv_count_layout(static_cast<uint32_t>(expert % EP_LOCAL_EXPERTS), static_cast<uint32_t>(a.rank));
    ep_signal(a, expert / EP_LOCAL_EXPERTS, ep_host_at(a, EP_H_COUNT, pair), ep_announcement(call, count));
  }
}

static __device__ void ep_hosts_send(const EpArgs &a) {
  const uint32_t monitors = static_cast<uint32_t>(a.count_sms);
  ep_drill_delay(a);
  if (blockIdx.x == 0) ep_clear_next(a, ep_round(a));
  if (blockIdx.x < monitors) {
    ep_announce(a, blockIdx.x, monitors);
  } else {
    ep_send_tokens(a, blockIdx.x - monitors, gridDim.x - monitors);
  }
  ep_span_stage(a, EP_STAGE_SENT);
}

/* Forwards a message that came from host `node`, with one warp: to the ranks of this rank's host that have any of
 * the message's experts. `slot` is the message's number in EP_H_RELAY. */
EP_DEVICE bool ep_forward_message(const EpArgs &a, int32_t node, uint32_t slot, uint32_t call) {
  const uint64_t at = static_cast<uint64_t>(node) * static_cast<uint64_t>(a.max_tokens) + slot;
  const int32_t source = ep_rail(a, node);
  bool ok = true;
  if (lane_id() == 0)
    ok = ep_wait_call(a, ep_host_at(a, EP_H_RELAY_FLAG, at), {EP_PHASE_DISPATCH_WAIT, -1, source}, call);
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
    uint64_t want = seen[s];
    for (uint32_t local = 0; local < EP_LOCAL_EXPERTS; local++) want += static_cast<uint64_t>(o.pair_ends[local * EP_SOURCES + s]) * ep_message_parts(a);
    if (ok) ok = ep_wait(a, ep_host_at(a, EP_H_ARRIVED, s), {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(s)}, want);
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
