/* A sentinel is a word of all ones. It stands in a slot for a word that has not arrived. Receivers poll the words of a
 * slot until no word is a sentinel. After they have read the slot, they fill it with sentinels again. A word must
 * arrive as a whole, but the words of a slot may arrive in any order. A word has 32 bits, or 64 bits in headers and
 * counts. */
#pragma once

#include "common/ptx.cuh"

static const uint32_t EP_SENTINEL = 0xffffffffu;

EP_DEVICE uint4 ep_sentinels() { return make_uint4(EP_SENTINEL, EP_SENTINEL, EP_SENTINEL, EP_SENTINEL); }

/* Fills `used` words with ones. One warp of each block calls it. `c` has the number of the block, the number of blocks
 * and the lane. */
template <class Call, class Word>
EP_DEVICE void ep_clear_words(const Call &c, Word *words, uint32_t used) {
  const Word empty = static_cast<Word>(~0ull);
  for (uint32_t i = c.block * 32 + c.lane; i < used; i += c.blocks * 32) st_relaxed_sys(words + i, empty);
}

/* Returns the largest word of a vector. The words have arrived if the largest is not the sentinel. A running
 * maximum takes one register and no branch. */
EP_DEVICE uint32_t ep_largest(uint4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }

/* Replaces two BF16 NaNs that equal the sentinel by two canonical NaNs. */
EP_DEVICE uint32_t ep_canonical(uint32_t w) { return w == EP_SENTINEL ? 0x7fff7fffu : w; }
EP_DEVICE uint4 ep_canonical(uint4 v) {
  return make_uint4(ep_canonical(v.x), ep_canonical(v.y), ep_canonical(v.z), ep_canonical(v.w));
}
