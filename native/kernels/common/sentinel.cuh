/* Sentinels. If nothing has arrived in a slot, all bits of its words are ones. Receivers poll the data words
 * themselves until none of them is all ones, and write all ones back after they have read them. */
#pragma once

#include "common/ptx.cuh"

static const uint32_t EP_SENTINEL = 0xffffffffu;

EP_DEVICE uint4 ep_sentinels() { return make_uint4(EP_SENTINEL, EP_SENTINEL, EP_SENTINEL, EP_SENTINEL); }

/* Returns the largest word of a vector. The sentinel is the largest of all words, so a set of words has arrived if
 * its largest word is not the sentinel. To keep a maximum takes one register and no branch. */
EP_DEVICE uint32_t ep_largest(uint4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }

/* Replaces a word of two BF16 NaNs with all bits set, which equals the sentinel, by two canonical NaNs. */
EP_DEVICE uint32_t ep_canonical(uint32_t w) { return w == EP_SENTINEL ? 0x7fff7fffu : w; }
EP_DEVICE uint4 ep_canonical(uint4 v) {
  return make_uint4(ep_canonical(v.x), ep_canonical(v.y), ep_canonical(v.z), ep_canonical(v.w));
}
