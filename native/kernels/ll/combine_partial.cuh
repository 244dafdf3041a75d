/* combine_ll_partial is a combine for small batches in which ranks send only partial sums, see
 * common/partial.cuh. It polls slots as combine_ll does, and calls of both kernels may
 * follow each other.
 */
#define EP_DIRECT 0
#define LL_WITHOUT_ENTRY /* do not compile the entry combine_ll */
#include "common/partial.cuh"
#include "ll/combine_slots.cuh"

struct LlPartialShared {
  uint32_t next; /* number of units of this block that warps have taken to sum */
};

/* ---- sending ---- */

/* A chunk of the row or sum that is sent back for a token of another rank. Consecutive
 * units go to different ranks, and each rank begins with the rank after itself. */
EP_DEVICE LlReturn ll_peer_unit(const EpArgs &a, uint32_t unit) {
  LlReturn r;
  r.source = (static_cast<uint32_t>(a.rank) + 1 + unit % EP_PEERS) % EP_RANKS;
  r.chunk = unit / EP_PEERS % LL_CHUNKS;
  r.token = unit / EP_PEERS / LL_CHUNKS;
  return r;
}
EP_DEVICE LlRoute ll_load_peer_route(const EpArgs &a, const LlCall &c, uint32_t unit) {
  LlReturn r = ll_peer_unit(a, unit);
  return ll_route_at(a, c, r.source, r.token, r.token < static_cast<uint32_t>(a.max_tokens));
}

/* Sends eight elements of the only row, or of the sum. All ones means an empty slot, but it is
 * also a NaN in f32: ep_canonical changes such a sum to another NaN. */
EP_DEVICE bool ll_send_partial(const EpArgs &a, const LlCall &c, LlReturn r, const LlRoute &route, uint32_t here) {
  uint32_t column = ll_column(r.chunk, c.lane);
  bool inside = ll_in_row(column);
  r.token = ll_token_of(route, r.token);
  auto slot = [&](uint32_t piece) {
    return reinterpret_cast<uint4 *>(ll_return(a, r.source, c.number, r.token, partial_slot(a.rank, here, piece)) + column);
  };
  if (EP_F32_SUMS && partial_alone(here)) {
    uint64_t row = __shfl_sync(EP_FULL_WARP, ll_row(route), __ffs(here) - 1);
    const uint8_t *y = reinterpret_cast<const uint8_t *>(a.y) + row * (2 * EP_HIDDEN) + column;
    if (inside) st_relaxed_sys(slot(0), ep_canonical(ld_readonly(reinterpret_cast<const uint4 *>(y))));
    return true;
  }
  float sum[8];
  auto weigh = [&a, c, r](uint64_t *word) { return ll_wait_weight(a, c, r, word); };
  if (!partial_sum<LL_LATE_WEIGHTS>(a, route.word, inside ? column : 0, here, sum, weigh)) return false;
#pragma unroll
  for (uint32_t p = 0; p < EP_PIECES; p++)
    if (inside) st_relaxed_sys(slot(p), ep_canonical(partial_pack(sum, p)));
  return true;
}

/* The number of warps of a block that send; they are its first warps. With receivers = 0 all
 * warps send. */
EP_DEVICE uint32_t ll_partial_senders(const EpArgs &a, const LlCall &c) {
  return c.warps - min(static_cast<uint32_t>(a.receivers), c.warps - 1);
}

/* Does for a sender what ll_return_ahead does, but leaves this rank's own number of tokens 0. */
EP_DEVICE LlReturnAhead ll_partial_ahead(const EpArgs &a, const LlCall &c) {
  LlReturnAhead ahead = {{LL_NOWHERE}, 0, 0};
  if (c.warp >= ll_partial_senders(a, c)) return ahead;
  ahead.began = ep_load_began(a, c);
  ahead.route = ll_load_peer_route(a, c, ll_from_bottom(c));
  if (c.lane < EP_RANKS && c.lane != static_cast<uint32_t>(a.rank)) ahead.tokens = ll_places(a, c.lane);
  return ahead;
}

EP_DEVICE void ll_partial_async(const EpArgs &a, const LlCall &c, LlReturnAhead ahead) {
  uint32_t senders = ll_partial_senders(a, c), unit = ll_from_bottom(c), step = senders * c.blocks, tokens = ahead.tokens;
  if (c.warp >= senders) return;
  if (!ep_all_began(a, c, ahead.began)) return;
  ll_send_weights(a, c, senders);
  ep_span_stage(a, EP_STAGE_READY);
  LlRoute next = ahead.route;
  uint32_t most = __reduce_max_sync(EP_FULL_WARP, tokens);
  for (; unit < most * LL_CHUNKS * EP_PEERS; unit += step) {
    LlRoute route = next;
    next = ll_load_peer_route(a, c, unit + step);
    LlReturn r = ll_peer_unit(a, unit);
    uint32_t here = __ballot_sync(EP_FULL_WARP, ll_row(route) != LL_NOWHERE);
    if (here == 0 || r.token >= __shfl_sync(EP_FULL_WARP, tokens, r.source)) continue;
    if (!ll_send_partial(a, c, r, route, here)) return;
  }
}

/* ---- receiving ---- */

/* Polls the slots of a group of ranks until all have arrived. It also reads slots that are
 * not used, so that there is no branch between the loads. */
EP_DEVICE bool ll_wait_group(const EpArgs &a, const PartialSum &s, bool inside, PartialGroup &g) {
  EpSpin spin;
  for (;;) {
    uint32_t lacks = 0;
#pragma unroll
    for (uint32_t i = 0; i < EP_GROUP; i++)
#pragma unroll
      for (uint32_t p = 0; p < EP_PIECES; p++) g.data[i][p] = ld_relaxed_sys(partial_at(a, s, g, i, p));
#pragma unroll
    for (uint32_t i = 0; i < EP_GROUP; i++)
#pragma unroll
      for (uint32_t p = 0; p < EP_PIECES; p++)
        if (inside && partial_has(g.here[i], p) && ep_largest(g.data[i][p]) == EP_SENTINEL) lacks |= 1u << i;
    lacks = __reduce_or_sync(EP_FULL_WARP, lacks);
    if (lacks == 0) return true;
    int32_t source = static_cast<int32_t>(partial_peer(a, g.first + __ffs(lacks) - 1));
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_WAIT, -1, source}, 0, lacks)) return false;
  }
}

EP_DEVICE void ll_empty_group(const EpArgs &a, const PartialSum &s, const PartialGroup &g) {
#pragma unroll
  for (uint32_t i = 0; i < EP_GROUP; i++)
#pragma unroll
    for (uint32_t p = 0; p < EP_PIECES; p++)
      if (partial_has(g.here[i], p)) st_relaxed_sys(partial_at(a, s, g, i, p), ep_sentinels());
}

/* Sums one chunk of one token. It reads this rank's rows while the rows of other ranks are
 * being sent. */
EP_DEVICE bool ll_partial_unit(const EpArgs &a, const LlCall &c, uint32_t unit) {
  uint32_t token = unit / LL_CHUNKS, column = ll_column(unit % LL_CHUNKS, c.lane), at = token * EP_TOPK + c.lane;
  bool mine = c.lane < EP_TOPK, inside = ll_in_row(column);
  column = inside ? column : 0;
  PartialSum s = {};
  s.slots = ll_return(a, a.rank, c.number, token, 0) + column;
  LlRoute route = ll_own_route(a, c, token);
  int32_t id = mine ? ll_id(a, at) : -1;
  s.rank = id < 0 ? EP_RANKS : static_cast<uint32_t>(id) / EP_LOCAL_EXPERTS;
  s.weight = EP_F32_SUMS && mine ? a.weights[at] : 0.0f;
  ll_weigh_own(a, route, at);
  partial_sum(a, route.word, column, __ballot_sync(EP_FULL_WARP, ll_row(route) != LL_NOWHERE), s.own);
  if (!EP_F32_SUMS) bf16_unpack(bf16_pack(s.own), s.own); /* rounded like the sums of other ranks */
  for (uint32_t first = 0; first < EP_PEERS; first += EP_GROUP) {
    PartialGroup g = partial_group(a, s, first);
    if (!ll_wait_group(a, s, inside, g)) return false;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    partial_add_group(a, s, g);
    if (inside) ll_empty_group(a, s, g);
  }
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined + static_cast<uint64_t>(token) * EP_HIDDEN);
  if (inside) *reinterpret_cast<uint4 *>(out + column) = partial_finish(a, s);
  return true;
}

/* Sums the units of this block. Warps draw the units one by one, so that a warp that is
 * still sending sums fewer units. */
EP_DEVICE void ll_partial_wait(const EpArgs &a, const LlCall &c, LlPartialShared &s) {
  for (;;) {
    uint32_t drawn = c.lane == 0 ? atomicAdd(&s.next, 1u) : 0;
    uint32_t unit = __shfl_sync(EP_FULL_WARP, drawn, 0) * c.blocks + c.block;
    if (unit >= static_cast<uint32_t>(a.tokens) * LL_CHUNKS || !ll_partial_unit(a, c, unit)) return;
  }
}

EP_ENTRY(EP_THREADS, 1) EP_SENDER(combine_ll_partial)(const __grid_constant__ EpArgs a) {
  __shared__ LlPartialShared s;
  ep_span_begin(a);
  if (EP_FUSED) {
    if (threadIdx.x == 0) s.next = 0;
    __syncthreads();
  }
  pdl_wait();
  if (EP_FUSED) pdl_launch();
  ep_drill_delay(a);
  LlCall c = {0, warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x};
  LlReturnAhead ahead = ll_partial_ahead(a, c);
  c.number = ep_number(a);
  if (ep_warp_leaves(a, c.number)) return;
  ep_announce(a, c, c.blocks - 1);
  ll_partial_async(a, c, ahead);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  if (EP_FUSED) ll_partial_wait(a, c, s);
  ep_span_end(a);
}

#ifdef EP_SPLIT
EP_ENTRY(EP_THREADS, 1) EP_RECEIVER(combine_ll_partial)(const __grid_constant__ EpArgs a) {
  __shared__ LlPartialShared s;
  ep_span_begin(a);
  if (threadIdx.x == 0) s.next = 0;
  __syncthreads();
  pdl_wait();
  LlCall c = ll_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  EP_NUMBER_DONE(a, c.number);
  ll_partial_wait(a, c, s);
  ep_span_end(a);
}
#endif
