/* The memory of the final-placement kernels, for large batches. Dispatch exchanges all counts first, so every
 * sender knows the output row of each token and stores the token there. With algo=dedup the sender stores only the
 * first row of a token on a rank, and the receiver copies it to the rows of the token's other experts there. A
 * header, stored after the data and a fence, says that a token has arrived.
 *
 * No barrier is needed between calls. A rank stores data on another rank only after a word of the same call has
 * arrived from there: the counts in dispatch, the start word in combine. */
#pragma once

#include "common/call.cuh"
#include "common/token.cuh"

/* Regions of the state, in the order of kernels/cuda/declare/final.go. R is the number of ranks, T max_tokens, K
 * top-k, E the number of experts, H hidden. "own": only this rank writes it. "All ones", "Zeroed": contents before
 * the first call. */
enum FinRegion {
  FIN_COUNTS,  /* [2][R source][E + 1] u64: call << 32 | rows; the last word has the tokens. Zeroed */
  FIN_PLACES,  /* [T][K] u32: a row's position among its expert's rows from the same sending block; own */
  FIN_HEADERS, /* [R source][T][K] u64: weight << 32 | row, or FIN_NOWHERE. All ones */
  FIN_SCALES,  /* [R source][T][FIN_SCALE_BYTES]: scales that are not yet transposed */
  FIN_ROUTE,   /* as FIN_HEADERS, for combine; own */
  FIN_TOKENS,  /* [R source] u32: tokens of the last dispatch; own */
  FIN_STARTED, /* [R] u32: last combine that each rank began. Zeroed */
  FIN_FLAGS,   /* [T][FIN_SLOTS] u32: call that filled the slot. Zeroed */
  FIN_RETURN,  /* [T][FIN_SLOTS][H] BF16: sums by rank, or rows by top-k position */
  FIN_ORIGINS  /* [max_rows] u32, only with FP8: source * T + token of a row; own. Zeroed */
};

enum FinCounter {
  FIN_TICKETS = 1, /* [2] by number & 1: messages that combine's senders have taken */
  FIN_MET = 3      /* [2] by number & 1: receiving blocks whose rows are placed */
};

static const uint64_t FIN_EMPTY = ~0ull;
static const uint32_t FIN_NOWHERE = 0xfffffffeu;

static const uint32_t FIN_SCALE_BYTES = ep_up(EP_TOKEN_SCALES * 4, 16);
static const uint32_t FIN_SLOTS = EP_RANKS > EP_TOPK ? EP_RANKS : EP_TOPK;

EP_DEVICE uint32_t fin_receiving_blocks(const EpCall &c) { return c.receivers == 0 ? c.senders : c.receivers; }
EP_DEVICE uint32_t fin_receiver(const EpCall &c) {
  uint32_t block = c.receivers == 0 ? c.block : c.block - c.senders;
  return c.warp * fin_receiving_blocks(c) + block;
}
EP_DEVICE uint32_t fin_receiving_warps(const EpCall &c) { return fin_receiving_blocks(c) * c.warps; }

EP_DEVICE uint8_t *fin_at(const EpArgs &a, int rank, FinRegion region) { return a.heap[rank] + a.region[region]; }

EP_DEVICE uint64_t *fin_counts(const EpArgs &a, int owner, uint32_t call, int source) {
  return reinterpret_cast<uint64_t *>(fin_at(a, owner, FIN_COUNTS)) +
         ((call & 1) * EP_RANKS + source) * (EP_EXPERTS + 1);
}
EP_DEVICE uint32_t *fin_places(const EpArgs &a) { return reinterpret_cast<uint32_t *>(fin_at(a, a.rank, FIN_PLACES)); }

EP_DEVICE uint64_t *fin_words(const EpArgs &a, int owner, FinRegion region, int source, uint32_t token) {
  return reinterpret_cast<uint64_t *>(fin_at(a, owner, region)) +
         (static_cast<uint64_t>(source) * a.max_tokens + token) * EP_TOPK;
}
EP_DEVICE uint8_t *fin_scales(const EpArgs &a, int owner, int source, uint32_t token) {
  return fin_at(a, owner, FIN_SCALES) + (static_cast<uint64_t>(source) * a.max_tokens + token) * FIN_SCALE_BYTES;
}
EP_DEVICE uint32_t *fin_origins(const EpArgs &a) { return reinterpret_cast<uint32_t *>(fin_at(a, a.rank, FIN_ORIGINS)); }
EP_DEVICE uint32_t *fin_met(const EpArgs &a, uint32_t call) {
  return reinterpret_cast<uint32_t *>(a.counters) + FIN_MET + (call & 1);
}
EP_DEVICE uint32_t *fin_tokens(const EpArgs &a) { return reinterpret_cast<uint32_t *>(fin_at(a, a.rank, FIN_TOKENS)); }
EP_DEVICE uint32_t *ep_started(const EpArgs &a, int owner) {
  return reinterpret_cast<uint32_t *>(fin_at(a, owner, FIN_STARTED));
}
EP_DEVICE uint32_t *fin_flag(const EpArgs &a, int owner, uint32_t token, uint32_t slot) {
  return reinterpret_cast<uint32_t *>(fin_at(a, owner, FIN_FLAGS)) + static_cast<uint64_t>(token) * FIN_SLOTS + slot;
}
EP_DEVICE uint8_t *fin_return(const EpArgs &a, int owner, uint32_t token, uint32_t slot) {
  return fin_at(a, owner, FIN_RETURN) + (static_cast<uint64_t>(token) * FIN_SLOTS + slot) * (2 * EP_HIDDEN);
}
