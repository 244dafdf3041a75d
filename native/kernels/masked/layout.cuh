/* The memory of layout masked. The output has a block of rows for each local expert, with room for all tokens of all
 * ranks. Rows of a block are sorted by source rank, then by token. Messages are those of rank/layout.cuh, which also
 * explains why calls need no barrier between them. For each top-k position, a message's head holds the local expert
 * and the number of the sender's earlier tokens for this expert. The receiver computes the row from this head and
 * from the counts of all ranks. */
#pragma once

#include "rank/layout.cuh"

/* Regions of the state, in the order of kernels/cuda/declare/masked.go. The first four regions have the names of
 * RankRegion. */
enum MaskedRegion {
  MASKED_WEIGHTS = RANK_RETURN + 1, /* [2][R source][T][K] u64: call << 32 | weight. Zeroed */
  MASKED_HEADS,   /* [3][R source][T][RANK_HEAD] u32. All ones */
  MASKED_EXPERTS, /* [2][R source][local experts] u64: call << 32 | rows. Zeroed */
  MASKED_LAST,    /* [2][R source] u64: call << 32 | messages; used by this rank alone. Zeroed */
  MASKED_TOKENS,  /* [3][R source] u64: call << 32 | tokens, for dispatch_masked_ids. Zeroed */
  MASKED_IDS      /* [3][R source][T][K] u64: headers of dispatch_masked_ids. All ones */
};

static const uint32_t MASKED_RETURN_SLOTS = EP_RANKS > EP_TOPK ? EP_RANKS : EP_TOPK;
static const uint32_t MASKED_ROUTE = 1 + EP_TOPK; /* words of a route */

/* Returns the words of a message's head. Call n uses set n % 3. During call n this rank reads set n % 3 and
 * clears the set of call n - 1, while a fast rank may already write the set of call n + 1. */
EP_DEVICE uint32_t *masked_head(const EpArgs &a, int owner, uint32_t call, int source, uint32_t place) {
  return ep_at<uint32_t>(a, owner, MASKED_HEADS) + ep_token_place(a, call % 3, source, place) * RANK_HEAD;
}
EP_DEVICE uint64_t *masked_count(const EpArgs &a, int owner, uint32_t call, int source, uint32_t expert) {
  return ep_at<uint64_t>(a, owner, MASKED_EXPERTS) + ((call & 1) * EP_RANKS + source) * EP_LOCAL_EXPERTS + expert;
}
EP_DEVICE uint64_t *masked_last(const EpArgs &a, uint32_t call) {
  return ep_at<uint64_t>(a, a.rank, MASKED_LAST) + (call & 1) * EP_RANKS;
}
EP_DEVICE uint64_t *masked_tokens(const EpArgs &a, int owner, uint32_t call, int source) {
  return ep_at<uint64_t>(a, owner, MASKED_TOKENS) + call % 3 * EP_RANKS + source;
}
EP_DEVICE uint64_t *masked_ids(const EpArgs &a, int owner, uint32_t call, int source, uint32_t token) {
  return ep_at<uint64_t>(a, owner, MASKED_IDS) + ep_token_place(a, call % 3, source, token) * EP_TOPK;
}
EP_DEVICE uint64_t *masked_weight(const EpArgs &a, int owner, uint32_t call, int source, uint32_t token) {
  return ep_at<uint64_t>(a, owner, MASKED_WEIGHTS) + ep_token_place(a, call & 1, source, token) * EP_TOPK;
}

EP_DEVICE uint32_t masked_room(const EpArgs &a) { return EP_RANKS * static_cast<uint32_t>(a.max_tokens); }

/* masked_route returns the address of a route, for combine. masked_messages returns the address of the numbers of
 * messages. Routes and numbers follow src_info in the output: first an array of routes [source rank][place], then a
 * number for each source. A route holds the token and, for each top-k position, the row, or -1 for none on this rank. A
 * source's routes are sorted by token. */
EP_DEVICE int32_t *masked_route(const EpArgs &a, uint32_t source, uint32_t place) {
  return a.src_info + 2 * a.max_rows + (static_cast<uint64_t>(source) * a.max_tokens + place) * MASKED_ROUTE;
}
EP_DEVICE int32_t *masked_messages(const EpArgs &a) { return masked_route(a, EP_RANKS, 0); }

/* Writes where each source's rows of an expert begin in the expert's block, and how many rows the block has. */
EP_DEVICE void masked_publish(const EpArgs &a, uint32_t e, const uint32_t (&rows)[EP_RANKS]) {
  uint64_t *ranges = reinterpret_cast<uint64_t *>(a.expert_ids) + e * EP_RANKS;
  uint32_t all = 0;
#pragma unroll
  for (int r = 0; r < EP_RANKS; r++) {
    ranges[r] = static_cast<uint64_t>(all) << 32 | rows[r];
    all += rows[r];
  }
  a.row_offsets[e] = all;
}

/* Calls of dispatch_masked and dispatch_masked_ids may follow each other on the same memory. A call clears the words
 * of the previous call, whichever kernel wrote them. `MaskedClear::number` is the number of that previous call. One
 * warp of each block calls the functions below. */
struct MaskedClear {
  uint32_t number, block, blocks, lane;
};
EP_DEVICE uint32_t masked_left(const MaskedClear &c, const uint64_t *count) {
  uint64_t word = *count;
  return word >> 32 == c.number ? static_cast<uint32_t>(word) : 0;
}
EP_DEVICE void masked_clear_heads_of(const EpArgs &a, const MaskedClear &c) {
  for (int source = 0; source < EP_RANKS; source++) {
    uint32_t used = masked_left(c, masked_last(a, c.number) + source) * RANK_HEAD;
    ep_clear_words(c, masked_head(a, a.rank, c.number, source, 0), used);
  }
}
EP_DEVICE void masked_clear_ids_of(const EpArgs &a, const MaskedClear &c) {
  for (int source = 0; source < EP_RANKS; source++) {
    uint32_t used = masked_left(c, masked_tokens(a, a.rank, c.number, source)) * EP_TOPK;
    ep_clear_words(c, masked_ids(a, a.rank, c.number, source, 0), used);
  }
}
