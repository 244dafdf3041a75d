/* Partial sums of a combine. Each rank sums its rows of a token in f32. It sends this sum to the token's rank,
 * which adds the sums in the order of ranks and keeps its own sum in registers.
 *
 * With EP_PARTIAL 0, sums travel as f32. With EP_PARTIAL 1, they travel as BF16, and the result has the same bits
 * as with algo=dedup.
 *
 * Each top-k position has a slot. A rank with only one row of the token sends the row to the slot of its position,
 * and the receiver multiplies the row by its weight. A rank with more rows sends a sum. An f32 sum has twice the bytes
 * of a row, so it takes two slots: those of the first two positions whose experts are on the rank. Of each eight
 * elements, four go to each slot. */
#pragma once

#include "common/check.cuh"
#include "common/dtypes.cuh"

static const bool EP_F32_SUMS = EP_PARTIAL == 0;
static const uint32_t EP_PIECES = EP_F32_SUMS ? 2 : 1; /* vectors sent for one vector of the output */
static const uint32_t EP_PEERS = EP_RANKS - 1; /* at least 1: kernels need two ranks */
static const uint32_t EP_TOGETHER = 4;
/* The largest number of ranks whose pieces a thread loads at once. It is smaller if a thread has few registers. */
static const uint32_t EP_MOST_PEERS = EP_F32_SUMS && EP_THREADS > 512 ? 2 : 4;
static const uint32_t EP_GROUP = EP_PEERS < EP_MOST_PEERS ? EP_PEERS : EP_MOST_PEERS;

/* Sums the weighted rows of y for the top-k positions in `here`, in the order of positions, and stores the sum in
 * acc. It sums only the eight elements from byte `column` on. In lane k, the upper half of `route` is the weight of
 * top-k position k, and the lower half is its row. With `late`, the weights are not known yet, and `weigh` waits for
 * them while the first rows are loaded. Returns false if `weigh` returned false. */
template <bool late, class Weigh>
EP_DEVICE bool partial_sum(const EpArgs &a, uint64_t route, uint32_t column, uint32_t here, float (&acc)[8], Weigh weigh) {
  const uint8_t *y = reinterpret_cast<const uint8_t *>(a.y) + column;
#pragma unroll
  for (int i = 0; i < 8; i++) acc[i] = 0;
  for (bool known = false; here != 0; known = true) {
    uint4 data[EP_TOGETHER];
    uint32_t left = here;
#pragma unroll
    for (uint32_t i = 0; i < EP_TOGETHER; i++, left &= left - 1) {
      uint64_t row = __shfl_sync(EP_FULL_WARP, static_cast<uint32_t>(route), left != 0 ? __ffs(left) - 1 : 0);
      if (left != 0) data[i] = ld_readonly(reinterpret_cast<const uint4 *>(y + row * (2 * EP_HIDDEN)));
    }
    if (late && !known && !weigh(&route)) return false;
#pragma unroll
    for (uint32_t i = 0; i < EP_TOGETHER; i++) {
      if (here == 0) break;
      uint32_t weight = __shfl_sync(EP_FULL_WARP, static_cast<uint32_t>(route >> 32), __ffs(here) - 1);
      bf16_accumulate(acc, data[i], __uint_as_float(weight));
      here &= here - 1;
    }
  }
  return true;
}
EP_DEVICE void partial_sum(const EpArgs &a, uint64_t route, uint32_t column, uint32_t here, float (&acc)[8]) {
  partial_sum<false>(a, route, column, here, acc, [](uint64_t *) { return true; });
}

EP_DEVICE bool partial_alone(uint32_t here) { return (here & (here - 1)) == 0; }

/* Returns the slot for a piece from `rank`. `here` has a bit for each top-k position whose expert is on `rank`. */
EP_DEVICE uint32_t partial_slot(uint32_t rank, uint32_t here, uint32_t piece) {
  if (!EP_F32_SUMS) return rank;
  uint32_t rest = here & (here - 1);
  return __ffs(piece == 0 || rest == 0 ? here : rest) - 1;
}
EP_DEVICE bool partial_has(uint32_t here, uint32_t piece) { return piece == 0 ? here != 0 : !partial_alone(here); }

EP_DEVICE uint4 partial_pack(const float (&sum)[8], uint32_t piece) {
  if (!EP_F32_SUMS) return bf16_pack(sum);
  const float *x = sum + 4 * piece;
  return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
}

struct PartialSum {
  uint8_t *slots; /* the token's first slot, plus this lane's byte column */
  uint32_t rank;  /* lane k: rank of top-k position k, EP_RANKS if masked */
  float weight;
  float own[8];
  float acc[8];
};

EP_DEVICE uint32_t partial_peer(const EpArgs &a, uint32_t i) { return i + (i >= static_cast<uint32_t>(a.rank)); }

struct PartialGroup {
  uint32_t first;
  uint32_t here[EP_GROUP]; /* bit k: the rank has the expert of position k. The word is 0 if there is no such rank. */
  uint4 data[EP_GROUP][EP_PIECES];
};
EP_DEVICE PartialGroup partial_group(const EpArgs &a, const PartialSum &s, uint32_t first) {
  PartialGroup g = {first};
#pragma unroll
  for (uint32_t i = 0; i < EP_GROUP; i++)
    g.here[i] = __ballot_sync(EP_FULL_WARP, first + i < EP_PEERS && s.rank == partial_peer(a, first + i));
  return g;
}

/* Returns the address of a piece. If there is no piece, it returns an address that may be read and has no meaning. */
EP_DEVICE uint4 *partial_at(const EpArgs &a, const PartialSum &s, const PartialGroup &g, uint32_t i, uint32_t piece) {
  uint32_t slot = g.here[i] != 0 ? partial_slot(partial_peer(a, g.first + i), g.here[i], piece) : 0;
  return reinterpret_cast<uint4 *>(s.slots + slot * (2 * EP_HIDDEN));
}

EP_DEVICE void partial_add(float (&acc)[8], const float (&x)[8]) {
#pragma unroll
  for (int i = 0; i < 8; i++) acc[i] = __fadd_rn(acc[i], x[i]);
}

EP_DEVICE void partial_add_pieces(PartialSum &s, uint32_t here, const uint4 (&data)[EP_PIECES]) {
  if (!EP_F32_SUMS) {
    bf16_accumulate(s.acc, data[0], 1.0f);
  } else if (partial_alone(here)) {
    bf16_accumulate(s.acc, data[0], __shfl_sync(EP_FULL_WARP, s.weight, __ffs(here) - 1));
  } else {
    uint4 lo = data[0], hi = data[EP_PIECES - 1];
    float x[8] = {__uint_as_float(lo.x), __uint_as_float(lo.y), __uint_as_float(lo.z), __uint_as_float(lo.w),
                  __uint_as_float(hi.x), __uint_as_float(hi.y), __uint_as_float(hi.z), __uint_as_float(hi.w)};
    partial_add(s.acc, x);
  }
}

/* Adds a group's sums, and this rank's own sum, in the order of ranks. */
EP_DEVICE void partial_add_group(const EpArgs &a, PartialSum &s, const PartialGroup &g) {
#pragma unroll
  for (uint32_t i = 0; i < EP_GROUP; i++) {
    if (g.first + i == static_cast<uint32_t>(a.rank) && a.rank != EP_RANKS - 1) partial_add(s.acc, s.own);
    if (g.here[i] != 0) partial_add_pieces(s, g.here[i], g.data[i]);
  }
}

EP_DEVICE uint4 partial_finish(const EpArgs &a, PartialSum &s) {
  if (a.rank == EP_RANKS - 1) partial_add(s.acc, s.own);
  return bf16_pack(s.acc);
}
