/* What the low-latency kernels need besides their memory. The memory is that of ll/layout.cuh, unless a
 * file with kernels for other memory defines LL_MEMORY and the same names: masked/dispatch_ids.cuh and
 * final/combine_polled.cuh do.
 */
#ifndef EP_LL_CALL_CUH
#define EP_LL_CALL_CUH

#include "common/check.cuh"
#include "common/sentinel.cuh"

/* A place is local expert << 20 | position among this source's rows of it.
 * LL_NOWHERE is no place, since legality keeps local experts below 4095. */
static const uint32_t LL_NOWHERE = 0xfffffffeu;
static const uint32_t LL_PLACE_BITS = 20;

static const uint32_t LL_WARP_BYTES = 512; /* one 16-byte vector for each lane */

/* The current call, as every function needs it. */
struct LlCall {
  uint32_t number; /* 1, 2, 3, ... */
  uint32_t warp, lane, warps; /* of this thread; of the block */
  uint32_t block, blocks;
};

EP_DEVICE LlCall ll_call(const EpArgs &a) {
  return {ep_number(a), warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x};
}

/* Work is distributed over blocks first, so that a small batch uses every SM. Senders use
 * warps from the bottom and receivers from the top, so that they do not share a warp if
 * there is little to do. */
EP_DEVICE uint32_t ll_from_bottom(const LlCall &c) { return c.warp * c.blocks + c.block; }
EP_DEVICE uint32_t ll_from_top(const LlCall &c) { return (c.warps - 1 - c.warp) * c.blocks + c.block; }
EP_DEVICE uint32_t ll_all_warps(const LlCall &c) { return c.warps * c.blocks; }

/* One unit of sending in a combine: a chunk of the row or rows that are sent back for one token of one
 * source. */
struct LlReturn {
  uint32_t source, token, chunk;
};

#endif
