/* The memory of a combine_ll that follows a dispatch of the final kernels. On all SMs, combine_ll is faster than the
 * combines with flags, also for large batches. But for large batches a low-latency dispatch is slower than a dispatch
 * of the final kernels.
 *
 * The code of combine_ll uses some names of ll/layout.cuh. This file defines these names for the memory of
 * final/layout.cuh and one more region. */
#pragma once

#define LL_MEMORY /* the memory is defined in this file and not in ll/layout.cuh */
#include "final/layout.cuh"
#include "ll/call.cuh"

/* Index of the region of slots, [2][T][FIN_SLOTS][H] BF16, all ones between calls, as LL_RETURN is. It comes after
 * the regions of FinRegion. In this memory FIN_FLAGS and FIN_RETURN are empty. */
static const uint32_t FIN_POLLED = FIN_ORIGINS + 1;

EP_DEVICE uint64_t *ll_route(const EpArgs &a, int source, uint32_t token) {
  return fin_words(a, a.rank, FIN_ROUTE, source, token);
}
EP_DEVICE uint32_t *ll_tokens(const EpArgs &a) { return fin_tokens(a); }
EP_DEVICE uint8_t *ll_return(const EpArgs &a, int owner, uint32_t call, uint32_t token, uint32_t slot) {
  uint64_t at = static_cast<uint64_t>(call & 1) * a.max_tokens + token;
  return a.heap[owner] + a.region[FIN_POLLED] + (at * FIN_SLOTS + slot) * (2 * EP_HIDDEN);
}

#include "ll/route.cuh"
