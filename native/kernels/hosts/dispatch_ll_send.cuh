/* First half of dispatch_hosts with arrival=data. A block sends one token at a time. To near ranks (on this host)
 * it sends with stores. To each far rank (on another host) it sends with one put. With EP_ROUTE_RAIL it makes one
 * put to each other host instead. The last block sends the counts. */
#pragma once

#include "common/message.cuh"
#include "hosts/ll_layout.cuh"

EP_DEVICE int32_t lh_id(const EpArgs &a, uint32_t token) {
  return lane_id() < EP_TOPK ? ep_id(a, token * EP_TOPK + lane_id()) : -1;
}

/* Returns whether a fault drill (a fault caused on purpose) omits the counts for rank `owner`. With EP_ROUTE_RAIL the
 * drill omits messages instead (lh_loses_message), so that the forwarding rank waits for a message in vain. */
EP_DEVICE bool lh_loses_counts(const EpArgs &a, int32_t owner) {
  return EP_ROUTE == EP_ROUTE_DIRECT && a.drop_signal > 0 && lh_owner(a.drop_signal - 1) == owner;
}
EP_DEVICE bool lh_loses_message(const EpArgs &a, int32_t rank) {
  return EP_ROUTE == EP_ROUTE_RAIL && a.drop_signal > 0 && ep_node_of(lh_owner(a.drop_signal - 1)) == ep_node_of(rank);
}

struct LhCounted {
  uint32_t rows[EP_EXPERTS];
  uint32_t messages[EP_RANKS];
  uint32_t relayed[EP_NODES];
};

static __device__ void lh_count_all(const EpArgs &a, LhCounted &s) {
  for (uint32_t i = threadIdx.x; i < EP_EXPERTS; i += blockDim.x) s.rows[i] = 0;
  for (uint32_t i = threadIdx.x; i < EP_RANKS; i += blockDim.x) s.messages[i] = 0;
  for (uint32_t i = threadIdx.x; i < EP_NODES; i += blockDim.x) s.relayed[i] = 0;
  __syncthreads();
#pragma unroll 4
  for (uint32_t t = warp_id(); t < static_cast<uint32_t>(a.tokens); t += warps_in_block()) {
    const int32_t id = lh_id(a, t), owner = lh_owner(id);
    const bool first = lh_first(owner), relayed = EP_ROUTE == EP_ROUTE_RAIL && lh_first(lh_host(owner));
    if (id < 0) continue;
    atomicAdd(&s.rows[id], 1u);
    if (first) atomicAdd(&s.messages[owner], 1u);
    if (relayed) atomicAdd(&s.relayed[ep_node_of(owner)], 1u);
  }
  __syncthreads();
}

/* Returns a word of LH_COUNTS for a rank. All ranks of a host get the number of relayed messages, because
 * lh_headers_used needs it. */
EP_DEVICE uint32_t lh_count(const LhCounted &s, uint32_t owner, uint32_t word) {
  if (word < EP_LOCAL_EXPERTS) return s.rows[owner * EP_LOCAL_EXPERTS + word];
  return word < LL_COUNT_WORDS ? s.messages[owner] : s.relayed[owner / EP_PER_NODE];
}

/* Sends every rank the number of messages for the rank, and the number of rows for each of its experts. For a far rank,
 * it sends these counts in one put. */
static __device__ void lh_announce(const EpArgs &a, const LlCall &c) {
  __shared__ LhCounted s;
  lh_count_all(a, s);
  for (uint32_t i = threadIdx.x; i < EP_RANKS * LH_COUNT_WORDS; i += blockDim.x) {
    const uint32_t owner = i / LH_COUNT_WORDS, word = i % LH_COUNT_WORDS, expert = owner * EP_LOCAL_EXPERTS + word;
    const bool rows = word < EP_LOCAL_EXPERTS, near = ep_is_near(a, static_cast<int32_t>(owner));
    const uint64_t value = static_cast<uint64_t>(c.number) << 32 | lh_count(s, owner, word);
    if (near && rows && ep_drill_drops(a, static_cast<int32_t>(expert))) continue;
    uint8_t *to = near ? ep_peer_heap(a, static_cast<int32_t>(owner)) + lh_counts(a, c.number, static_cast<uint32_t>(a.rank))
                       : ep_own_heap(a) + lh_count_send(a, c.number, owner);
    st_relaxed_sys(reinterpret_cast<uint64_t *>(to) + word, value);
  }
  __syncthreads();
  fence_acq_rel_sys(); /* the network reads what the whole block wrote */
  for (int32_t owner = static_cast<int32_t>(c.warp); owner < EP_RANKS; owner += static_cast<int32_t>(c.warps)) {
    if (ep_is_near(a, owner) || lh_loses_counts(a, owner)) continue;
    net_put(ep_own_heap(a) + lh_counts(a, c.number, static_cast<uint32_t>(a.rank)),
            ep_own_heap(a) + lh_count_send(a, c.number, static_cast<uint32_t>(owner)), 8 * LH_COUNT_WORDS,
            ep_own_word(a, lh_count_flag(a, c.number, static_cast<uint32_t>(a.rank))), c.number, EP_NET_SET, owner);
  }
}

/* Where lane k sends a token, and the header word of top-k position k. If several positions have the same receiver,
 * only the lane of the first one sends. Lane EP_TOPK: only the header's last word. */
struct LhTarget {
  int32_t rank;     /* receiver of a message, or -1 */
  uint32_t message; /* the message's number */
  int32_t put;      /* receiver of a put, or -1 */
  uint32_t number;  /* number of the message that is put */
  uint64_t head;
};

/* For each top-k position of a token: the number of earlier tokens that selected the position's expert (`rows`), any
 * expert on that expert's rank (`messages`), or any expert on that expert's host (`relayed`). */
struct LhEarlier {
  uint32_t rows[EP_TOPK], messages[EP_TOPK], relayed[EP_TOPK];
};

static __device__ void lh_count_earlier(const EpArgs &a, LhEarlier &s, uint32_t token, int32_t id) {
  if (threadIdx.x < EP_TOPK) s.rows[threadIdx.x] = s.messages[threadIdx.x] = s.relayed[threadIdx.x] = 0;
  __syncthreads();
  const int32_t owner = lh_owner(id);
  uint32_t rows = 0, messages = 0, relayed = 0;
#pragma unroll 4
  for (uint32_t t = warp_id(); t < token; t += warps_in_block()) {
    const int32_t other = lh_id(a, t), others = lh_owner(other);
    bool row = false, message = false, relay = false;
#pragma unroll
    for (uint32_t k = 0; k < EP_TOPK; k++) {
      const int32_t its = __shfl_sync(EP_FULL_WARP, others, k);
      row |= __shfl_sync(EP_FULL_WARP, other, k) == id;
      message |= its == owner;
      relay |= EP_ROUTE == EP_ROUTE_RAIL && lh_host(its) == lh_host(owner);
    }
    rows += row;
    messages += message;
    relayed += relay;
  }
  if (lane_id() < EP_TOPK && messages > 0) {
    atomicAdd(&s.rows[lane_id()], rows);
    atomicAdd(&s.messages[lane_id()], messages);
  }
  if (lane_id() < EP_TOPK && relayed > 0) atomicAdd(&s.relayed[lane_id()], relayed);
  __syncthreads();
}

EP_DEVICE LhTarget lh_target(const EpArgs &a, LhEarlier &s, uint32_t token) {
  const uint32_t k = lane_id();
  const int32_t id = lh_id(a, token), owner = lh_owner(id);
  lh_count_earlier(a, s, token, id);
  const bool first = lh_first(owner), relayed = EP_ROUTE == EP_ROUTE_RAIL && lh_first(lh_host(owner));
  if (k >= EP_TOPK) return {-1, 0, -1, 0, token};
  const uint64_t weight = __float_as_uint(a.weights[token * EP_TOPK + k]);
  const uint32_t place = id < 0 ? LL_NOWHERE : static_cast<uint32_t>(id) << LL_PLACE_BITS | s.rows[k];
  LhTarget t = {first ? owner : -1, s.messages[k], -1, s.messages[k], weight << 32 | place};
  if (id < 0 || ep_is_near(a, owner)) return t;
  if (EP_ROUTE == EP_ROUTE_DIRECT) {
    t.put = t.rank;
  } else if (relayed) {
    t.put = ep_rail(a, ep_node_of(owner));
    t.number = s.relayed[k];
  }
  return t;
}

EP_DEVICE void lh_store_header(const EpArgs &a, const LlCall &c, int32_t rank, uint32_t source, uint32_t message, uint64_t head) {
  uint64_t *to = reinterpret_cast<uint64_t *>(ep_peer_heap(a, rank) + lh_header(a, c.number, source, message));
  if (c.lane < LH_HEAD) st_relaxed_sys(to + c.lane, head);
}

EP_DEVICE void lh_send_header(const EpArgs &a, const LlCall &c, const LhTarget &t, uint32_t token, uint32_t near) {
  uint8_t *staged = ep_own_heap(a) + lh_send(a, c.number, token);
  if (c.lane < LH_HEAD) reinterpret_cast<uint64_t *>(staged + LH_HEAD_AT)[c.lane] = t.head;
  if (EP_ROUTE == EP_ROUTE_RAIL && c.lane < EP_TOPK) reinterpret_cast<uint32_t *>(staged + LH_NUMBERS_AT)[c.lane] = t.message;
  for (; near != 0; near &= near - 1) {
    const uint32_t k = __ffs(near) - 1, message = __shfl_sync(EP_FULL_WARP, t.message, k);
    lh_store_header(a, c, __shfl_sync(EP_FULL_WARP, t.rank, k), static_cast<uint32_t>(a.rank), message, t.head);
  }
}

/* Sends a token's vectors to every near rank and, for far ranks, copies them to LH_SEND. */
EP_DEVICE void lh_send_vectors(const EpArgs &a, const LlCall &c, const LhTarget &t, uint32_t token, uint32_t near, bool far) {
  for (uint32_t first = 32 * c.warp; first < EP_VECTORS; first += blockDim.x) {
    const uint32_t vector = first + c.lane;
    const EpVector v[1] = {ep_message(ep_load_input(a, token, vector, ep_inside<1>(vector)))};
    for (uint32_t todo = near; todo != 0; todo &= todo - 1) {
      const uint32_t k = __ffs(todo) - 1, message = __shfl_sync(EP_FULL_WARP, t.message, k);
      uint8_t *peer = ep_peer_heap(a, __shfl_sync(EP_FULL_WARP, t.rank, k));
      ep_send_part(peer + lh_slot(a, c.number, static_cast<uint32_t>(a.rank), message), vector, v);
    }
    if (far) ep_send_part(ep_own_heap(a) + lh_send(a, c.number, token), vector, v);
  }
}

EP_DEVICE void lh_put_messages(const EpArgs &a, const LlCall &c, const LhTarget &t, uint32_t token, uint32_t puts) {
  if (puts == 0) return;
  fence_acq_rel_sys(); /* the network reads what the whole block wrote */
  for (uint32_t turn = 0; puts != 0; puts &= puts - 1, turn++) {
    if (turn % c.warps != c.warp) continue;
    const uint32_t k = __ffs(puts) - 1, number = __shfl_sync(EP_FULL_WARP, t.number, k), me = static_cast<uint32_t>(a.rank);
    const int32_t rank = __shfl_sync(EP_FULL_WARP, t.put, k);
    if (lh_loses_message(a, rank)) continue;
    net_put(ep_own_heap(a) + lh_slot(a, c.number, me, number), ep_own_heap(a) + lh_send(a, c.number, token), LH_PUT,
            ep_own_word(a, lh_flag(a, c.number, me, number)), c.number, EP_NET_SET, rank);
  }
}

/* Sends tokens, in all blocks but the last. In call n the blocks fill the set of LH_SEND that call n - 2 used.
 * Receivers have ended call n - 2, so the network has read the set. */
static __device__ void lh_send_tokens(const EpArgs &a, const LlCall &c) {
  __shared__ LhEarlier s;
  for (uint32_t token = c.block; token < static_cast<uint32_t>(a.tokens); token += c.blocks - 1) {
    const LhTarget t = lh_target(a, s, token);
    const uint32_t near = __ballot_sync(EP_FULL_WARP, t.rank >= 0 && ep_is_near(a, t.rank)), puts = __ballot_sync(EP_FULL_WARP, t.put >= 0);
    if (c.warp == c.warps - 1) lh_send_header(a, c, t, token, near);
    lh_send_vectors(a, c, t, token, near, puts != 0);
    __syncthreads();
    lh_put_messages(a, c, t, token, puts);
  }
}

/* Returns how many headers a call used for messages of a source. Messages of a far source have headers here only if a
 * rank of this host forwarded them. Then the count of relayed messages is not 0. */
EP_DEVICE uint32_t lh_headers_used(const EpArgs &a, uint32_t call, uint32_t source) {
  const uint64_t *counts = ep_own_word(a, lh_counts(a, call, source));
  const uint32_t messages = static_cast<uint32_t>(counts[EP_LOCAL_EXPERTS]), relayed = static_cast<uint32_t>(counts[LL_COUNT_WORDS]);
  return relayed > 0 || ep_is_near(a, static_cast<int32_t>(source)) ? messages : 0;
}

/* In call n, clears the headers of call n - 1. There are three sets of headers, so call n + 2 uses this set next. The
 * counts of call n - 1 say how many headers there are. A warp's lanes load these counts together. */
static __device__ void lh_clear_headers(const EpArgs &a, const LlCall &c) {
  const uint32_t before = ep_number_before(c.number);
  for (uint32_t first = 0; first < EP_RANKS; first += 32) {
    const uint32_t mine = lh_headers_used(a, before, min(first + c.lane, static_cast<uint32_t>(EP_RANKS - 1)));
    for (uint32_t source = first; source < min(first + 32, static_cast<uint32_t>(EP_RANKS)); source++) {
      const uint32_t used = __shfl_sync(EP_FULL_WARP, mine, source - first) * LH_HEAD;
      uint64_t *words = ep_own_word(a, lh_header(a, before, source, 0));
      for (uint32_t i = c.block * blockDim.x + threadIdx.x; i < used; i += c.blocks * blockDim.x)
        st_relaxed_sys(words + i, static_cast<uint64_t>(~0ull));
    }
  }
}

static __device__ void lh_dispatch_send(const EpArgs &a, const LlCall &c) {
  ep_drill_delay(a);
  if (c.block == c.blocks - 1) {
    lh_announce(a, c);
  } else {
    lh_send_tokens(a, c);
  }
  ep_span_stage(a, EP_STAGE_SENT);
  lh_clear_headers(a, c);
}
