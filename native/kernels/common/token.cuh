/* A token as kernels send it: EP_VECTORS vectors of 16 bytes, then EP_TOKEN_SCALES scales of 32 bits. With FP8,
 * eight vectors share a scale. The lane that has the first of them also has the scale.
 *
 * In functions with a parameter n, each lane of a warp moves n vectors: `first`, `first` + 32, and so on. */
#pragma once

#include "common/dtypes.cuh"
#include "common/sentinel.cuh"

static const uint32_t EP_PAYLOAD = ep_payload(EP_DTYPE, EP_HIDDEN);
static const uint32_t EP_TOKEN_SCALES = ep_scales(EP_DTYPE, EP_HIDDEN);
static const uint32_t EP_VECTORS = EP_PAYLOAD / 16;

/* Returns the number of a token's place in a set of places [source rank][max_tokens]. */
EP_DEVICE uint64_t ep_token_place(const EpArgs &a, uint32_t set, int source, uint32_t token) {
  return static_cast<uint64_t>(set * EP_RANKS + source) * a.max_tokens + token;
}

/* Returns whether a vector number is inside the token. If EP_VECTORS is a multiple of 32 * n, the compiler knows
 * the answer. */
template <uint32_t n>
EP_DEVICE bool ep_inside(uint32_t vector) { return EP_VECTORS % (32 * n) == 0 || vector < EP_VECTORS; }
template <uint32_t n>
EP_DEVICE bool ep_has_scale(uint32_t vector) { return EP_TOKEN_SCALES > 0 && ep_inside<n>(vector) && vector % 8 == 0; }

EP_DEVICE uint32_t *ep_slot_scale(uint8_t *slot, uint32_t vector) { return reinterpret_cast<uint32_t *>(slot + EP_PAYLOAD) + vector / 8; }

/* Loads a lane's part of a polled slot. Returns the largest of its words and of `largest`: the sentinel if data is
 * missing. */
template <uint32_t n>
EP_DEVICE uint32_t ep_load_part(uint8_t *slot, uint32_t first, uint4 (&data)[n], uint32_t (&scale)[n],
                               uint32_t largest = 0) {
#pragma unroll
  for (uint32_t v = 0; v < n; v++) {
    uint32_t vector = first + 32 * v;
    data[v] = make_uint4(0, 0, 0, 0);
    scale[v] = 0;
    if (ep_inside<n>(vector)) data[v] = ld_relaxed_sys(reinterpret_cast<const uint4 *>(slot) + vector);
    if (ep_has_scale<n>(vector)) scale[v] = ld_relaxed_sys(ep_slot_scale(slot, vector));
  }
#pragma unroll
  for (uint32_t v = 0; v < n; v++) largest = max(largest, max(ep_largest(data[v]), scale[v]));
  return largest;
}

template <uint32_t n>
EP_DEVICE void ep_empty_part(uint8_t *slot, uint32_t first) {
#pragma unroll
  for (uint32_t v = 0; v < n; v++) {
    uint32_t vector = first + 32 * v;
    if (ep_inside<n>(vector)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot) + vector, ep_sentinels());
    if (ep_has_scale<n>(vector)) st_relaxed_sys(ep_slot_scale(slot, vector), EP_SENTINEL);
  }
}

template <uint32_t n, class Step>
EP_DEVICE void ep_write_part(uint8_t *row, uint32_t *scales, Step step, uint32_t first, const uint4 (&data)[n], const uint32_t (&scale)[n]) {
#pragma unroll
  for (uint32_t v = 0; v < n; v++) {
    uint32_t vector = first + 32 * v;
    if (ep_inside<n>(vector)) reinterpret_cast<uint4 *>(row)[vector] = data[v];
    if (ep_has_scale<n>(vector)) scales[vector / 8 * step] = scale[v];
  }
}
