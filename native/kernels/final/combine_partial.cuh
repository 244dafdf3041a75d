/* combine_final_partial is a combine for large batches in which ranks send only partial sums,
 * see common/partial.cuh. It uses the same tickets, flags and ring of loads as
 * combine_final, and calls of both kernels may follow each other.
 *
 * Compile-time: EP_IN_FLIGHT, number of vectors that a sending lane has in flight to shared
 * memory, at least those of one step.
 */
#define EP_DIRECT 0
#include "common/partial.cuh"
#include "final/combine_slots.cuh"

/* ---- sending ---- */

/* Message i, for one token of another rank. */
EP_DEVICE FinReturn fin_load_peer(const EpArgs &a, const FinCall &c, uint32_t i, uint32_t all) {
  FinReturn r;
  r.source = (static_cast<uint32_t>(a.rank) + 1 + i % EP_PEERS) % EP_RANKS;
  r.token = i / EP_PEERS;
  r.route = FIN_NOWHERE;
  if (i < all && c.lane < EP_TOPK && r.token < fin_tokens(a)[r.source])
    r.route = fin_words(a, a.rank, FIN_ROUTE, r.source, r.token)[c.lane];
  return r;
}

/* Adds one step that has arrived, and sends the sum after the last row. If a message has
 * one row, that row is sent as it is. */
EP_DEVICE void fin_partial_step(const EpArgs &a, const FinCall &c, const FinReturn &r, uint32_t here, FinWalk w,
                                const uint4 (&data)[FIN_WIDTH], float (&acc)[FIN_WIDTH][8]) {
  uint32_t weight = __shfl_sync(EP_FULL_WARP, static_cast<uint32_t>(r.route >> 32), __ffs(w.left) - 1);
  bool raw = EP_F32_SUMS && partial_alone(here), last = partial_alone(w.left);
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    bf16_accumulate(acc[v], data[v], __uint_as_float(weight));
    if (!last) continue;
    uint32_t column = w.column + c.lane * 16 + v * 512;
#pragma unroll
    for (uint32_t p = 0; p < EP_PIECES; p++)
      if (p == 0 || !raw)
        fin_store(fin_return(a, r.source, r.token, partial_slot(a.rank, here, p)), column, raw ? data[v] : partial_pack(acc[v], p));
#pragma unroll
    for (int i = 0; i < 8; i++) acc[v][i] = 0;
  }
}

EP_DEVICE void fin_send_partial(const EpArgs &a, const FinCall &c, const FinReturn &r, uint32_t here) {
  const uint32_t steps = __popc(here) * FIN_STEPS;
  FinWalk ahead = {here, 0}, at = ahead;
  float acc[FIN_WIDTH][8] = {};
  for (uint32_t i = 0; i < steps + FIN_STAGES - 1; i++) {
    if (i < steps) {
      fin_fetch(a, c, r, ahead, i % FIN_STAGES);
      ahead = fin_step(ahead, here);
    }
    cp_async_commit();
    if (i < FIN_STAGES - 1) continue;
    cp_async_wait<FIN_STAGES - 1>();
    uint4 data[FIN_WIDTH];
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) data[v] = *fin_ring(c, (i + 1) % FIN_STAGES, v);
    fin_partial_step(a, c, r, here, at, data, acc);
    at = fin_step(at, here);
  }
  __syncwarp();
  if (c.lane != 0) return;
  fence_acq_rel_sys();
  st_relaxed_sys(fin_flag(a, r.source, r.token, a.rank), c.number);
}

/* Draws tickets and sends their messages, as fin_combine_async does. A warp draws its first
 * two tickets together. While it sends one message, it already has the ticket of the next. */
EP_DEVICE void fin_partial_async(const EpArgs &a, const FinCall &c) {
  uint32_t *tickets = reinterpret_cast<uint32_t *>(a.counters) + FIN_TICKETS + (c.number & 1);
  bool peer = c.lane < EP_RANKS && c.lane != static_cast<uint32_t>(a.rank);
  uint32_t all = __reduce_max_sync(EP_FULL_WARP, peer ? fin_tokens(a)[c.lane] : 0) * EP_PEERS;
  if (!fin_wait_started(a, c)) return;
  ep_span_stage(a, EP_STAGE_READY);
  uint32_t drawn = c.lane == 0 ? add_relaxed_gpu(tickets, 2u) : 0;
  uint32_t i = __shfl_sync(EP_FULL_WARP, drawn, 0), after = i + 1;
  FinReturn r = fin_load_peer(a, c, i, all);
  while (i < all) {
    drawn = c.lane == 0 ? add_relaxed_gpu(tickets, 1u) : 0;
    FinReturn next = fin_load_peer(a, c, after, all);
    fin_prefetch(a, next);
    uint32_t here = fin_here(r);
    if (here != 0) fin_send_partial(a, c, r, here);
    r = next;
    i = after;
    after = __shfl_sync(EP_FULL_WARP, drawn, 0);
  }
  ep_span_stage(a, EP_STAGE_SENT);
}

/* ---- receiving ---- */

/* Loads the sums that the ranks of a group sent; all loads are in flight together. */
EP_DEVICE void fin_load_group(const EpArgs &a, const PartialSum &s, PartialGroup &g) {
#pragma unroll
  for (uint32_t i = 0; i < EP_GROUP; i++)
#pragma unroll
    for (uint32_t p = 0; p < EP_PIECES; p++)
      if (partial_has(g.here[i], p)) g.data[i][p] = ld_once(partial_at(a, s, g, i, p));
}

/* Sums one vector of the output, all of whose terms have arrived. */
EP_DEVICE void fin_partial_vector(const EpArgs &a, uint32_t token, PartialSum s, uint64_t route, uint32_t column) {
  bool inside = column < FIN_ROW_BYTES;
  uint32_t here = __ballot_sync(EP_FULL_WARP, static_cast<uint32_t>(route) != FIN_NOWHERE);
  s.slots = fin_return(a, a.rank, token, 0) + (inside ? column : 0);
  for (uint32_t first = 0; first < EP_PEERS; first += EP_GROUP) {
    PartialGroup g = partial_group(a, s, first);
    fin_load_group(a, s, g);
    if (first == 0) partial_sum(a, route, inside ? column : 0, here, s.own);
    if (first == 0 && !EP_F32_SUMS) bf16_unpack(bf16_pack(s.own), s.own); /* rounded like the sums of other ranks */
    partial_add_group(a, s, g);
  }
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(token) * FIN_ROW_BYTES;
  uint4 sum = partial_finish(a, s);
  if (inside) *reinterpret_cast<uint4 *>(out + column) = sum;
}

EP_DEVICE void fin_partial_wait(const EpArgs &a, const FinCall &c) {
  uint32_t units = static_cast<uint32_t>(a.tokens) * FIN_UNITS;
  for (uint32_t u = fin_receiver(c); u < units; u += fin_receiving_warps(c)) {
    uint32_t token = u / FIN_UNITS, at = token * EP_TOPK + c.lane;
    bool mine = c.lane < EP_TOPK;
    int32_t id = mine ? a.topk_ids[at] : -1;
    PartialSum s = {};
    s.rank = id < 0 ? EP_RANKS : static_cast<uint32_t>(id) / EP_LOCAL_EXPERTS;
    s.weight = EP_F32_SUMS && mine ? a.weights[at] : 0.0f;
    uint64_t route = mine ? fin_words(a, a.rank, FIN_ROUTE, a.rank, token)[c.lane] : FIN_NOWHERE;
    uint32_t used = fin_slots_used(c.lane, id) & ~(1u << a.rank);
    if (!fin_wait_slots(a, c, token, used, id)) return;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    for (uint32_t v = 0; v < FIN_UNIT; v += 512) fin_partial_vector(a, token, s, route, u % FIN_UNITS * FIN_UNIT + v + c.lane * 16);
  }
}

EP_ENTRY(EP_THREADS, 1) combine_final_partial(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  FinCall c = fin_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  fin_announce(a, c);
  if (fin_sends(c)) fin_partial_async(a, c);
  EP_NUMBER_DONE(a, c.number);
  if (fin_receives(c)) fin_partial_wait(a, c);
  ep_span_end(a);
}
