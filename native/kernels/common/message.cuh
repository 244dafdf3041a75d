/* Converts tokens to messages of dtype BF16 or FP8. A lane has 16 bytes of the payload. With FP8, every eighth
 * lane also has the scale of its group.
 *
 * With EP_RAW 0, the caller's tokens are BF16, and the kernel casts them. With EP_RAW 1, x is [tokens, hidden]
 * e4m3, and input_scales is [tokens, hidden/128]. */
#pragma once

#include "common/fp8.cuh"
#include "common/ids.cuh"
#include "common/token.cuh"

struct EpVector {
  uint4 data;
  uint32_t scale;
};

template <uint32_t n>
EP_DEVICE void ep_send_part(uint8_t *slot, uint32_t first, const EpVector (&part)[n]) {
#pragma unroll
  for (uint32_t v = 0; v < n; v++) {
    uint32_t vector = first + 32 * v;
    if (ep_inside<n>(vector)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot) + vector, part[v].data);
    if (ep_has_scale<n>(vector)) st_relaxed_sys(ep_slot_scale(slot, vector), part[v].scale);
  }
}

#if EP_DTYPE == EP_FP8
struct EpSource {
  uint4 lo, hi;
};
EP_DEVICE EpSource ep_load_source(const uint16_t *token, uint32_t vector, bool inside) {
  const uint4 *p = reinterpret_cast<const uint4 *>(token) + 2 * vector;
  uint4 none = make_uint4(0, 0, 0, 0);
  if (!inside) return {none, none};
  return {ld_readonly(p), ld_readonly(p + 1)};
}
/* Casts to e4m3. All 32 lanes call it: the lanes of a group compute its scale together. */
EP_DEVICE EpVector ep_convert(const EpSource &s) {
  float scale;
  uint4 data = fp8_quantize(s.lo, s.hi, &scale);
  return {data, __float_as_uint(scale)};
}
#else
struct EpSource {
  uint4 data;
};
EP_DEVICE EpSource ep_load_source(const uint16_t *token, uint32_t vector, bool inside) {
  if (!inside) return {make_uint4(0, 0, 0, 0)};
  return {ld_readonly(reinterpret_cast<const uint4 *>(token) + vector)};
}
EP_DEVICE EpVector ep_convert(const EpSource &s) { return {s.data, 0}; }
#endif

/* ep_load_input loads a lane's vector of one of the caller's tokens. ep_message turns it into a vector of a message.
 * Receivers read a word that equals the sentinel as "not yet arrived", so no word of a message equals it. */
#if EP_RAW
typedef EpVector EpInput;
EP_DEVICE EpInput ep_load_input(const EpArgs &a, uint32_t token, uint32_t vector, bool inside) {
  EpInput in = {make_uint4(0, 0, 0, 0), 0};
  const uint4 *x = reinterpret_cast<const uint4 *>(a.x) + static_cast<uint64_t>(token) * (EP_HIDDEN / 16);
  const uint32_t *scales = reinterpret_cast<const uint32_t *>(a.input_scales) + static_cast<uint64_t>(token) * ep_scales(EP_DTYPE, EP_HIDDEN);
  if (!inside) return in;
  in.data = ld_readonly(x + vector);
  if (vector % 8 == 0) in.scale = scales[vector / 8];
  return in;
}
/* Replaces a word that equals the sentinel by another NaN. */
EP_DEVICE EpVector ep_message(const EpInput &in) {
  return {ep_canonical(in.data), in.scale == EP_SENTINEL ? 0x7fffffffu : in.scale};
}
#else
typedef EpSource EpInput;
EP_DEVICE EpInput ep_load_input(const EpArgs &a, uint32_t token, uint32_t vector, bool inside) {
  return ep_load_source(a.x + static_cast<uint64_t>(inside ? token : 0) * EP_HIDDEN, vector, inside);
}
EP_DEVICE EpVector ep_message(const EpInput &in) {
  EpVector v = ep_convert(in);
  if (EP_DTYPE == EP_BF16) v.data = ep_canonical(v.data); /* a saturating cast to e4m3 gives no sentinel */
  return v;
}
#endif

/* A thread loads EP_IDS top-k ids together, so that it waits only once for memory. ep_load_ids does not check whether
 * ids are experts. Ids after the end of the list are EP_NO_ID. */
static const uint32_t EP_IDS = 8;
static const int32_t EP_NO_ID = -2;
struct EpIds {
  int32_t id[EP_IDS];
};
EP_DEVICE EpIds ep_load_ids(const EpArgs &a, uint32_t first, uint32_t step, uint32_t end) {
  EpIds ids;
#pragma unroll
  for (uint32_t i = 0; i < EP_IDS; i++) {
    uint32_t j = first + i * step;
    ids.id[i] = j < end ? ep_load_id(a, j) : EP_NO_ID;
  }
  return ids;
}

/* Counts ids first, first + step, ... before `end`: adds 1 to counts[e], in shared memory, for each id e. */
EP_DEVICE void ep_tally_ids(const EpArgs &a, uint32_t first, uint32_t step, uint32_t end, uint32_t *counts) {
  for (uint32_t j = first; j < end; j += step * EP_IDS) {
    EpIds ids = ep_load_ids(a, j, step, end);
#pragma unroll
    for (uint32_t i = 0; i < EP_IDS; i++)
      if (ep_is_expert(ids.id[i])) atomicAdd(&counts[ids.id[i]], 1u);
  }
}
