/* Functions of combine_final for the parameter own=registers. For a token of another rank, a rank sends the sum of the
 * token's rows. For a token of its own, it keeps this sum in registers. See common/partial.cuh. */
#pragma once

/* Adds one step (FIN_STRIDE bytes of a row) that has arrived in shared memory. After the last row, sends the sum. With
 * EP_F32_SUMS a sum takes two slots, but a row only one. So if the token has only one row here, the row is sent
 * unchanged, and the receiver multiplies it by the router weight. */
EP_DEVICE void fin_partial_step(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here, FinWalk w,
                                const uint4 (&data)[FIN_WIDTH], float (&acc)[FIN_WIDTH][8], bool plain) {
  uint32_t weight = __shfl_sync(EP_FULL_WARP, static_cast<uint32_t>(r.route >> 32), __ffs(w.left) - 1);
  bool raw = EP_F32_SUMS && partial_alone(here), last = partial_alone(w.left);
  fin_add_row(acc, data, __uint_as_float(weight), plain);
  if (!last) return;
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
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
  const bool plain = fin_plain(r);
  fin_walk_ring(a, c, r, here, 0, FIN_STEPS, [&](FinWalk w, const uint4 (&data)[FIN_WIDTH], float (&acc)[FIN_WIDTH][8]) {
    fin_partial_step(a, c, r, here, w, data, acc, plain);
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

/* The number of output vectors in a batch. A thread first loads what EP_GROUP ranks have sent for these vectors, and
 * then adds it. */
static const uint32_t FIN_BATCH = EP_GROUP * EP_PIECES > 2 ? 1 : FIN_WIDTH / (EP_GROUP * EP_PIECES);

/* Writes FIN_STRIDE bytes of a token's output, from byte `first` on. Each value is the sum of this rank's value in
 * `own` and of what other ranks have sent. Then `own` is zeroed. */
EP_DEVICE void fin_finish(const EpArgs &a, const EpCall &c, uint32_t token, PartialSum s, uint32_t first, float (&own)[FIN_WIDTH][8]) {
#pragma unroll
  for (uint32_t batch = 0; batch < FIN_WIDTH; batch += FIN_BATCH) {
    PartialGroup g[FIN_BATCH];
    auto column = [&](uint32_t v) { return first + c.lane * 16 + (batch + v) * 512; };
    auto load = [&](uint32_t v, uint32_t rank) {
      s.slots = fin_return(a, a.rank, token, 0) + (fin_in_row(column(v)) ? column(v) : 0);
      g[v] = partial_group(a, s, rank);
      fin_load_group(a, s, g[v]);
    };
#pragma unroll
    for (uint32_t v = 0; v < FIN_BATCH; v++) load(v, 0);
#pragma unroll
    for (uint32_t v = 0; v < FIN_BATCH; v++) {
#pragma unroll
      for (int i = 0; i < 8; i++) {
        s.own[i] = own[batch + v][i];
        own[batch + v][i] = s.acc[i] = 0;
      }
      if (!EP_F32_SUMS) bf16_unpack(bf16_pack(s.own), s.own); /* rounded like the sums that other ranks send */
      partial_add_group(a, s, g[v]);
      for (uint32_t rank = EP_GROUP; rank < EP_PEERS; rank += EP_GROUP) {
        load(v, rank);
        partial_add_group(a, s, g[v]);
      }
      uint8_t *out = reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(token) * FIN_ROW_BYTES;
      const uint4 sum = partial_finish(a, s);
      if (fin_in_row(column(v))) *reinterpret_cast<uint4 *>(out + column(v)) = sum;
    }
  }
}

/* Computes `strides` * FIN_STRIDE bytes of a token's output, from byte `column` on. This rank's rows go through the
 * ring in shared memory (final/combine_ring.cuh), like the rows of a message. */
EP_DEVICE void fin_sum_part(const EpArgs &a, const EpCall &c, const FinReturn &r, const PartialSum &s, uint32_t column, uint32_t strides) {
  const uint32_t here = fin_here(r);
  const bool plain = fin_plain(r);
  float none[FIN_WIDTH][8] = {};
  for (uint32_t i = 0; here == 0 && i < strides; i++) fin_finish(a, c, r.token, s, column + i * FIN_STRIDE, none);
  fin_walk_ring(a, c, r, here, column, strides, [&](FinWalk w, const uint4 (&data)[FIN_WIDTH], float (&acc)[FIN_WIDTH][8]) {
    const uint32_t weight = __shfl_sync(EP_FULL_WARP, static_cast<uint32_t>(r.route >> 32), __ffs(w.left) - 1);
    fin_add_row(acc, data, __uint_as_float(weight), plain);
    if (partial_alone(w.left)) fin_finish(a, c, r.token, s, w.column, acc);
  });
}

/* Returns how many strides (FIN_STRIDE bytes) of a row a warp sums at a time. With few tokens it returns fewer, so that
 * more warps share a row and all have work. */
EP_DEVICE uint32_t fin_strides(uint32_t tokens, uint32_t warps) {
  uint32_t parts = 1;
  while (parts < FIN_STEPS && tokens * parts < 8 * warps) parts *= 2;
  return (FIN_STEPS + parts - 1) / parts;
}

EP_DEVICE void fin_combine_wait(const EpArgs &a, const EpCall &c) {
  const uint32_t tokens = static_cast<uint32_t>(a.tokens), strides = fin_strides(tokens, fin_receiving_warps(c));
  const uint32_t parts = (FIN_STEPS + strides - 1) / strides;
  for (uint32_t u = fin_receiver(c); u < tokens * parts; u += fin_receiving_warps(c)) {
    uint32_t token = u / parts, first = u % parts * strides, at = token * EP_TOPK + c.lane;
    bool mine = c.lane < EP_TOPK;
    int32_t id = mine ? ep_id(a, at) : -1;
    PartialSum s = {};
    s.rank = id < 0 ? EP_RANKS : static_cast<uint32_t>(id) / EP_LOCAL_EXPERTS;
    s.weight = EP_F32_SUMS && mine ? a.weights[at] : 0.0f;
    FinReturn r = {static_cast<uint32_t>(a.rank), token, mine ? fin_words(a, a.rank, FIN_ROUTE, a.rank, token)[c.lane] : FIN_NOWHERE};
    uint32_t used = fin_slots_used(c.lane, id) & ~(1u << a.rank);
    if (!fin_wait_slots(a, c, token, used, id)) return;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    fin_sum_part(a, c, r, s, first * FIN_STRIDE, min(strides, FIN_STEPS - first));
  }
}
