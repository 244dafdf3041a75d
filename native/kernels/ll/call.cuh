/* Definitions that do not depend on how the low-latency kernels use memory. A file with another memory layout than
 * ll/layout.cuh defines the macro LL_MEMORY, so that kernels do not include ll/layout.cuh. It then defines functions of
 * the same names for its own memory. */
#pragma once

#include "common/check.cuh"
#include "common/sentinel.cuh"

/* A place is a word of 32 bits. Its upper 12 bits are the local expert. Its lower 20 bits are the row's position
 * among the rows that its source has for this expert. No place equals LL_NOWHERE, because a rank has fewer than 4095
 * experts. */
static const uint32_t LL_NOWHERE = 0xfffffffeu;
static const uint32_t LL_PLACE_BITS = 20;

static const uint32_t LL_WARP_BYTES = 512;

/* LL_PEERS is true if combine_ll sends only to other ranks, not to this rank itself. */
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

/* The first units to send go to warp 0 of every block, so that a small batch uses every SM. The first units to receive
 * go to the last warps, so that in a small batch no warp both sends and receives. */
EP_DEVICE uint32_t ll_from_bottom(const LlCall &c) { return c.warp * c.blocks + c.block; }
EP_DEVICE uint32_t ll_from_top(const LlCall &c) { return (c.warps - 1 - c.warp) * c.blocks + c.block; }
EP_DEVICE uint32_t ll_all_warps(const LlCall &c) { return c.warps * c.blocks; }

struct LlReturn {
  uint32_t source, token, chunk;
};
