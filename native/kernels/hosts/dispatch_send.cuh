/* First half of dispatch over hosts. Some blocks send tokens. The monitor blocks announce how many tokens are sent. An
 * announcement may arrive before the tokens, and tokens may arrive in any order. Each part that arrives adds 1 to an
 * arrival word. By this word and the announcements, a receiver sees when all tokens have arrived. */
#pragma once

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

/* Finds the targets of one token, in warp 0. Lane k gets the target of top-k position k. Under EP_ROUTE_RAIL, another
 * host gets the token only once: of the positions with experts on that host, only the first has a target. */
EP_DEVICE EpDestination ep_reserve(const EpArgs &a, int64_t token) {
  const uint32_t k = lane_id(), call = ep_round(a);
  const int32_t expert = k < EP_TOPK ? ep_id(a, token * EP_TOPK + k) : -1;
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
