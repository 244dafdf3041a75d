/* combine_masked sends the experts' rows back to their tokens' ranks and sums them, each times
 * its weight. Receivers poll the rows.
 *
 * EP_DIRECT 1: each row is sent by itself and rows are summed in top-k order. 0: the experts'
 * rank sums its rows of a token in f32 and sends one BF16 row. It needs the weights, which
 * are not known when tokens are dispatched. So each rank sends them at the start of this
 * call, one word for each expert; this takes no longer than the load of the first rows.
 *
 * With EP_PARTIAL, each rank's own sums stay in registers: see masked/combine_partial.cuh.
 *
 * It reads the routes that lie after src_info; any dispatch_masked of this rank may have
 * written them. Compile-time: EP_UNIT_BYTES, bytes of a row that a warp moves at a time.
 */
#ifdef EP_PARTIAL
#include "masked/combine_partial.cuh"
#else
#include "common/ids.cuh"
#include "common/split.cuh"
#include "common/started.cuh"
#include "masked/layout.cuh"

static const uint32_t MASKED_ROW = 2 * EP_HIDDEN;
static const uint32_t MASKED_CHUNKS = (MASKED_ROW + EP_UNIT_BYTES - 1) / EP_UNIT_BYTES;
static const uint32_t MASKED_STEP = EP_UNIT_BYTES / 512; /* vectors of a lane */
/* Number of rows that a sender loads together. On 2 ranks a token has about four rows on
 * each rank, on more ranks one or two. The threads of large blocks have registers for two. */
static const uint32_t MASKED_ROWS = MASKED_STEP > 1 ? 1 : EP_THREADS > 512 || EP_RANKS > 2 ? 2 : 4;
static const uint32_t MASKED_TERMS = EP_DIRECT ? EP_TOPK : EP_RANKS; /* rows summed for one row of the output */
static const uint32_t MASKED_BATCH = MASKED_TERMS < 8 ? MASKED_TERMS : 8; /* number of them that are polled together */

EP_DEVICE bool masked_in_row(uint32_t column) { return MASKED_ROW % EP_UNIT_BYTES == 0 || column < MASKED_ROW; }

/* ---- sending ---- */

/* Sends each weight of this rank's tokens to the rank of its expert. */
EP_DEVICE void masked_send_weights(const EpArgs &a, const RankCall &c) {
  uint32_t all = static_cast<uint32_t>(a.tokens) * EP_TOPK, step = c.senders * blockDim.x;
  for (uint32_t j = c.block * blockDim.x + threadIdx.x; j < all; j += step) {
    int32_t id = ep_id(a, j);
    if (id < 0) continue;
    uint64_t word = static_cast<uint64_t>(c.number) << 32 | __float_as_uint(a.weights[j]);
    st_relaxed_sys(masked_weight(a, id / EP_LOCAL_EXPERTS, c.number, a.rank, j / EP_TOPK) + j % EP_TOPK, word);
  }
}

/* A chunk of the row or rows that are sent back for one token. Lane k has the row of top-k
 * position k, or -1. Consecutive units go to different ranks. */
struct MaskedReturn {
  uint32_t source, token, column;
  int32_t row;
  bool exists;
};
EP_DEVICE uint32_t masked_unit_source(const EpArgs &a, uint32_t unit) { return (static_cast<uint32_t>(a.rank) + 1 + unit) % EP_RANKS; }
EP_DEVICE uint32_t masked_unit_place(uint32_t unit) { return unit / EP_RANKS / MASKED_CHUNKS; }

/* The words at the address of a unit's route. Whether the unit exists is known only later. */
struct MaskedRoute {
  int32_t token, row;
};
EP_DEVICE MaskedRoute masked_load_route(const EpArgs &a, const RankCall &c, uint32_t unit) {
  uint32_t place = masked_unit_place(unit);
  if (place >= static_cast<uint32_t>(a.max_tokens)) return {0, -1};
  const int32_t *route = masked_route(a, masked_unit_source(a, unit), place);
  return {route[0], c.lane < EP_TOPK ? route[1 + c.lane] : -1};
}
EP_DEVICE MaskedReturn masked_return_unit(const EpArgs &a, const RankCall &c, uint32_t unit, uint32_t messages, MaskedRoute route) {
  MaskedReturn r = {};
  r.source = masked_unit_source(a, unit);
  r.column = unit / EP_RANKS % MASKED_CHUNKS * EP_UNIT_BYTES + c.lane * 16;
  r.exists = masked_unit_place(unit) < __shfl_sync(EP_FULL_WARP, messages, r.source);
  r.row = -1;
  if (!r.exists) return r;
  r.token = static_cast<uint32_t>(route.token);
  r.row = route.row;
  /* If a broken dispatch wrote wrong routes, they must not lead out of the buffers. */
  if (r.token >= static_cast<uint32_t>(a.max_tokens)) r.exists = false;
  if (r.row >= a.max_rows) r.row = -1;
  return r;
}
EP_DEVICE uint4 masked_y(const EpArgs &a, int32_t row, uint32_t column) {
  const uint8_t *y = reinterpret_cast<const uint8_t *>(a.y) + static_cast<uint64_t>(row) * MASKED_ROW;
  return ld_readonly(reinterpret_cast<const uint4 *>(y + (masked_in_row(column) ? column : 0)));
}

/* Waits until the token's rank has sent the weight of this lane's position. */
EP_DEVICE bool masked_wait_weight(const EpArgs &a, const RankCall &c, const MaskedReturn &r, float *weight) {
  const uint64_t *p = masked_weight(a, a.rank, c.number, r.source, r.token) + (c.lane < EP_TOPK ? c.lane : 0);
  EpSpin spin;
  for (;;) {
    uint64_t v = ld_relaxed_sys(p);
    *weight = __uint_as_float(static_cast<uint32_t>(v));
    if (__all_sync(EP_FULL_WARP, r.row < 0 || v >> 32 == c.number)) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_ASYNC, -1, static_cast<int32_t>(r.source)}, c.number, v >> 32)) return false;
  }
}

/* MASKED_STEP vectors, from this lane's column on, of each of up to MASKED_ROWS rows of y.
 * `left` has the top-k positions of these rows. If there are fewer rows, the first is loaded
 * again and not used, so that there is no branch between the loads. To load one row after
 * the other would take one round trip to memory for each row. */
struct MaskedRows {
  uint4 data[MASKED_ROWS][MASKED_STEP];
  uint32_t k[MASKED_ROWS];
  bool valid[MASKED_ROWS];
};
EP_DEVICE MaskedRows masked_load_rows(const EpArgs &a, const MaskedReturn &r, uint32_t &left) {
  MaskedRows rows;
  uint32_t first = __ffs(left) - 1;
#pragma unroll
  for (uint32_t i = 0; i < MASKED_ROWS; i++) {
    rows.valid[i] = left != 0;
    rows.k[i] = rows.valid[i] ? __ffs(left) - 1 : first;
    int32_t row = __shfl_sync(EP_FULL_WARP, r.row, rows.k[i]);
#pragma unroll
    for (uint32_t v = 0; v < MASKED_STEP; v++) rows.data[i][v] = masked_y(a, row, r.column + 512 * v);
    left &= left - 1;
  }
  return rows;
}

/* Sums the unit's rows into one and sends it to the slot of this rank. */
EP_DEVICE bool masked_send_sum(const EpArgs &a, const RankCall &c, const MaskedReturn &r, uint32_t here) {
  float acc[MASKED_STEP][8] = {}, weight = 0;
  for (bool known = false; here != 0; known = true) {
    MaskedRows rows = masked_load_rows(a, r, here);
    if (!known && !masked_wait_weight(a, c, r, &weight)) return false; /* while the first rows load */
#pragma unroll
    for (uint32_t i = 0; i < MASKED_ROWS; i++) {
      float w = __shfl_sync(EP_FULL_WARP, weight, rows.k[i]);
#pragma unroll
      for (uint32_t v = 0; v < MASKED_STEP; v++)
        if (rows.valid[i]) bf16_accumulate(acc[v], rows.data[i][v], w);
    }
  }
  uint8_t *slot = masked_return(a, r.source, c.number, r.token, a.rank);
#pragma unroll
  for (uint32_t v = 0; v < MASKED_STEP; v++)
    if (masked_in_row(r.column + 512 * v)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot + r.column + 512 * v), ep_canonical(bf16_pack(acc[v])));
  return true;
}

/* Sends the unit's rows as they are, each to the slot of its top-k position. */
EP_DEVICE void masked_send_rows(const EpArgs &a, const RankCall &c, const MaskedReturn &r, uint32_t here) {
  while (here != 0) {
    MaskedRows rows = masked_load_rows(a, r, here);
#pragma unroll
    for (uint32_t i = 0; i < MASKED_ROWS; i++) {
      uint8_t *slot = masked_return(a, r.source, c.number, r.token, rows.k[i]);
#pragma unroll
      for (uint32_t v = 0; v < MASKED_STEP; v++)
        if (rows.valid[i] && masked_in_row(r.column + 512 * v))
          st_relaxed_sys(reinterpret_cast<uint4 *>(slot + r.column + 512 * v), ep_canonical(rows.data[i][v]));
    }
  }
}

/* The first loads of a sender, issued together. In a short call it would take too long to
 * load one after the other. The dispatch may be older than the loss of a rank, whose rows then go nowhere. */
struct MaskedAhead {
  uint32_t began, messages; /* lane r: the last call that rank r began, and the number of its messages, 0 if it is lost */
  MaskedRoute route;        /* route of the warp's first unit */
};
EP_DEVICE uint32_t masked_first_unit(const RankCall &c) { return c.warp * c.senders + c.block; }
EP_DEVICE MaskedAhead masked_load_ahead(const EpArgs &a, const RankCall &c) {
  uint32_t began = ep_load_began(a, c), messages = 0;
  MaskedRoute route = masked_load_route(a, c, masked_first_unit(c));
  if (c.lane < EP_RANKS && ep_alive(a, c.lane)) messages = static_cast<uint32_t>(masked_messages(a)[c.lane]);
  return {began, messages <= static_cast<uint32_t>(a.max_tokens) ? messages : 0, route};
}

/* Sends all units of this warp. It loads the route of the next unit while it loads the rows
 * of this unit. */
EP_DEVICE void masked_combine_async(const EpArgs &a, const RankCall &c) {
  MaskedAhead ahead = masked_load_ahead(a, c);
  if (!ep_all_began(a, c, ahead.began)) return;
  if (!EP_DIRECT) masked_send_weights(a, c);
  ep_span_stage(a, EP_STAGE_READY);
  uint32_t unit = masked_first_unit(c), step = c.warps * c.senders;
  uint32_t units = __reduce_max_sync(EP_FULL_WARP, ahead.messages) * MASKED_CHUNKS * EP_RANKS;
  MaskedRoute next = ahead.route;
  for (; unit < units; unit += step) {
    MaskedReturn r = masked_return_unit(a, c, unit, ahead.messages, next);
    next = masked_load_route(a, c, unit + step);
    uint32_t here = __ballot_sync(EP_FULL_WARP, r.row >= 0);
    if (!r.exists || here == 0) continue;
    if (EP_DIRECT) {
      masked_send_rows(a, c, r, here);
    } else if (!masked_send_sum(a, c, r, here)) {
      return;
    }
  }
}

/* ---- receiving ---- */

/* The slots of a token that will be filled: bit i for slot i. A slot belongs to a rank, or
 * with EP_DIRECT to a top-k position. */
EP_DEVICE uint32_t masked_slots_used(uint32_t lane, int32_t id) {
  if (EP_DIRECT) return __ballot_sync(EP_FULL_WARP, id >= 0);
  return __reduce_or_sync(EP_FULL_WARP, id < 0 ? 0u : 1u << (id / EP_LOCAL_EXPERTS));
}

/* Slots of one token at one column, from number `first` on; `slot` is the address of that
 * one. Bit i of used: slot first + i will be filled. */
struct MaskedTerms {
  uint8_t *slot;
  uint32_t first, used;
};
EP_DEVICE uint4 *masked_term(const MaskedTerms &t, uint32_t i) {
  bool exists = MASKED_TERMS % MASKED_BATCH == 0 || t.first + i < MASKED_TERMS; /* the last batch may be short */
  return reinterpret_cast<uint4 *>(t.slot + (exists ? i : 0) * MASKED_ROW);
}

/* Polls a batch of slots together until all have arrived. It also reads slots that are not
 * used, so that there is no branch between the loads. */
EP_DEVICE bool masked_wait_terms(const EpArgs &a, const MaskedTerms &t, int32_t id, uint4 (&data)[MASKED_BATCH]) {
  EpSpin spin;
  for (;;) {
    uint32_t lacks = 0;
#pragma unroll
    for (uint32_t i = 0; i < MASKED_BATCH; i++) data[i] = ld_relaxed_sys(masked_term(t, i));
#pragma unroll
    for (uint32_t i = 0; i < MASKED_BATCH; i++) lacks |= ep_largest(data[i]) == EP_SENTINEL ? 1u << i : 0;
    uint32_t missing = __reduce_or_sync(EP_FULL_WARP, lacks & t.used);
    if (missing == 0) return true;
    int32_t slot = static_cast<int32_t>(t.first) + __ffs(missing) - 1;
    int32_t expert = EP_DIRECT ? __shfl_sync(EP_FULL_WARP, id, slot) : -1;
    int32_t source = EP_DIRECT ? expert / EP_LOCAL_EXPERTS : slot;
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_WAIT, expert, source}, 1, 0)) return false;
  }
}

/* Sums one vector of one token, in the order of slots, and empties the slots. */
EP_DEVICE bool masked_reduce(const EpArgs &a, const RankCall &c, uint32_t token, int32_t id, float weight, uint32_t column) {
  uint32_t used = masked_slots_used(c.lane, id);
  bool inside = masked_in_row(column);
  float acc[8] = {};
  for (uint32_t first = 0; first < MASKED_TERMS; first += MASKED_BATCH) {
    MaskedTerms t = {masked_return(a, a.rank, c.number, token, first) + (inside ? column : 0), first, inside ? used >> first : 0};
    uint4 data[MASKED_BATCH];
    if (!masked_wait_terms(a, t, id, data)) return false;
    ep_span_stage(a, EP_STAGE_ARRIVED);
#pragma unroll
    for (uint32_t i = 0; i < MASKED_BATCH; i++) {
      if (first + i >= MASKED_TERMS || !(used >> (first + i) & 1u)) continue;
      bf16_accumulate(acc, data[i], EP_DIRECT ? __shfl_sync(EP_FULL_WARP, weight, first + i) : 1.0f);
      if (inside) st_relaxed_sys(masked_term(t, i), ep_sentinels());
    }
  }
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(token) * MASKED_ROW;
  if (inside) *reinterpret_cast<uint4 *>(out + column) = bf16_pack(acc);
  return true;
}

EP_DEVICE void masked_combine_wait(const EpArgs &a, const RankCall &c) {
  for (uint32_t u = rank_receiver(c); u < static_cast<uint32_t>(a.tokens) * MASKED_CHUNKS; u += rank_receiving_warps(c)) {
    uint32_t token = u / MASKED_CHUNKS;
    int32_t id = c.lane < EP_TOPK ? ep_id(a, token * EP_TOPK + c.lane) : -1;
    float weight = EP_DIRECT && c.lane < EP_TOPK ? a.weights[token * EP_TOPK + c.lane] : 1.0f;
    for (uint32_t v = 0; v < MASKED_STEP; v++)
      if (!masked_reduce(a, c, token, id, weight, u % MASKED_CHUNKS * EP_UNIT_BYTES + v * 512 + c.lane * 16)) return;
  }
}

/* With mode=split and EP_DIRECT 0 the sender also waits for the weights of this call. A rank sends its weights
 * when it begins the call; the sender occupies its SMs until the last rank has sent them. */
EP_ENTRY(EP_THREADS, 1) EP_SENDER(combine_masked)(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  RankCall c = rank_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  ep_announce(a, c, 0);
  if (!EP_FUSED || rank_sends(c)) masked_combine_async(a, c);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  if (EP_FUSED && rank_receives(c)) masked_combine_wait(a, c);
  ep_span_end(a);
}

#ifdef EP_SPLIT
EP_ENTRY(EP_THREADS, 1) EP_RECEIVER(combine_masked)(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  RankCall c = rank_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  EP_NUMBER_DONE(a, c.number);
  masked_combine_wait(a, c);
  ep_span_end(a);
}
#endif
#endif
