/* combine_final: brings the experts' rows back to their tokens, large batches.
 * Blocks below `senders` take messages by ticket, the others sum what came.
 *
 * Compile-time: EP_DIRECT 0: a message is the weighted sum, in f32, of a
 * token's rows on this rank, rounded to BF16; 1: each row travels alone and
 * the sum is in top-k order, bit for bit that of combine without
 * pre-reduction.
 */
#include "final/layout.cuh"

static const uint32_t FIN_ROW_BYTES = 2 * EP_HIDDEN;
static const uint32_t FIN_WIDTH = EP_THREADS > 768 ? 2 : 4; /* vectors of a lane loaded together */
static const uint32_t FIN_STRIDE = 32 * 16 * FIN_WIDTH;     /* bytes of a row that a warp loads together */
static const uint32_t FIN_TERMS = EP_DIRECT ? EP_TOPK : EP_RANKS;
static const uint32_t FIN_BATCH = FIN_TERMS < 8 ? FIN_TERMS : 8; /* slots read together by a reducer */
static const uint32_t FIN_UNIT = 2048;                           /* bytes of a token that a reducing warp sums */
static const uint32_t FIN_UNITS = (FIN_ROW_BYTES + FIN_UNIT - 1) / FIN_UNIT;

EP_DEVICE bool fin_in_row(uint32_t column) { return FIN_ROW_BYTES % FIN_STRIDE == 0 || column < FIN_ROW_BYTES; }

/* acc += weight * v, product and sum rounded apart as in the specification. */
EP_DEVICE void fin_add(float (&acc)[8], uint4 v, float weight) {
  float x[8];
  bf16_unpack(v, x);
#pragma unroll
  for (int i = 0; i < 8; i++) acc[i] = __fadd_rn(acc[i], __fmul_rn(weight, x[i]));
}

/* ---- sending ---- */

/* Return slots are used again in every call: a rank that began this call has
 * read those of the last one. Every sending warp looks for itself. */
EP_DEVICE bool fin_wait_started(const EpArgs &a, const FinCall &c) {
  const uint32_t *p = fin_started(a, a.rank) + (c.lane < EP_RANKS ? c.lane : 0);
  EpSpin spin;
  for (;;) {
    uint32_t began = ld_acquire_sys(p);
    uint32_t missing = __ballot_sync(EP_FULL_WARP, static_cast<int32_t>(began - c.number) < 0);
    __syncwarp();
    if (missing == 0) return true;
    if (!fin_again(spin, a, {EP_PHASE_COMBINE_ASYNC, -1, __ffs(missing) - 1}, c.number, began)) return false;
  }
}

/* Message i: what one token of one source gets back from this rank. Those that
 * follow each other go to different ranks, each rank starting behind its own
 * number. */
struct FinReturn {
  uint32_t source, token;
  uint64_t route; /* lane k: route word of top-k position k */
};
EP_DEVICE FinReturn fin_load_return(const EpArgs &a, const FinCall &c, uint32_t i, uint32_t all) {
  FinReturn r;
  r.source = (i + static_cast<uint32_t>(a.rank) + 1) % EP_RANKS;
  r.token = i / EP_RANKS;
  r.route = FIN_NOWHERE;
  if (i < all && c.lane < EP_TOPK && r.token < fin_tokens(a)[r.source])
    r.route = fin_words(a, a.rank, FIN_ROUTE, r.source, r.token)[c.lane];
  return r;
}
EP_DEVICE uint32_t fin_here(const FinReturn &r) {
  return __ballot_sync(EP_FULL_WARP, static_cast<uint32_t>(r.route) != FIN_NOWHERE);
}
EP_DEVICE const uint8_t *fin_row(const EpArgs &a, uint64_t route) {
  return reinterpret_cast<const uint8_t *>(a.y) + (route & 0xffffffffu) * FIN_ROW_BYTES;
}

/* The rows of the message after this one, into L2: each lane asks for one. */
EP_DEVICE void fin_prefetch(const EpArgs &a, const FinReturn &r) {
  if (static_cast<uint32_t>(r.route) != FIN_NOWHERE) prefetch_l2(fin_row(a, r.route), FIN_ROW_BYTES);
}

/* FIN_WIDTH vectors of one row. */
struct FinPiece {
  uint4 data[FIN_WIDTH];
};
EP_DEVICE FinPiece fin_load_piece(const uint8_t *row, uint32_t column) {
  FinPiece p;
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    uint32_t at = column + v * 512;
    p.data[v] = make_uint4(0, 0, 0, 0);
    if (fin_in_row(at)) p.data[v] = ld_readonly(reinterpret_cast<const uint4 *>(row + at));
  }
  return p;
}
EP_DEVICE void fin_store_piece(uint8_t *row, uint32_t column, const FinPiece &p) {
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++)
    if (fin_in_row(column + v * 512)) st_relaxed_sys(reinterpret_cast<uint4 *>(row + column + v * 512), p.data[v]);
}

/* Walks over the pieces of a message: all its rows at one column, then the
 * next column. */
struct FinWalk {
  uint32_t left, column; /* rows to come at this column, this one included */
};
EP_DEVICE FinWalk fin_step(FinWalk w, uint32_t here) {
  w.left &= w.left - 1;
  if (w.left == 0) w = {here, w.column + FIN_STRIDE};
  return w;
}
EP_DEVICE FinPiece fin_load_at(const EpArgs &a, const FinReturn &r, FinWalk w, uint64_t *route) {
  *route = __shfl_sync(EP_FULL_WARP, r.route, __ffs(w.left) - 1);
  return fin_load_piece(fin_row(a, *route), w.column);
}

/* Sends the sum of the message's rows. The next piece is always in flight
 * while one is added. */
EP_DEVICE void fin_send_sum(const EpArgs &a, const FinCall &c, const FinReturn &r, uint32_t here) {
  uint8_t *slot = fin_return(a, r.source, r.token, a.rank);
  float acc[FIN_WIDTH][8] = {};
  uint64_t route, next_route;
  FinWalk walk = {here, c.lane * 16};
  FinPiece next = fin_load_at(a, r, walk, &next_route);
  const uint32_t pieces = __popc(here) * ((FIN_ROW_BYTES + FIN_STRIDE - 1) / FIN_STRIDE);
  for (uint32_t i = 0; i < pieces; i++) {
    FinPiece piece = next;
    FinWalk at = walk;
    route = next_route;
    walk = fin_step(walk, here);
    if (i + 1 < pieces) next = fin_load_at(a, r, walk, &next_route);
    float weight = __uint_as_float(static_cast<uint32_t>(route >> 32));
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) fin_add(acc[v], piece.data[v], weight);
    if ((at.left & (at.left - 1)) != 0) continue;
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) {
      piece.data[v] = bf16_pack(acc[v]);
#pragma unroll
      for (int j = 0; j < 8; j++) acc[v][j] = 0;
    }
    fin_store_piece(slot, at.column, piece);
  }
}

/* Sends the message's rows as they are. */
EP_DEVICE void fin_send_rows(const EpArgs &a, const FinCall &c, const FinReturn &r, uint32_t here) {
  for (uint32_t left = here; left != 0; left &= left - 1) {
    int k = __ffs(left) - 1;
    const uint8_t *row = fin_row(a, __shfl_sync(EP_FULL_WARP, r.route, k));
    uint8_t *slot = fin_return(a, r.source, r.token, k);
    FinPiece next = fin_load_piece(row, c.lane * 16);
    for (uint32_t first = 0; first < FIN_ROW_BYTES; first += FIN_STRIDE) {
      FinPiece piece = next;
      uint32_t column = first + c.lane * 16;
      if (first + FIN_STRIDE < FIN_ROW_BYTES) next = fin_load_piece(row, column + FIN_STRIDE);
      fin_store_piece(slot, column, piece);
    }
  }
}

/* One release a message: batching them leaves reducers idle. */
EP_DEVICE void fin_send_message(const EpArgs &a, const FinCall &c, const FinReturn &r, uint32_t here) {
  if (EP_DIRECT) {
    fin_send_rows(a, c, r, here);
  } else {
    fin_send_sum(a, c, r, here);
  }
  __syncwarp();
  bool signals = EP_DIRECT ? (here >> c.lane & 1u) != 0 : c.lane == 0;
  if (!signals) return;
  fence_acq_rel_sys();
  st_relaxed_sys(fin_flag(a, r.source, r.token, EP_DIRECT ? c.lane : a.rank), c.number);
}

/* Dynamic tickets: a static deal leaves a partly filled last round. While one
 * message is sent, the next one's rows come to L2 and the ticket after that
 * is drawn. */
EP_DEVICE void fin_combine_async(const EpArgs &a, const FinCall &c) {
  uint32_t *tickets = reinterpret_cast<uint32_t *>(a.counters) + FIN_TICKETS + (c.number & 1);
  uint32_t most = __reduce_max_sync(EP_FULL_WARP, c.lane < EP_RANKS ? fin_tokens(a)[c.lane] : 0), all = most * EP_RANKS;
  if (!fin_wait_started(a, c)) return;
  /* Two at once: drawn one by one, the second could be the smaller, and would
   * be lost when the first lies behind the end. */
  uint32_t drawn = c.lane == 0 ? add_relaxed_gpu(tickets, 2u) : 0;
  uint32_t i = __shfl_sync(EP_FULL_WARP, drawn, 0), after = i + 1;
  FinReturn r = fin_load_return(a, c, i, all);
  while (i < all) {
    drawn = c.lane == 0 ? add_relaxed_gpu(tickets, 1u) : 0;
    FinReturn next = fin_load_return(a, c, after, all);
    fin_prefetch(a, next);
    uint32_t here = fin_here(r);
    if (here != 0) fin_send_message(a, c, r, here);
    r = next;
    i = after;
    after = __shfl_sync(EP_FULL_WARP, drawn, 0);
  }
}

/* ---- receiving ---- */

/* Slots of a token that somebody fills: by rank, or by top-k position. */
EP_DEVICE uint32_t fin_slots_used(uint32_t lane, int32_t id) {
  if (EP_DIRECT) return __ballot_sync(EP_FULL_WARP, id >= 0);
  return __reduce_or_sync(EP_FULL_WARP, id < 0 ? 0u : 1u << (id / EP_LOCAL_EXPERTS));
}

/* Lane i watches slot i. */
EP_DEVICE bool fin_wait_slots(const EpArgs &a, const FinCall &c, uint32_t token, uint32_t used, int32_t id) {
  const uint32_t *flag = fin_flag(a, a.rank, token, c.lane < FIN_SLOTS ? c.lane : 0);
  bool mine = (used >> c.lane & 1u) != 0;
  EpSpin spin;
  for (;;) {
    uint32_t seen = mine ? ld_acquire_sys(flag) : c.number;
    uint32_t missing = __ballot_sync(EP_FULL_WARP, seen != c.number);
    __syncwarp();
    if (missing == 0) return true;
    int slot = __ffs(missing) - 1;
    int32_t expert = EP_DIRECT ? __shfl_sync(EP_FULL_WARP, id, slot) : -1;
    int32_t source = EP_DIRECT ? expert / EP_LOCAL_EXPERTS : slot;
    if (!fin_again(spin, a, {EP_PHASE_COMBINE_WAIT, expert, source}, c.number, seen)) return false;
  }
}

/* One vector of the output: its terms are all there. */
EP_DEVICE void fin_reduce_vector(const EpArgs &a, uint32_t token, uint32_t used, float weight, uint32_t column) {
  float acc[8] = {};
  for (uint32_t first = 0; first < FIN_TERMS; first += FIN_BATCH) {
    uint4 data[FIN_BATCH];
#pragma unroll
    for (uint32_t i = 0; i < FIN_BATCH; i++)
      if (first + i < FIN_TERMS && (used >> (first + i) & 1u) && column < FIN_ROW_BYTES)
        data[i] = ld_once(reinterpret_cast<const uint4 *>(fin_return(a, a.rank, token, first + i) + column));
#pragma unroll
    for (uint32_t i = 0; i < FIN_BATCH; i++) {
      if (first + i >= FIN_TERMS || !(used >> (first + i) & 1u)) continue;
      fin_add(acc, data[i], EP_DIRECT ? __shfl_sync(EP_FULL_WARP, weight, first + i) : 1.0f);
    }
  }
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(token) * FIN_ROW_BYTES;
  if (column < FIN_ROW_BYTES) *reinterpret_cast<uint4 *>(out + column) = bf16_pack(acc);
}

EP_DEVICE void fin_combine_wait(const EpArgs &a, const FinCall &c) {
  uint32_t units = static_cast<uint32_t>(a.tokens) * FIN_UNITS;
  for (uint32_t u = fin_receiver(c); u < units; u += fin_receiving_warps(c)) {
    uint32_t token = u / FIN_UNITS, at = token * EP_TOPK + c.lane;
    int32_t id = c.lane < EP_TOPK ? a.topk_ids[at] : -1;
    float weight = EP_DIRECT && c.lane < EP_TOPK ? a.weights[at] : 1.0f;
    uint32_t used = fin_slots_used(c.lane, id);
    if (!fin_wait_slots(a, c, token, used, id)) return;
    for (uint32_t v = 0; v < FIN_UNIT; v += 512)
      fin_reduce_vector(a, token, used, weight, u % FIN_UNITS * FIN_UNIT + v + c.lane * 16);
  }
}

/* Tells every rank that this one began the call, and makes the other set of
 * tickets ready for the next. */
EP_DEVICE void fin_announce(const EpArgs &a, const FinCall &c) {
  if (c.block != 0 || c.warp != 0) return;
  if (c.lane < EP_RANKS) st_release_sys(fin_started(a, c.lane) + a.rank, c.number);
  if (c.lane == 0) a.counters[FIN_TICKETS + ((c.number + 1) & 1)] = 0;
}

EP_ENTRY(EP_THREADS, 1) combine_final(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  FinCall c = fin_call(a);
  fin_announce(a, c);
  if (fin_sends(c)) fin_combine_async(a, c);
  if (fin_receives(c)) fin_combine_wait(a, c);
  ep_span_end(a);
}
