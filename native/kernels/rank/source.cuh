/* Loads and converts a lane's share of a token, for a message of layouts rank and masked.
 * EP_RAW 0: the token is BF16 and is cast to EP_DTYPE. EP_RAW 1: the caller has already cast
 * the token: x is [tokens, hidden] e4m3, and input_scales is [tokens, hidden/128]. No word
 * that is sent equals the sentinel. */
#ifndef EP_RANK_SOURCE_CUH
#define EP_RANK_SOURCE_CUH

#include "common/message.cuh"
#include "rank/layout.cuh"

#if EP_RAW
typedef EpVector RankSource;
EP_DEVICE RankSource rank_load_source(const EpArgs &a, uint32_t token, uint32_t vector, bool inside) {
  RankSource s = {make_uint4(0, 0, 0, 0), 0};
  const uint4 *x = reinterpret_cast<const uint4 *>(a.x) + static_cast<uint64_t>(token) * RANK_VECTORS;
  const uint32_t *scales = reinterpret_cast<const uint32_t *>(a.input_scales) + static_cast<uint64_t>(token) * RANK_SCALES;
  if (!inside) return s;
  s.data = ld_readonly(x + vector);
  if (vector % 8 == 0) s.scale = scales[vector / 8];
  return s;
}
/* Replaces a word that equals the sentinel. Such a word is four e4m3 NaNs or a NaN scale,
 * and stays NaN. */
EP_DEVICE EpVector rank_convert(const RankSource &s) {
  return {ep_canonical(s.data), s.scale == EP_SENTINEL ? 0x7fffffffu : s.scale};
}
#else
typedef EpSource RankSource;
EP_DEVICE RankSource rank_load_source(const EpArgs &a, uint32_t token, uint32_t vector, bool inside) {
  return ep_load_source(a.x + static_cast<uint64_t>(inside ? token : 0) * EP_HIDDEN, vector, inside);
}
EP_DEVICE EpVector rank_convert(const RankSource &s) {
  EpVector v = ep_convert(s);
  if (EP_DTYPE == EP_BF16) v.data = ep_canonical(v.data); /* a saturating e4m3 cast gives no sentinel */
  return v;
}
#endif

#endif
