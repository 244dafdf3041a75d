/* Definitions for the low-latency kernels, except their memory. A file that replaces the memory of ll/layout.cuh
 * defines LL_MEMORY, and then defines the names of ll/layout.cuh itself. */
#pragma once

#include "common/check.cuh"
#include "common/sentinel.cuh"

/* A place is local expert << 20 | position among this source's rows for this expert. LL_NOWHERE is no place,
 * because a rank has fewer than 4095 experts. */
static const uint32_t LL_NOWHERE = 0xfffffffeu;
static const uint32_t LL_PLACE_BITS = 20;

static const uint32_t LL_WARP_BYTES = 512;

/* True if a combine sends only for tokens of other ranks. */
#ifdef EP_PARTIAL
static const bool LL_PEERS = true;
#else
static const bool LL_PEERS = false;
#endif

struct LlCall {
  uint32_t number;
  uint32_t warp, lane, warps;
  uint32_t block, blocks;
};

EP_DEVICE LlCall ll_call(const EpArgs &a) {
  return {ep_number(a), warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x};
}

/* Sending begins with warp 0 of every block, so that a small batch uses every SM. Receiving begins with the last
 * warps, so that with little work no warp does both. */
EP_DEVICE uint32_t ll_from_bottom(const LlCall &c) { return c.warp * c.blocks + c.block; }
EP_DEVICE uint32_t ll_from_top(const LlCall &c) { return (c.warps - 1 - c.warp) * c.blocks + c.block; }
EP_DEVICE uint32_t ll_all_warps(const LlCall &c) { return c.warps * c.blocks; }

struct LlReturn {
  uint32_t source, token, chunk;
};
