/* The parts of combine_ll (ll/combine.cuh) for own=slot. EP_DIRECT 0: the experts' rank sums its
 * rows of a token in f32 and sends one BF16 row. With top-8 on 8 ranks this halves the bytes, and
 * it rounds once more. EP_DIRECT 1: each row is sent by itself and rows are summed in top-k order,
 * so that the result has the same bits as a combine that sums nothing before it sends.
 */
#ifndef EP_LL_COMBINE_SLOTS_CUH
#define EP_LL_COMBINE_SLOTS_CUH

static const uint32_t LL_TERMS = EP_DIRECT ? EP_TOPK : EP_RANKS; /* number of vectors that are summed for one vector of the output */
static const uint32_t LL_BATCH = LL_TERMS < 8 ? LL_TERMS : 8;    /* number of them that are polled together */
/* Number of rows that a sender loads together. On 2 ranks a token has about four rows on
 * each rank, on more ranks one or two. The threads of large blocks have registers for two. */
static const uint32_t LL_ROWS = EP_THREADS > 512 || EP_RANKS > 2 ? 2 : 4;

/* ---- sending ---- */

/* One vector, at this lane's column, of each of up to LL_ROWS rows of y. `left` has the top-k
 * positions of these rows. If there are fewer rows, the first is loaded again and not used,
 * so that there is no branch between the loads. */
struct LlRows {
  uint4 data[LL_ROWS];
  float weight[LL_ROWS];
  uint32_t k[LL_ROWS];
  bool valid[LL_ROWS];
};
EP_DEVICE LlRows ll_load_rows(const EpArgs &a, LlRoute route, uint32_t column, uint32_t &left) {
  LlRows rows;
  const uint8_t *y = reinterpret_cast<const uint8_t *>(a.y) + (ll_in_row(column) ? column : 0);
  uint32_t first = __ffs(left) - 1;
#pragma unroll
  for (uint32_t i = 0; i < LL_ROWS; i++) {
    rows.valid[i] = left != 0;
    rows.k[i] = rows.valid[i] ? __ffs(left) - 1 : first;
    uint64_t word = __shfl_sync(EP_FULL_WARP, route.word, rows.k[i]);
    rows.weight[i] = __uint_as_float(static_cast<uint32_t>(word >> 32));
    rows.data[i] = ld_readonly(reinterpret_cast<const uint4 *>(y + (word & 0xffffffffu) * (2 * EP_HIDDEN)));
    left &= left - 1;
  }
  return rows;
}

/* Sums the unit's rows into one and sends it to the slot of this rank. */
EP_DEVICE void ll_send_sum(const EpArgs &a, const LlCall &c, LlReturn r, LlRoute route, uint32_t here) {
  uint32_t column = ll_column(r.chunk, c.lane);
  float acc[8] = {};
  while (here != 0) {
    LlRows rows = ll_load_rows(a, route, column, here);
#pragma unroll
    for (uint32_t i = 0; i < LL_ROWS; i++)
      if (rows.valid[i]) bf16_accumulate(acc, rows.data[i], rows.weight[i]);
  }
  uint8_t *slot = ll_return(a, r.source, c.number, r.token, a.rank);
  if (ll_in_row(column)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot + column), bf16_pack(acc));
}

/* Sends the unit's rows as they are, each to the slot of its top-k position. */
EP_DEVICE void ll_send_rows(const EpArgs &a, const LlCall &c, LlReturn r, LlRoute route, uint32_t here) {
  uint32_t column = ll_column(r.chunk, c.lane);
  while (here != 0) {
    LlRows rows = ll_load_rows(a, route, column, here);
#pragma unroll
    for (uint32_t i = 0; i < LL_ROWS; i++) {
      uint8_t *slot = ll_return(a, r.source, c.number, r.token, rows.k[i]);
      if (rows.valid[i] && ll_in_row(column))
        st_relaxed_sys(reinterpret_cast<uint4 *>(slot + column), ep_canonical(rows.data[i]));
    }
  }
}

EP_DEVICE bool ll_send_back(const EpArgs &a, const LlCall &c, LlReturn r, const LlRoute &route, uint32_t here) {
  if (EP_DIRECT) {
    ll_send_rows(a, c, r, route, here);
  } else {
    ll_send_sum(a, c, r, route, here);
  }
  return true;
}

/* ---- receiving ---- */

/* The slots of a token that will be filled: bit i for slot i. A slot belongs to a rank, or
 * with EP_DIRECT to a top-k position. */
EP_DEVICE uint32_t ll_slots_used(uint32_t lane, int32_t id) {
  if (EP_DIRECT) return __ballot_sync(EP_FULL_WARP, id >= 0);
  return __reduce_or_sync(EP_FULL_WARP, id < 0 ? 0u : 1u << (id / EP_LOCAL_EXPERTS));
}

/* Slots of one token at one column, from `first` on. */
struct LlBatch {
  uint8_t *slot;        /* address of slot `first` */
  uint32_t first, used; /* bit i of used: slot first + i will be filled */
};
EP_DEVICE uint4 *ll_term(const LlBatch &b, uint32_t i) {
  bool exists = LL_TERMS % LL_BATCH == 0 || b.first + i < LL_TERMS; /* the last batch may be short */
  return reinterpret_cast<uint4 *>(b.slot + (exists ? i : 0) * (2 * EP_HIDDEN));
}
EP_DEVICE bool ll_lacks(const LlBatch &b, uint32_t i, uint4 data) {
  return (ep_largest(data) == EP_SENTINEL) & ((b.used >> i & 1u) != 0);
}

/* Describes for what the warp waits: the first slot of which the first lane in `missing` has
 * not got its vector. */
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

/* Polls a batch of slots together until all have arrived. It also reads slots that are not
 * used, so that there is no branch between the loads. */
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

/* Sums one chunk of one token: waits for its terms, adds them in the order of slots, and
 * empties the slots. */
EP_DEVICE bool ll_reduce_unit(const EpArgs &a, const LlCall &c, uint32_t unit) {
  uint32_t token = unit / LL_CHUNKS, column = ll_column(unit % LL_CHUNKS, c.lane);
  int32_t id = c.lane < EP_TOPK ? a.topk_ids[token * EP_TOPK + c.lane] : -1;
  float weight = EP_DIRECT && c.lane < EP_TOPK ? a.weights[token * EP_TOPK + c.lane] : 1.0f;
  uint32_t used = ll_slots_used(c.lane, id);
  bool inside = ll_in_row(column);
  float acc[8] = {};
  for (uint32_t first = 0; first < LL_TERMS; first += LL_BATCH) {
    LlBatch b = {ll_return(a, a.rank, c.number, token, first) + (inside ? column : 0), first, inside ? used >> first : 0};
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
  for (uint32_t u = ll_from_top(c); u < static_cast<uint32_t>(a.tokens) * LL_CHUNKS; u += ll_all_warps(c))
    if (!ll_reduce_unit(a, c, u)) return;
}

EP_DEVICE void ll_begin_sums() {}

#endif
