/* The chunks of a row, for warps that move LL_STEP vectors in each lane at a time. */
#pragma once

#include "ll/call.cuh"

static const uint32_t LL_CHUNK_BYTES = LL_STEP * LL_WARP_BYTES;
static const uint32_t LL_CHUNKS = (2 * EP_HIDDEN + LL_CHUNK_BYTES - 1) / LL_CHUNK_BYTES;

EP_DEVICE uint32_t ll_column(uint32_t chunk, uint32_t lane, uint32_t v = 0) { return chunk * LL_CHUNK_BYTES + v * LL_WARP_BYTES + lane * 16; }
EP_DEVICE bool ll_in_row(uint32_t column) { return 2 * EP_HIDDEN % LL_CHUNK_BYTES == 0 || column < 2 * EP_HIDDEN; }
