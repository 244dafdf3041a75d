/* Functions of combine_ll with own=slot: rows of a rank's own tokens go through slots, as rows of other ranks' tokens
 * do. With EP_DIRECT 0 each rank sums its experts' rows of a token in f32 and sends the sum as one BF16 row. With
 * EP_DIRECT 1 it sends every row, and the token's rank sums the rows in top-k order. */
#pragma once

static const uint32_t LL_TERMS = EP_DIRECT ? EP_TOPK : EP_RANKS; /* vectors of one sum */
static const uint32_t LL_BATCH = LL_TERMS < 8 ? LL_TERMS : 8;    /* vectors that are polled together */
/* Number of rows that a sender loads together. On 2 ranks a token with top-k 8 has about four rows on each rank. In a
 * block of more than 512 threads a thread has registers for only two rows. */
static const uint32_t LL_ROWS = LL_STEP > 1 ? 1 : EP_THREADS > 512 || EP_RANKS > 2 ? 2 : 4;

/* One chunk of up to LL_ROWS rows of y. A lane holds some vectors of each row. ll_load_rows loads the rows of the top-k
 * positions in `left`. If `left` has fewer than LL_ROWS positions, it loads the first row again, because a branch
 * between the loads would delay them. */
struct LlRows {
  uint4 data[LL_ROWS][LL_STEP];
  uint32_t k[LL_ROWS];
  bool valid[LL_ROWS];
};
EP_DEVICE LlRows ll_load_rows(const EpArgs &a, const LlRoute &route, uint32_t column, uint32_t &left) {
  LlRows rows;
  uint32_t first = __ffs(left) - 1;
#pragma unroll
  for (uint32_t i = 0; i < LL_ROWS; i++) {
    rows.valid[i] = left != 0;
    rows.k[i] = rows.valid[i] ? __ffs(left) - 1 : first;
    uint64_t row = __shfl_sync(EP_FULL_WARP, ll_row(route), rows.k[i]);
    const uint8_t *y = reinterpret_cast<const uint8_t *>(a.y) + row * (2 * EP_HIDDEN);
#pragma unroll
    for (uint32_t v = 0; v < LL_STEP; v++) {
      uint32_t at = column + v * LL_WARP_BYTES;
      rows.data[i][v] = ld_readonly(reinterpret_cast<const uint4 *>(y + (ll_in_row(at) ? at : 0)));
    }
    left &= left - 1;
  }
  return rows;
}

EP_DEVICE void ll_fill(uint8_t *slot, uint32_t column, const uint4 (&data)[LL_STEP]) {
#pragma unroll
  for (uint32_t v = 0; v < LL_STEP; v++) {
    uint32_t at = column + v * LL_WARP_BYTES;
    if (ll_in_row(at)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot + at), data[v]);
  }
}

/* Sums this rank's rows of a token and sends the sum. With LL_LATE_WEIGHTS it waits for the weights while the first
 * rows load. It returns false if the weights did not arrive. */
EP_DEVICE bool ll_send_sum(const EpArgs &a, const LlCall &c, LlReturn r, LlRoute route, uint32_t here) {
  float acc[LL_STEP][8] = {};
  for (bool known = !LL_LATE_WEIGHTS; here != 0; known = true) {
    LlRows rows = ll_load_rows(a, route, ll_column(r.chunk, c.lane), here);
    if (!known && !ll_wait_weight(a, c, r, &route.word)) return false;
#pragma unroll
    for (uint32_t i = 0; i < LL_ROWS; i++) {
      float weight = __uint_as_float(__shfl_sync(EP_FULL_WARP, static_cast<uint32_t>(route.word >> 32), rows.k[i]));
#pragma unroll
      for (uint32_t v = 0; v < LL_STEP; v++)
        if (rows.valid[i]) bf16_accumulate(acc[v], rows.data[i][v], weight);
    }
  }
  uint4 sum[LL_STEP];
#pragma unroll
  for (uint32_t v = 0; v < LL_STEP; v++) sum[v] = bf16_pack(acc[v]);
  ll_fill(ll_return(a, r.source, c.number, r.token, a.rank), ll_column(r.chunk, c.lane), sum);
  return true;
}

EP_DEVICE void ll_send_rows(const EpArgs &a, const LlCall &c, LlReturn r, const LlRoute &route, uint32_t here) {
  while (here != 0) {
    LlRows rows = ll_load_rows(a, route, ll_column(r.chunk, c.lane), here);
#pragma unroll
    for (uint32_t i = 0; i < LL_ROWS; i++) {
      if (!rows.valid[i]) continue;
#pragma unroll
      for (uint32_t v = 0; v < LL_STEP; v++) rows.data[i][v] = ep_canonical(rows.data[i][v]);
      ll_fill(ll_return(a, r.source, c.number, r.token, rows.k[i]), ll_column(r.chunk, c.lane), rows.data[i]);
    }
  }
}

EP_DEVICE bool ll_send_back(const EpArgs &a, const LlCall &c, LlReturn r, const LlRoute &route, uint32_t here) {
  r.token = ll_token_of(route, r.token);
  if (!EP_DIRECT) return ll_send_sum(a, c, r, route, here);
  ll_send_rows(a, c, r, route, here);
  return true;
}

/* Returns the mask of a token's slots that will be filled. Slot i belongs to rank i, or with EP_DIRECT to top-k
 * position i. */
EP_DEVICE uint32_t ll_slots_used(uint32_t lane, int32_t id) {
  if (EP_DIRECT) return __ballot_sync(EP_FULL_WARP, id >= 0);
  return __reduce_or_sync(EP_FULL_WARP, id < 0 ? 0u : 1u << (id / EP_LOCAL_EXPERTS));
}

#ifndef LL_HOSTS /* hosts/combine_ll.cuh defines another ll_polled */
EP_DEVICE uint32_t ll_polled(const EpArgs &, int32_t, uint32_t used) { return used; }
#endif

struct LlBatch {
  uint8_t *slot;
  uint32_t first, used; /* bit i of used: slot first + i is polled */
};
EP_DEVICE uint4 *ll_term(const LlBatch &b, uint32_t i) {
  bool exists = LL_TERMS % LL_BATCH == 0 || b.first + i < LL_TERMS; /* the last batch may be short */
  return reinterpret_cast<uint4 *>(b.slot + (exists ? i : 0) * (2 * EP_HIDDEN));
}
EP_DEVICE bool ll_lacks(const LlBatch &b, uint32_t i, uint4 data) {
  return (ep_largest(data) == EP_SENTINEL) & ((b.used >> i & 1u) != 0);
}

EP_DEVICE EpWait ll_missing_term(const LlBatch &b, uint32_t missing, const uint4 (&data)[LL_BATCH], int32_t id) {
  uint32_t slot = b.first;
#pragma unroll
  for (uint32_t i = LL_BATCH; i > 0; i--)
    if (ll_lacks(b, i - 1, data[i - 1])) slot = b.first + i - 1;
  slot = __shfl_sync(EP_FULL_WARP, slot, __ffs(missing) - 1);
  int32_t expert = EP_DIRECT ? __shfl_sync(EP_FULL_WARP, id, slot) : -1;
  int32_t source = EP_DIRECT ? expert / EP_LOCAL_EXPERTS : static_cast<int32_t>(slot);
  return {EP_PHASE_COMBINE_WAIT, expert, source};
}

/* Polls a batch of slots until every used slot is full. It also reads unused slots, because a branch between the
 * loads would delay them. */
EP_DEVICE bool ll_wait_batch(const EpArgs &a, const LlBatch &b, int32_t id, uint4 (&data)[LL_BATCH]) {
  EpSpin spin;
  for (;;) {
    bool lacks = false;
#pragma unroll
    for (uint32_t i = 0; i < LL_BATCH; i++) data[i] = ld_relaxed_sys(ll_term(b, i));
#pragma unroll
    for (uint32_t i = 0; i < LL_BATCH; i++) lacks |= ll_lacks(b, i, data[i]);
    uint32_t missing = __ballot_sync(EP_FULL_WARP, lacks);
    if (missing == 0) return true;
    if (!ep_again_warp(spin, a, ll_missing_term(b, missing, data, id), EP_FULL_WARP, ~missing)) return false;
  }
}

EP_DEVICE bool ll_reduce(const EpArgs &a, const LlCall &c, uint32_t token, int32_t id, float weight, uint32_t column) {
  uint32_t used = ll_slots_used(c.lane, id), polled = ll_polled(a, id, used);
  bool inside = ll_in_row(column);
  float acc[8] = {};
  for (uint32_t first = 0; first < LL_TERMS; first += LL_BATCH) {
    LlBatch b = {ll_return(a, a.rank, c.number, token, first) + (inside ? column : 0), first, inside ? polled >> first : 0};
    uint4 data[LL_BATCH];
    if (!ll_wait_batch(a, b, id, data)) return false;
    ep_span_stage(a, EP_STAGE_ARRIVED);
#pragma unroll
    for (uint32_t i = 0; i < LL_BATCH; i++) {
      if (!(used >> (first + i) & 1u)) continue;
      bf16_accumulate(acc, data[i], EP_DIRECT ? __shfl_sync(EP_FULL_WARP, weight, first + i) : 1.0f);
      if (inside) st_relaxed_sys(ll_term(b, i), ep_sentinels());
    }
  }
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined + static_cast<uint64_t>(token) * EP_HIDDEN);
  if (inside) *reinterpret_cast<uint4 *>(out + column) = bf16_pack(acc);
  return true;
}

EP_DEVICE void ll_combine_wait(const EpArgs &a, const LlCall &c) {
  for (uint32_t u = ll_from_top(c); u < static_cast<uint32_t>(a.tokens) * LL_CHUNKS; u += ll_all_warps(c)) {
    uint32_t token = u / LL_CHUNKS, at = token * EP_TOPK + c.lane;
    int32_t id = c.lane < EP_TOPK ? ep_id(a, at) : -1;
    float weight = EP_DIRECT && c.lane < EP_TOPK ? a.weights[at] : 1.0f;
    for (uint32_t v = 0; v < LL_STEP; v++)
      if (!ll_reduce(a, c, token, id, weight, ll_column(u % LL_CHUNKS, c.lane, v))) return;
  }
}

EP_DEVICE void ll_begin_sums() {}
