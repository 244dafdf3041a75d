/* The memory of combine_ll after dispatch_final or dispatch_final_home. It is the memory of final/layout.cuh and one
 * more region. combine_ll uses functions of ll/layout.cuh. This file defines functions of the same names for this
 * memory. */
#pragma once

#define LL_MEMORY /* leaves out the memory of ll/layout.cuh */
#include "final/layout.cuh"
#include "ll/call.cuh"

/* The region of slots, [2][T][FIN_SLOTS][H] BF16, all ones between calls. FIN_FLAGS and FIN_RETURN are empty here. */
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
