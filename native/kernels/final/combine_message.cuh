/* A message of combine_final: the row or rows that are sent back to one token from one rank. */
#pragma once

#include "final/layout.cuh"

static const uint32_t FIN_ROW_BYTES = 2 * EP_HIDDEN;
/* Vectors of a lane in one step. With EP_TEAMS, a team's adding warps divide a row into equal parts of at most seven
 * vectors a lane. */
#ifdef EP_TEAMS
static const uint32_t FIN_PARTS = (FIN_ROW_BYTES + 3583) / 3584;
static const uint32_t FIN_WIDTH = (FIN_ROW_BYTES + 512 * FIN_PARTS - 1) / (512 * FIN_PARTS);
#else
static const uint32_t FIN_WIDTH = EP_THREADS > 768 ? 2 : 4;
#endif
static const uint32_t FIN_STRIDE = 32 * 16 * FIN_WIDTH; /* bytes of a row that a warp handles in one step */
static const uint32_t FIN_STEPS = (FIN_ROW_BYTES + FIN_STRIDE - 1) / FIN_STRIDE;

/* FIN_PEERS is true if a rank sends no messages to itself. */
#ifdef EP_PARTIAL
static const bool FIN_PEERS = true;
#else
static const bool FIN_PEERS = false;
#endif
static const uint32_t FIN_SOURCES = EP_RANKS - FIN_PEERS;

EP_DEVICE bool fin_in_row(uint32_t column) { return FIN_ROW_BYTES % FIN_STRIDE == 0 || column < FIN_ROW_BYTES; }

/* The rows that this rank sends back to one token of rank `source`. Messages with consecutive numbers go to
 * different ranks. The first message goes to the rank after this one. */
struct FinReturn {
  uint32_t source, token;
  uint64_t route; /* lane k, for top-k position k: weight << 32 | row; FIN_NOWHERE if the row is not on this rank */
};
EP_DEVICE FinReturn fin_load_return(const EpArgs &a, const EpCall &c, uint32_t i, uint32_t all) {
  FinReturn r;
  r.source = (i + static_cast<uint32_t>(a.rank) + 1) % EP_RANKS;
  if (FIN_PEERS) r.source = (static_cast<uint32_t>(a.rank) + 1 + i % FIN_SOURCES) % EP_RANKS;
  r.token = i / FIN_SOURCES;
  r.route = FIN_NOWHERE;
  if (i < all && c.lane < EP_TOPK && r.token < fin_tokens(a)[r.source])
    r.route = fin_words(a, a.rank, FIN_ROUTE, r.source, r.token)[c.lane];
  return r;
}
/* Returns a bit for each top-k position that has a row in the message. */
EP_DEVICE uint32_t fin_here(const FinReturn &r) {
  return __ballot_sync(EP_FULL_WARP, static_cast<uint32_t>(r.route) != FIN_NOWHERE);
}
EP_DEVICE const uint8_t *fin_row(const EpArgs &a, uint64_t route) {
  return reinterpret_cast<const uint8_t *>(a.y) + (route & 0xffffffffu) * FIN_ROW_BYTES;
}

/* Returns true if all weights are 1, as in a call without router weights. fin_add_row then leaves out
 * the multiplication by weights, which changes no bit of the sums. */
EP_DEVICE bool fin_plain(const FinReturn &r) {
  const bool one = static_cast<uint32_t>(r.route >> 32) == __float_as_uint(1.0f);
  return __all_sync(EP_FULL_WARP, one || static_cast<uint32_t>(r.route) == FIN_NOWHERE);
}
EP_DEVICE void fin_add_row(float (&acc)[FIN_WIDTH][8], const uint4 (&data)[FIN_WIDTH], float weight, bool plain) {
  if (!plain) {
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) bf16_accumulate(acc[v], data[v], weight);
    return;
  }
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    float x[8];
    bf16_unpack(data[v], x);
#pragma unroll
    for (int i = 0; i < 8; i++) acc[v][i] = __fadd_rn(acc[v][i], x[i]);
  }
}

/* A position in a message: a bit for each row still to visit, and the byte column. For a sum, all rows are visited
 * at one column, then at the next. Without a sum, rows are sent one after the other. */
struct FinWalk {
  uint32_t left, column;
};
EP_DEVICE FinWalk fin_step(FinWalk w, uint32_t here) {
  if (EP_DIRECT) {
    w.column += FIN_STRIDE;
    return w.column < FIN_ROW_BYTES ? w : FinWalk{w.left & (w.left - 1), 0};
  }
  w.left &= w.left - 1;
  return w.left != 0 ? w : FinWalk{here, w.column + FIN_STRIDE};
}
