/* Finds the ranks that each token of this rank goes to. A token's place on a rank is the number of earlier tokens
 * that go to the same rank. */
#pragma once

#include "common/block.cuh"
#include "common/ids.cuh"
#include "rank/layout.cuh"

/* A tile has one token for each thread, in groups of 32. Bit i of goes[g][r] is set if token i of group g goes to
 * rank r. */
static const uint32_t RANK_GROUPS = EP_THREADS / 32;
struct RankTile {
  uint32_t goes[RANK_GROUPS][EP_RANKS];
  uint32_t before[RANK_GROUPS][EP_RANKS]; /* tokens before the group that go to the rank */
  uint32_t base[EP_RANKS];                /* tokens before the tile that go to the rank */
  uint32_t all[EP_RANKS];                 /* all tokens that go to the rank, once counted */
};

EP_DEVICE uint32_t rank_mask(const EpArgs &a, uint32_t token) {
  uint32_t mask = 0;
#pragma unroll
  for (uint32_t k = 0; k < EP_TOPK; k++) {
    int32_t id = ep_id(a, token * EP_TOPK + k);
    if (id >= 0) mask |= 1u << (id / EP_LOCAL_EXPERTS);
  }
  return mask;
}

static const uint32_t RANK_LOOKS = 4; /* tokens whose ids a counting thread loads at once */

/* Counts the tokens from `begin` to before `end` that go to each rank, and adds the counts to `into`. All threads of
 * the block call it. It begins and ends with a barrier. */
EP_DEVICE void rank_count_tokens(const EpArgs &a, const EpCall &c, uint32_t begin, uint32_t end, uint32_t (&into)[EP_RANKS]) {
  __syncthreads();
  uint32_t mine = 0;
  for (uint32_t first = begin; first < end; first += RANK_LOOKS * blockDim.x) {
    uint32_t mask[RANK_LOOKS];
#pragma unroll
    for (uint32_t i = 0; i < RANK_LOOKS; i++) {
      uint32_t token = first + i * blockDim.x + threadIdx.x;
      mask[i] = token < end ? rank_mask(a, token) : 0;
    }
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) {
      uint32_t n = 0;
#pragma unroll
      for (uint32_t i = 0; i < RANK_LOOKS; i++) n += __popc(__ballot_sync(EP_FULL_WARP, (mask[i] >> r & 1u) != 0));
      if (c.lane == static_cast<uint32_t>(r)) mine += n;
    }
  }
  if (c.lane < EP_RANKS && mine != 0) atomicAdd(&into[c.lane], mine);
  __syncthreads();
}

/* Is a barrier for the first c.warps warps of a block. With EP_STAGED the block's other warps receive at the same
 * time. */
EP_DEVICE void rank_meet(const EpCall &c) {
#ifdef EP_STAGED
  bar_sync(1, c.warps * 32);
#else
  __syncthreads();
#endif
}

EP_DEVICE void rank_mark(const EpCall &c, RankTile &t, uint32_t mask) {
#pragma unroll
  for (int r = 0; r < EP_RANKS; r++) {
    uint32_t goes = __ballot_sync(EP_FULL_WARP, (mask >> r & 1u) != 0);
    if (c.lane == 0) t.goes[c.warp][r] = goes;
  }
}

/* Lane r counts the tokens that go to rank r. It stores the count before each of `groups` groups, and returns the
 * count after the last group. `before` is the count before the first group. */
EP_DEVICE uint32_t rank_scan(const EpCall &c, RankTile &t, uint32_t before, uint32_t groups) {
  for (uint32_t g = 0; g < groups; g++) {
    t.before[g][c.lane] = before;
    before += __popc(t.goes[g][c.lane]);
  }
  return before;
}

/* Finds the places of the tokens from `first` to before `end`. The first c.warps warps call it, and each of their
 * threads handles at most one token. It adds these tokens to t.base, which counts the tokens before the tile. It
 * begins and ends with a barrier. */
EP_DEVICE void rank_place_tile(const EpArgs &a, const EpCall &c, RankTile &t, uint32_t first, uint32_t end) {
  uint32_t token = first + threadIdx.x;
  uint32_t mask = token < end ? rank_mask(a, token) : 0;
  rank_meet(c);
  rank_mark(c, t, mask);
  rank_meet(c);
  if (c.warp == 0 && c.lane < EP_RANKS) t.base[c.lane] = rank_scan(c, t, t.base[c.lane], c.warps);
  rank_meet(c);
}

/* rank_one_tile returns whether a block has a thread for each token of this rank. If so, rank_place_all finds the
 * places of all tokens and sets t.all. No thread may use the tile when rank_place_all is called. rank_place_all ends
 * with a barrier. */
EP_DEVICE bool rank_one_tile(const EpArgs &a) { return static_cast<uint32_t>(a.tokens) <= EP_THREADS; }
EP_DEVICE void rank_place_all(const EpArgs &a, const EpCall &c, RankTile &t) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens), groups = ceil_div(tokens, 32);
  rank_mark(c, t, threadIdx.x < tokens ? rank_mask(a, threadIdx.x) : 0);
  __syncthreads();
  if (c.warp == 0 && c.lane < EP_RANKS) t.all[c.lane] = rank_scan(c, t, 0, groups);
  __syncthreads();
}

/* rank_goes returns whether token `i` of the tile goes to rank `to`. rank_place returns the token's place on that
 * rank. */
EP_DEVICE bool rank_goes(const RankTile &t, uint32_t i, int to) { return (t.goes[i / 32][to] >> (i % 32) & 1u) != 0; }
EP_DEVICE uint32_t rank_place(const RankTile &t, uint32_t i, int to) {
  return t.before[i / 32][to] + __popc(t.goes[i / 32][to] & ((1u << (i % 32)) - 1));
}

/* The tokens that a block sends, from `begin` to before `end`. If there are fewer tokens than blocks, several blocks
 * send the units of one token. `share` is the number of these blocks, and `turn` is this block's index among them. */
struct RankRun {
  uint32_t begin, end, turn, share;
};
EP_DEVICE RankRun rank_run(const EpArgs &a, const EpCall &c) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens);
  uint32_t share = tokens == 0 || tokens >= c.senders ? 1 : c.senders / tokens;
  uint32_t runs = c.senders / share, each = (tokens + runs - 1) / runs, run = c.block / share;
  return {min(run * each, tokens), min((run + 1) * each, tokens), c.block % share, share};
}

/* Initialises the shared words. The functions that read them begin with a barrier. */
template <class Shared>
EP_DEVICE void rank_begin(Shared &s) {
  if (threadIdx.x == 0) s.failed = 0;
  if (threadIdx.x < EP_RANKS) s.tile.base[threadIdx.x] = s.tile.all[threadIdx.x] = 0;
}
