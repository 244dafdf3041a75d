/* Sends a message of combine_final through shared memory, where each warp has a ring buffer of FIN_STAGES steps. A
 * step is FIN_STRIDE bytes of a row. The ring keeps more loads in flight than combine_registers.cuh, where the compiler
 * uses a lane's four vectors of one step before it loads the four of the next. */
#pragma once

#include "final/combine_message.cuh"

static const uint32_t FIN_STAGES = EP_IN_FLIGHT / FIN_WIDTH;

EP_DEVICE uint4 *fin_ring(const EpCall &c, uint32_t stage, uint32_t v) {
  EP_DYNAMIC_SHARED(ring);
  return reinterpret_cast<uint4 *>(ring) + ((c.warp * FIN_STAGES + stage) * FIN_WIDTH + v) * 32 + c.lane;
}
EP_DEVICE void fin_fetch(const EpArgs &a, const EpCall &c, const FinReturn &r, FinWalk w, uint32_t stage) {
  const uint8_t *row = fin_row(a, __shfl_sync(EP_FULL_WARP, r.route, __ffs(w.left) - 1));
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    uint32_t column = w.column + v * 512 + c.lane * 16;
    if (fin_in_row(column)) cp_async16(fin_ring(c, stage, v), row + column);
  }
}

EP_DEVICE void fin_store(uint8_t *slot, uint32_t column, uint4 data) {
  if (fin_in_row(column)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot + column), data);
}

/* Handles one step that has arrived: sends it, or adds it and sends the sum after the last row. */
EP_DEVICE void fin_send_step(const EpArgs &a, const EpCall &c, const FinReturn &r, FinWalk w, const uint4 (&data)[FIN_WIDTH],
                             float (&acc)[FIN_WIDTH][8], bool plain) {
  int k = __ffs(w.left) - 1;
  uint8_t *slot = fin_return(a, r.source, r.token, EP_DIRECT ? k : a.rank);
  uint32_t column = w.column + c.lane * 16;
  float weight = __uint_as_float(static_cast<uint32_t>(__shfl_sync(EP_FULL_WARP, r.route, k) >> 32));
  bool last = EP_DIRECT || (w.left & (w.left - 1)) == 0;
  if (!EP_DIRECT) fin_add_row(acc, data, weight, plain);
  if (!last) return;
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    fin_store(slot, column + v * 512, EP_DIRECT ? data[v] : bf16_pack(acc[v]));
#pragma unroll
    for (int i = 0; i < 8; i++) acc[v][i] = 0;
  }
}

/* Calls `step` with one piece after the other: FIN_STRIDE bytes of one row of a message. The pieces begin at byte
 * `column` of the rows, and each row has `strides` pieces. fin_step gives the order. */
template <class Step>
EP_DEVICE void fin_walk_ring(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here, uint32_t column, uint32_t strides, Step step) {
  const uint32_t steps = __popc(here) * strides;
  FinWalk ahead = {here, column}, at = ahead;
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
    step(at, data, acc);
    at = fin_step(at, here);
  }
}
EP_DEVICE void fin_send_terms(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here) {
  const bool plain = fin_plain(r);
  fin_walk_ring(a, c, r, here, 0, FIN_STEPS, [&](FinWalk w, const uint4 (&data)[FIN_WIDTH], float (&acc)[FIN_WIDTH][8]) {
    fin_send_step(a, c, r, w, data, acc, plain);
  });
}
