/* Functions of combine_ll for the parameter own=registers. Ranks send partial sums (common/partial.cuh). A rank keeps
 * its sums for its own tokens in registers. */
#pragma once

/* Sends eight elements of this rank's sum for a token. If the rank has only one row of the token, it sends elements
 * of the row. ep_canonical replaces a NaN whose bits are all ones, because all ones mark an empty slot. */
EP_DEVICE bool ll_send_back(const EpArgs &a, const LlCall &c, LlReturn r, const LlRoute &route, uint32_t here) {
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

/* Polls the slots of a group of ranks until the data of all these ranks have arrived. It also reads unused slots,
 * because a branch between the loads would delay them. */
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

EP_DEVICE bool ll_partial_unit(const EpArgs &a, const LlCall &c, uint32_t unit) {
  uint32_t token = unit / LL_CHUNKS, column = ll_column(unit % LL_CHUNKS, c.lane), at = token * EP_TOPK + c.lane;
  bool mine = c.lane < EP_TOPK, inside = ll_in_row(column);
  column = inside ? column : 0;
  PartialSum s = {};
  s.slots = ll_return(a, a.rank, c.number, token, 0) + column;
  LlRoute route = ll_own_route(a, c, token);
  int32_t id = mine ? ep_id(a, at) : -1;
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

EP_DEVICE uint32_t *ll_taken() {
  __shared__ uint32_t taken;
  return &taken;
}
EP_DEVICE void ll_begin_sums() {
  if (threadIdx.x == 0) *ll_taken() = 0;
  __syncthreads();
}

/* Sums the units of this block. Each warp takes a next unit when it is free, because some warps still send. */
EP_DEVICE void ll_combine_wait(const EpArgs &a, const LlCall &c) {
  for (;;) {
    uint32_t drawn = c.lane == 0 ? atomicAdd(ll_taken(), 1u) : 0;
    uint32_t unit = __shfl_sync(EP_FULL_WARP, drawn, 0) * c.blocks + c.block;
    if (unit >= static_cast<uint32_t>(a.tokens) * LL_CHUNKS || !ll_partial_unit(a, c, unit)) return;
  }
}
