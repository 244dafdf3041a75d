/* Finds to which ranks each of this rank's tokens goes. A token's place is its number among this rank's tokens for one
 * rank. Places depend only on the top-k ids. */
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
  uint32_t all[EP_RANKS];                 /* all this rank's tokens for the rank, if counted */
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

/* Adds to `into` the number of tokens of [begin, end) that go to each rank. All threads of the block call it. It
 * begins and ends with a barrier. */
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

/* Waits for the first c.warps warps. With EP_STAGED the other warps receive meanwhile. */
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

/* Stores the number of tokens for rank `lane` before each of `groups` groups, and returns the number after them. */
EP_DEVICE uint32_t rank_scan(const EpCall &c, RankTile &t, uint32_t before, uint32_t groups) {
  for (uint32_t g = 0; g < groups; g++) {
    t.before[g][c.lane] = before;
    before += __popc(t.goes[g][c.lane]);
  }
  return before;
}

/* Finds the places of tokens [first, end), at most one for each thread of the first c.warps warps, which call it.
 * `base` holds the tokens before them and is advanced. It begins and ends with a barrier. */
EP_DEVICE void rank_place_tile(const EpArgs &a, const EpCall &c, RankTile &t, uint32_t first, uint32_t end) {
  uint32_t token = first + threadIdx.x;
  uint32_t mask = token < end ? rank_mask(a, token) : 0;
  rank_meet(c);
  rank_mark(c, t, mask);
  rank_meet(c);
  if (c.warp == 0 && c.lane < EP_RANKS) t.base[c.lane] = rank_scan(c, t, t.base[c.lane], c.warps);
  rank_meet(c);
}

/* Returns whether a block has a thread for each token of this rank. If so, rank_place_all finds the places of all
 * tokens and sets `all`. It ends with a barrier; no thread may use the tile when it is called. */
EP_DEVICE bool rank_one_tile(const EpArgs &a) { return static_cast<uint32_t>(a.tokens) <= EP_THREADS; }
EP_DEVICE void rank_place_all(const EpArgs &a, const EpCall &c, RankTile &t) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens), groups = ceil_div(tokens, 32);
  uint32_t mask = threadIdx.x < tokens ? rank_mask(a, threadIdx.x) : 0;
  rank_mark(c, t, mask);
  __syncthreads();
  if (c.warp == 0 && c.lane < EP_RANKS) t.all[c.lane] = rank_scan(c, t, 0, groups);
  __syncthreads();
}

/* rank_goes returns whether token `i` of the tile goes to rank `to`. rank_place returns its place. */
EP_DEVICE bool rank_goes(const RankTile &t, uint32_t i, int to) { return (t.goes[i / 32][to] >> (i % 32) & 1u) != 0; }
EP_DEVICE uint32_t rank_place(const RankTile &t, uint32_t i, int to) {
  return t.before[i / 32][to] + __popc(t.goes[i / 32][to] & ((1u << (i % 32)) - 1));
}

/* The tokens [begin, end) that a block sends. If there are fewer tokens than blocks, `share` blocks share a token:
 * each block takes every share-th unit, from unit `turn` on. */
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
