/* dispatch_masked_ids is the kernel of ll/dispatch_ids.cuh, compiled for layout masked. This file defines the ll_
 * functions that the kernel calls, for the memory of masked/layout.cuh. dispatch_masked_ids and dispatch_masked use
 * the same slots and routes, but each has its own headers and token counts. dispatch_masked_ids writes a route for
 * every token of a source, at the index of the token.
 *
 * Calls of dispatch_masked and dispatch_masked_ids may follow each other. A call ends only when its slots are empty
 * and every rank has begun the call. Call n uses set n & 1 of two sets of slots, so call n + 1 writes the other set. */
#define LL_MEMORY /* leaves out the memory of ll/ */
#include "ll/call.cuh"
#include "masked/layout.cuh"

static const uint32_t LL_COUNT_WORDS = 1;

/* Returns an address p such that p[EP_LOCAL_EXPERTS] is a source's number of tokens. Layout masked has no other count
 * words. */
EP_DEVICE uint64_t *ll_counts(const EpArgs &a, int owner, uint32_t call, int source) {
  return masked_tokens(a, owner, call, source) - EP_LOCAL_EXPERTS;
}
EP_DEVICE uint64_t *ll_header(const EpArgs &a, int owner, uint32_t call, int source, uint32_t token) {
  return masked_ids(a, owner, call, source, token);
}
EP_DEVICE uint8_t *ll_slot(const EpArgs &a, int owner, uint32_t call, int source, uint32_t token) {
  return rank_slot(a, owner, call, source, token);
}
EP_DEVICE uint32_t *ll_tokens(const EpArgs &a) { return reinterpret_cast<uint32_t *>(masked_messages(a)); }

#define LL_WEIGHTS 0 /* combine sends the weights */

/* Returns the number of rows for which an expert's block has room: all rows that may arrive. */
EP_DEVICE uint32_t ll_block_rows(const EpArgs &a, uint32_t) { return masked_room(a); }

EP_DEVICE void ll_publish_expert(const EpArgs &a, uint32_t e, uint32_t, const uint32_t (&rows)[EP_RANKS]) {
  masked_publish(a, e, rows);
}
template <uint32_t n>
EP_DEVICE void ll_publish_all(const EpArgs &a, uint32_t lane, uint32_t, const uint32_t (&rows)[n][EP_RANKS]) {
  uint32_t mine = 0;
#pragma unroll
  for (uint32_t i = 0; i < n; i++)
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) mine += rows[i][r];
  uint32_t all = __reduce_add_sync(EP_FULL_WARP, mine);
  if (lane == 0) a.row_offsets[EP_LOCAL_EXPERTS] = all;
}

/* Returns the address of a row's first scale. The row's next scale is ll_scale_step words later. */
EP_DEVICE uint32_t *ll_row_scales(const EpArgs &a, uint64_t row, uint32_t place, int k) {
  uint64_t before = __shfl_sync(EP_FULL_WARP, place >> LL_PLACE_BITS, k) * static_cast<uint64_t>(masked_room(a)) * (EP_TOKEN_SCALES - 1);
  return reinterpret_cast<uint32_t *>(a.out_scales) + before + row;
}
EP_DEVICE int64_t ll_scale_step(const EpArgs &a) { return masked_room(a); }

EP_DEVICE void ll_keep_route(const EpArgs &a, uint32_t source, uint32_t token, uint32_t k, uint64_t, uint32_t row) {
  int32_t *route = masked_route(a, source, token);
  if (k == 0) route[0] = static_cast<int32_t>(token);
  route[1 + k] = row == LL_NOWHERE ? -1 : static_cast<int32_t>(row);
}

EP_DEVICE void ll_clear_beside(const EpArgs &a, const LlCall &c) {
  masked_clear_heads_of(a, {ep_number_before(c.number), c.block, c.blocks, c.lane});
}

#define dispatch_ll_ids dispatch_masked_ids /* the entry's name */
#include "ll/dispatch_ids.cuh"
