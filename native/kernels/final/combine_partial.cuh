/* The parts of combine_final for own=registers: a rank keeps its own sum in registers, and sends only its sums for
 * other ranks' tokens. See common/partial.cuh. */
#pragma once

/* Adds one step that has arrived, and sends the sum after the last row. A single row is sent as it is. */
EP_DEVICE void fin_partial_step(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here, FinWalk w,
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

EP_DEVICE void fin_send_message(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here) {
  fin_send_ring(a, c, r, here, [&](FinWalk w, const uint4 (&data)[FIN_WIDTH], float (&acc)[FIN_WIDTH][8]) {
    fin_partial_step(a, c, r, here, w, data, acc);
  });
  __syncwarp();
  if (c.lane != 0) return;
  fence_acq_rel_sys();
  st_relaxed_sys(fin_flag(a, r.source, r.token, a.rank), c.number);
}

EP_DEVICE void fin_load_group(const EpArgs &a, const PartialSum &s, PartialGroup &g) {
#pragma unroll
  for (uint32_t i = 0; i < EP_GROUP; i++)
#pragma unroll
    for (uint32_t p = 0; p < EP_PIECES; p++)
      if (partial_has(g.here[i], p)) g.data[i][p] = ld_once(partial_at(a, s, g, i, p));
}

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

EP_DEVICE void fin_combine_wait(const EpArgs &a, const EpCall &c) {
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
