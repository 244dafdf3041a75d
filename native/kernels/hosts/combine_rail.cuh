/* Combine over hosts with EP_ROUTE_RAIL. A token's rows on one host are summed on that host, and only the sum is
 * sent over the network. A rank's place is its number on its host. For the tokens of a rank, each other host has one
 * collector: the rank with the same place as the token's rank. The ranks of the host write their rows of the token to
 * the collector's memory. The collector sums the rows in f32, in top-k order.
 *
 * A collector may have no expert of the token, and then dispatch gave it no weights of the token. So every rank puts
 * the ids and weights of its tokens (a recipe) to its collectors. The ids also say for which rows a collector must
 * wait.
 *
 * With EP_PARTIAL 0 a sum is sent as f32, with EP_PARTIAL 1 as BF16. If a host has only one row of a token, it sends
 * the row itself. */
#pragma once

#include "common/partial.cuh"
#include "hosts/layout.cuh"
/* combine_wait.cuh must use the ep_region and ep_word of hosts/layout.cuh, so it is included after that file. */
#include "ep/combine_wait.cuh"

/* Returns whether hosts send sums. Without router weights each row has to be sent. */
EP_DEVICE bool ep_sums_by_host(const EpArgs &a) { return EP_ROUTE == EP_ROUTE_RAIL && EP_NODES > 1 && a.weights != nullptr; }

EP_DEVICE uint64_t ep_rail_token(const EpArgs &a, int32_t node, uint64_t token) {
  return static_cast<uint64_t>(node) * static_cast<uint64_t>(a.max_tokens) + token;
}
EP_DEVICE uint64_t ep_gather_at(const EpArgs &a, int32_t node, uint64_t token, uint32_t k) {
  return a.region[EP_H_GATHER] + (ep_rail_token(a, node, token) * EP_TOPK + k) * EP_ROW_BYTES;
}
EP_DEVICE uint64_t ep_sum_at(const EpArgs &a, int32_t node, uint64_t token) {
  return a.region[EP_H_SUMS] + ep_rail_token(a, node, token) * 2 * EP_ROW_BYTES;
}
EP_DEVICE uint64_t ep_recipe_at(const EpArgs &a, int32_t node) {
  return a.region[EP_H_RECIPE] + static_cast<uint64_t>(node) * ((8ull * static_cast<uint64_t>(a.max_tokens) * EP_TOPK + 15) / 16 * 16);
}
/* EP_H_RAIL_WORDS has three arrays of words, by host:
 * [N] announcements of recipes
 * [N, T] the last call whose sum has arrived
 * [N, T, K] the last call whose row has arrived */
EP_DEVICE uint64_t ep_recipe_word(const EpArgs &a, int32_t node) { return ep_host_at(a, EP_H_RAIL_WORDS, static_cast<uint64_t>(node)); }
EP_DEVICE uint64_t ep_sum_word(const EpArgs &a, int32_t node, uint64_t token) {
  return ep_host_at(a, EP_H_RAIL_WORDS, EP_NODES + ep_rail_token(a, node, token));
}
EP_DEVICE uint64_t ep_gather_word(const EpArgs &a, int32_t node, uint64_t token, uint32_t k) {
  const uint64_t sums = EP_NODES * static_cast<uint64_t>(a.max_tokens);
  return ep_host_at(a, EP_H_RAIL_WORDS, EP_NODES + sums + ep_rail_token(a, node, token) * EP_TOPK + k);
}

/* Sends the expert and weight of every selection to this rank's collectors, with one block. It does not wait for the
 * network, which may read this rank's recipe until the next call begins. */
static __device__ void ep_send_recipe(const EpArgs &a) {
  const int32_t here = ep_node_of(a.rank);
  const uint32_t selections = static_cast<uint32_t>(a.tokens) * EP_TOPK;
  uint64_t *recipe = ep_own_word(a, ep_recipe_at(a, here));
  for (uint32_t i = threadIdx.x; i < selections; i += blockDim.x)
    recipe[i] = static_cast<uint64_t>(__float_as_uint(a.weights[i])) << 32 | static_cast<uint32_t>(ep_id(a, i));
  __syncthreads();
  fence_acq_rel_sys(); /* the network reads what the whole block wrote */
  for (int32_t turn = 1 + static_cast<int32_t>(warp_id()); turn < EP_NODES; turn += static_cast<int32_t>(warps_in_block())) {
    const EpTarget t = {ep_rail(a, (here + turn) % EP_NODES), EP_NET_SET, ep_recipe_at(a, here), ep_recipe_word(a, here),
                        ep_announcement(ep_round(a), static_cast<uint32_t>(a.tokens))};
    ep_put<EP_IN_FLIGHT>(a, t, recipe, max(16u, ep_up(8 * selections, 16)));
  }
}

EP_DEVICE EpTarget ep_collector_target(const EpArgs &a, int32_t source, uint64_t token, uint32_t k) {
  const int32_t collector = ep_node_of(a.rank) * EP_PER_NODE + source % EP_PER_NODE, node = ep_node_of(source);
  return {collector, EP_NET_SET, ep_gather_at(a, node, token, k), ep_gather_word(a, node, token, k), ep_round(a)};
}

/* Adds one vector of the rows at the top-k positions in `which` to acc, in the order of positions. Lane k has the
 * address of the row of position k, and its weight. */
EP_DEVICE void ep_add_rows(float (&acc)[8], uint64_t row, float weight, uint32_t which, uint32_t vector, bool inside) {
  while (which != 0) {
    uint4 v[EP_IN_FLIGHT];
    uint32_t left = which;
#pragma unroll
    for (int i = 0; i < EP_IN_FLIGHT; i++, left &= left - 1) {
      const uint64_t from = __shfl_sync(EP_FULL_WARP, row, left != 0 ? __ffs(left) - 1 : 0);
      if (left != 0 && inside) v[i] = ld_once(reinterpret_cast<const uint4 *>(from) + vector);
    }
#pragma unroll
    for (int i = 0; i < EP_IN_FLIGHT; i++) {
      if (which == 0) break;
      const float w = __shfl_sync(EP_FULL_WARP, weight, __ffs(which) - 1);
      if (inside) bf16_accumulate(acc, v[i], w);
      which &= which - 1;
    }
  }
}

/* Stores a vector of a sum. An f32 sum takes two rows: of every eight elements, four go to the first row and four to
 * the second. */
EP_DEVICE void ep_store_sum(uint8_t *to, const float (&x)[8], uint32_t vector) {
#pragma unroll
  for (uint32_t p = 0; p < EP_PIECES; p++) reinterpret_cast<uint4 *>(to + p * EP_ROW_BYTES)[vector] = partial_pack(x, p);
}

EP_DEVICE void ep_add_sum(PartialSum &s, const uint8_t *from, uint32_t vector) {
  uint4 pieces[EP_PIECES];
#pragma unroll
  for (uint32_t p = 0; p < EP_PIECES; p++) pieces[p] = ld_once(reinterpret_cast<const uint4 *>(from + p * EP_ROW_BYTES) + vector);
  partial_add_pieces(s, ~0u, pieces);
}

EP_DEVICE bool ep_collect_token(const EpArgs &a, int32_t node, uint32_t token, uint32_t call) {
  const uint32_t k = lane_id();
  const uint64_t *recipe = ep_own_word(a, ep_recipe_at(a, node)) + static_cast<uint64_t>(token) * EP_TOPK;
  const uint64_t word = k < EP_TOPK ? ld_relaxed_sys(recipe + k) : 0xffffffffull;
  const int32_t expert = static_cast<int32_t>(word), owner = expert / EP_LOCAL_EXPERTS;
  const bool mine = expert >= 0 && expert < EP_EXPERTS && ep_is_near(a, owner);
  const uint32_t here = __ballot_sync(EP_FULL_WARP, mine);
  uint64_t got;
  const bool ok = !mine || ep_wait_call(a, ep_gather_word(a, node, token, k), {EP_PHASE_COMBINE_WAIT, expert, owner}, call, 0, &got);
  __syncwarp(); /* all lanes see what one lane has acquired */
  if (!__all_sync(EP_FULL_WARP, ok)) return false;
  if (here == 0) return true;
  const bool alone = (here & (here - 1)) == 0;
  uint8_t *sum = ep_own_heap(a) + ep_gather_at(a, node, token, alone ? __ffs(here) - 1 : 0);
  const uint64_t row = reinterpret_cast<uint64_t>(ep_own_heap(a) + ep_gather_at(a, node, token, k));
  for (uint32_t first = 0; !alone && first < EP_ROW_BYTES / 16; first += 32) {
    const uint32_t vector = first + k;
    const bool inside = vector < EP_ROW_BYTES / 16;
    float acc[8] = {};
    ep_add_rows(acc, row, __uint_as_float(static_cast<uint32_t>(word >> 32)), here, vector, inside);
    if (inside) ep_store_sum(sum, acc, vector); /* overwrites what this lane has read */
  }
  __syncwarp();
  fence_acq_rel_sys(); /* the network reads what the whole warp wrote */
  const EpTarget t = {ep_rail(a, node), EP_NET_SET, ep_sum_at(a, ep_node_of(a.rank), token), ep_sum_word(a, ep_node_of(a.rank), token), call};
  ep_put<EP_IN_FLIGHT>(a, t, sum, static_cast<uint32_t>(!alone && EP_F32_SUMS ? 2 * EP_ROW_BYTES : EP_ROW_BYTES));
  return true;
}

/* Collects all tokens of other hosts, beginning with the host after this one. */
static __device__ bool ep_collect(const EpArgs &a, uint32_t block, uint32_t blocks) {
  const uint32_t call = ep_round(a);
  for (int32_t turn = 1; turn < EP_NODES; turn++) {
    const int32_t node = (ep_node_of(a.rank) + turn) % EP_NODES;
    uint32_t tokens = 0;
    bool ok = true;
    if (lane_id() == 0) ok = ep_await_announced(a, ep_recipe_word(a, node), {EP_PHASE_COMBINE_WAIT, -1, ep_rail(a, node)}, call, &tokens);
    __syncwarp();
    if (!__all_sync(EP_FULL_WARP, ok)) return false;
    tokens = min(__shfl_sync(EP_FULL_WARP, tokens, 0), static_cast<uint32_t>(a.max_tokens));
    for (uint32_t t = block + warp_id() * blocks; t < tokens; t += blocks * warps_in_block())
      if (!ep_collect_token(a, node, t, call)) return false;
  }
  return true;
}

/* The parts of a token's sum. A part is a row, or a host's sum of several rows. Lane k has the address of the part of
 * top-k position k. If positions share a sum, only the first of them is in `sums`. */
struct EpParts {
  uint64_t at;
  float weight;
  uint32_t rows, sums; /* masks of positions whose part is a row, or a sum */
};

EP_DEVICE bool ep_await_parts(const EpArgs &a, int64_t token, EpParts *p) {
  const uint32_t k = lane_id();
  const int32_t expert = k < EP_TOPK ? ep_id(a, token * EP_TOPK + k) : -1;
  const int32_t node = ep_sends_to(a, expert) ? ep_node_of(expert / EP_LOCAL_EXPERTS) : -1;
  const uint32_t same = __match_any_sync(EP_FULL_WARP, node);
  const bool far = node >= 0 && node != ep_node_of(a.rank), alone = (same & (same - 1)) == 0;
  const uint64_t t = static_cast<uint64_t>(token);
  uint64_t got;
  const bool ok = !far || ep_wait_call(a, ep_sum_word(a, node, t), {EP_PHASE_COMBINE_WAIT, -1, ep_rail(a, node)}, ep_round(a), 0, &got);
  __syncwarp(); /* all lanes see what one lane has acquired */
  p->at = reinterpret_cast<uint64_t>(ep_own_heap(a) + (far ? ep_sum_at(a, node, t) : a.region[EP_H_RETURN] + combine_buf_layout(t, k)));
  p->weight = k < EP_TOPK ? a.weights[token * EP_TOPK + k] : 0.0f;
  p->rows = __ballot_sync(EP_FULL_WARP, node >= 0 && (!far || alone));
  p->sums = __ballot_sync(EP_FULL_WARP, far && !alone && static_cast<uint32_t>(__ffs(same)) == k + 1);
  return __all_sync(EP_FULL_WARP, ok);
}

EP_DEVICE bool ep_finish_chunk(const EpArgs &a, int64_t token, uint32_t chunk) {
  EpParts p;
  if (!ep_await_parts(a, token, &p)) return false;
  const uint32_t first = chunk * ep_chunk_vectors(a), end = min(first + ep_chunk_vectors(a), static_cast<uint32_t>(EP_ROW_BYTES / 16));
#pragma unroll 1
  for (uint32_t base = first; base < end; base += 32) {
    const uint32_t i = base + lane_id();
    PartialSum s = {};
    ep_add_rows(s.acc, p.at, p.weight, p.rows, i, i < end);
    for (uint32_t left = p.sums; left != 0; left &= left - 1) {
      const uint64_t from = __shfl_sync(EP_FULL_WARP, p.at, __ffs(left) - 1);
      if (i < end) ep_add_sum(s, reinterpret_cast<const uint8_t *>(from), i);
    }
    if (i >= end) continue;
    const uint4 sum = ep_add_shared(a, bf16_pack(s.acc), token, i);
    reinterpret_cast<uint4 *>(a.combined)[token * (EP_ROW_BYTES / 16) + i] = ep_epilogue(a, sum, i);
  }
  return true;
}

EP_DEVICE void ep_finish_tokens(const EpArgs &a, uint32_t block, uint32_t blocks) {
  if (!ep_await_go(a, block)) return;
  const int64_t chunks = ep_row_chunks(a), step = static_cast<int64_t>(blocks) * warps_in_block();
  for (int64_t u = block + static_cast<int64_t>(warp_id()) * blocks; u < a.tokens * chunks; u += step)
    if (!ep_finish_chunk(a, u / chunks, static_cast<uint32_t>(u % chunks))) return;
}

/* Collects and finishes tokens. Then it waits for the network, because the next call may overwrite the memory that
 * the network reads. */
static __device__ void ep_collect_and_finish(const EpArgs &a, uint32_t block, uint32_t blocks) {
  const bool ok = ep_collect(a, block, blocks);
  if (__syncthreads_or(!ok)) return;
  ep_finish_tokens(a, block, blocks);
  net_quiet();
}
