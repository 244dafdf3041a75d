/* combine_final_polled is combine_ll_partial after a dispatch of the final kernels. If it
 * may use all SMs, combine_ll_partial is faster than the combines with flags, also with
 * large batches. But it needs the route that a low-latency dispatch writes, and for large
 * batches such a dispatch is slower.
 *
 * The code is ll/combine_partial.cuh. This file defines the names of ll/layout.cuh that
 * it uses, for the memory of final/layout.cuh and one more region.
 */
#define EP_LL_LAYOUT_CUH /* this file replaces ll/layout.cuh */
#include "final/layout.cuh"

/* Index of the region of slots, [2][T][FIN_SLOTS][H] BF16, all ones, as LL_RETURN. It comes
 * after the regions of FinRegion; FIN_FLAGS and FIN_RETURN are empty here. */
static const uint32_t FIN_POLLED = FIN_ORIGINS + 1;

static const uint32_t LL_SENTINEL = 0xffffffffu;
static const uint32_t LL_NOWHERE = FIN_NOWHERE;
static const uint32_t LL_WARP_BYTES = 512; /* one 16-byte vector for each lane */

struct LlCall {
  uint32_t number; /* 1, 2, 3, ... */
  uint32_t warp, lane, warps; /* of this thread; of the block */
  uint32_t block, blocks;
};
EP_DEVICE LlCall ll_call(const EpArgs &a) {
  return {ep_number(a), warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x};
}

EP_DEVICE uint32_t ll_from_bottom(const LlCall &c) { return c.warp * c.blocks + c.block; }
EP_DEVICE uint32_t ll_from_top(const LlCall &c) { return (c.warps - 1 - c.warp) * c.blocks + c.block; }
EP_DEVICE uint32_t ll_all_warps(const LlCall &c) { return c.warps * c.blocks; }

EP_DEVICE uint64_t *ll_route(const EpArgs &a, int source, uint32_t token) {
  return fin_words(a, a.rank, FIN_ROUTE, source, token);
}
EP_DEVICE uint32_t *ll_tokens(const EpArgs &a) { return fin_tokens(a); }
EP_DEVICE uint32_t *ll_started(const EpArgs &a, int owner) { return fin_started(a, owner); }
EP_DEVICE uint8_t *ll_return(const EpArgs &a, int owner, uint32_t call, uint32_t token, uint32_t slot) {
  uint64_t at = static_cast<uint64_t>(call & 1) * a.max_tokens + token;
  return a.heap[owner] + a.region[FIN_POLLED] + (at * FIN_SLOTS + slot) * (2 * EP_HIDDEN);
}

EP_DEVICE uint4 ll_sentinels() { return make_uint4(LL_SENTINEL, LL_SENTINEL, LL_SENTINEL, LL_SENTINEL); }
EP_DEVICE uint32_t ll_largest(uint4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }
EP_DEVICE uint32_t ll_canonical(uint32_t w) { return w == LL_SENTINEL ? 0x7fff7fffu : w; }
EP_DEVICE uint4 ll_canonical(uint4 v) {
  return make_uint4(ll_canonical(v.x), ll_canonical(v.y), ll_canonical(v.z), ll_canonical(v.w));
}

#define combine_ll_partial combine_final_polled /* the entry's name */
#include "ll/combine_partial.cuh"
