/* Finds the place of a row: how many earlier tokens of the same source chose the same expert. */
#pragma once

#include "common/message.cuh"
#include "masked/layout.cuh"
#include "rank/tokens.cuh"

static const uint32_t MASKED_TILE = 32;

struct MaskedPlaces {
  uint32_t before[EP_EXPERTS];
  uint32_t all[EP_EXPERTS];            /* rows of all tokens for each expert; only the last sending block counts them */
  int32_t id[MASKED_TILE][EP_TOPK];
  uint32_t place[MASKED_TILE][EP_TOPK];
};

/* Counts the rows of tokens from `begin` to before `end`, and adds the number for each expert to `into`. Begins and
 * ends with a barrier. */
EP_DEVICE void masked_count_rows(const EpArgs &a, uint32_t begin, uint32_t end, uint32_t (&into)[EP_EXPERTS]) {
  __syncthreads();
  ep_tally_ids(a, begin * EP_TOPK + threadIdx.x, blockDim.x, end * EP_TOPK, into);
  __syncthreads();
}

/* Finds the places of the rows of at most MASKED_TILE tokens, from `first` to before `end`. Warp 0 handles one token
 * at a time, a lane for each top-k position. Its lanes need no atomics, because a token's experts are distinct.
 * Begins and ends with a barrier. */
EP_DEVICE void masked_place_tile(const EpArgs &a, const EpCall &c, MaskedPlaces &m, uint32_t first, uint32_t end) {
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < (end - first) * EP_TOPK; i += blockDim.x)
    m.id[i / EP_TOPK][i % EP_TOPK] = ep_id(a, first * EP_TOPK + i);
  __syncthreads();
  for (uint32_t t = 0; c.warp == 0 && t < end - first; t++) {
    int32_t id = c.lane < EP_TOPK ? m.id[t][c.lane] : -1;
    if (id >= 0) {
      uint32_t place = m.before[id];
      m.place[t][c.lane] = place;
      m.before[id] = place + 1;
    }
    __syncwarp();
  }
  __syncthreads();
}
