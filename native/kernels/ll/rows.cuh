/* Positions of rows and the output's index (row_offsets, expert_ids), for the layout named expert. For the layout named
 * masked, masked/dispatch_ids.cuh defines the same functions. */
#pragma once

#include "ll/layout.cuh"

#define LL_WEIGHTS 1 /* a weight is sent with each id */

EP_DEVICE uint32_t ll_block_rows(const EpArgs &, uint32_t rows) { return ceil_div(rows, EP_ROW_PAD) * EP_ROW_PAD; }

/* Writes where the rows of expert e begin. The unnamed argument is for layout masked: the expert's number of rows from
 * each source. */
EP_DEVICE void ll_publish_expert(const EpArgs &a, uint32_t e, uint32_t row, const uint32_t (&)[EP_RANKS]) {
  a.row_offsets[e] = row;
  a.expert_ids[e] = static_cast<int32_t>(e);
}

/* Writes where the last row ends. One warp calls it, and `end` has the value in lane 31. The unnamed argument is for
 * layout masked: for each of this lane's n experts, the number of rows from each source. */
template <uint32_t n>
EP_DEVICE void ll_publish_all(const EpArgs &a, uint32_t lane, uint32_t end, const uint32_t (&)[n][EP_RANKS]) {
  if (lane == 31) a.row_offsets[EP_LOCAL_EXPERTS] = end;
}

/* Returns the address of a row's first scale; its scales are ll_scale_step words apart. The unnamed arguments are
 * for layout masked. */
EP_DEVICE uint32_t *ll_row_scales(const EpArgs &a, uint64_t row, uint32_t, int) {
  return reinterpret_cast<uint32_t *>(a.out_scales) + row;
}
EP_DEVICE int64_t ll_scale_step(const EpArgs &a) { return a.max_rows; }

EP_DEVICE void ll_keep_route(const EpArgs &a, uint32_t source, uint32_t token, uint32_t k, uint64_t head, uint32_t row) {
  ll_route(a, source, token)[k] = head >> 32 << 32 | row;
}

/* Does nothing. In layout masked it clears headers of dispatch_masked. */
EP_DEVICE void ll_clear_beside(const EpArgs &, const LlCall &) {}
