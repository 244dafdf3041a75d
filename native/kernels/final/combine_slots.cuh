/* Functions of combine_final for the parameter own=slot, with which a rank sends messages to itself too. With
 * EP_DIRECT 0 a message is the weighted f32 sum of a token's rows on this rank, rounded to BF16. With EP_DIRECT 1 each
 * row is a message, and the receiver sums rows in top-k order. */
#pragma once

static const uint32_t FIN_TERMS = EP_DIRECT ? EP_TOPK : EP_RANKS;
static const uint32_t FIN_BATCH = FIN_TERMS < 8 ? FIN_TERMS : 8; /* slots that a summing warp reads together */

/* Sends a message and releases it at once, so that the summing blocks always have work. */
EP_DEVICE void fin_send_message(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here) {
  fin_send_terms(a, c, r, here);
  __syncwarp();
  bool signals = EP_DIRECT ? (here >> c.lane & 1u) != 0 : c.lane == 0;
  if (!signals) return;
  fence_acq_rel_sys();
  st_relaxed_sys(fin_flag(a, r.source, r.token, EP_DIRECT ? c.lane : a.rank), c.number);
}

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
      bf16_accumulate(acc, data[i], EP_DIRECT ? __shfl_sync(EP_FULL_WARP, weight, first + i) : 1.0f);
    }
  }
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(token) * FIN_ROW_BYTES;
  if (column < FIN_ROW_BYTES) *reinterpret_cast<uint4 *>(out + column) = bf16_pack(acc);
}

EP_DEVICE void fin_combine_wait(const EpArgs &a, const EpCall &c) {
  uint32_t units = static_cast<uint32_t>(a.tokens) * FIN_UNITS;
  for (uint32_t u = fin_receiver(c); u < units; u += fin_receiving_warps(c)) {
    uint32_t token = u / FIN_UNITS, at = token * EP_TOPK + c.lane;
    int32_t id = c.lane < EP_TOPK ? ep_id(a, at) : -1;
    float weight = EP_DIRECT && c.lane < EP_TOPK ? a.weights[at] : 1.0f;
    uint32_t used = fin_slots_used(c.lane, id);
    if (!fin_wait_slots(a, c, token, used, id)) return;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    for (uint32_t v = 0; v < FIN_UNIT; v += 512)
      fin_reduce_vector(a, token, used, weight, u % FIN_UNITS * FIN_UNIT + v + c.lane * 16);
  }
}
