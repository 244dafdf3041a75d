/* Exchanges counts of rows, and finds where the rows of each rank begin. dispatch_rank_home and dispatch_rank_staged
 * use it. */
#pragma once

#include "rank/tokens.cuh"

struct RankHomeShared {
  RankTile tile;
  uint32_t rows[EP_RANKS][EP_RANKS];
  uint32_t first[EP_RANKS];          /* first row of each source on this rank */
  uint32_t there[EP_RANKS];          /* first row from this rank on each rank */
  uint32_t failed;
};

/* Tells every rank that this rank has begun the call. With EP_PACKED the function does nothing, because the counts say
 * this too. Without EP_PACKED, a rank is told only how many rows it gets. In its RANK_COUNTS, the word for the rows
 * that this rank sends to itself is free, and takes the signal. */
EP_DEVICE void rank_home_begin(const EpArgs &a, const EpCall &c) {
  if (EP_PACKED || c.block != 0 || threadIdx.x >= EP_RANKS || threadIdx.x == static_cast<uint32_t>(a.rank)) return;
  int to = static_cast<int>(threadIdx.x);
  if (!ep_alive(a, to)) return;
  st_relaxed_sys(rank_count_for(a, to, c.number, a.rank, a.rank), static_cast<uint64_t>(c.number) << 32);
}

EP_DEVICE void rank_home_tell(const EpArgs &a, const EpCall &c, const uint32_t (&all)[EP_RANKS]) {
  for (uint32_t i = threadIdx.x; i < EP_RANKS * EP_RANKS; i += blockDim.x) {
    int to = static_cast<int>((static_cast<uint32_t>(a.rank) + i / EP_RANKS) % EP_RANKS), of = static_cast<int>(i % EP_RANKS);
    if (!ep_alive(a, to) || (!EP_PACKED && of != to)) continue;
    if (a.drop_signal > 0 && (a.drop_signal - 1) / EP_LOCAL_EXPERTS == to) continue;
    st_relaxed_sys(rank_count_for(a, to, c.number, a.rank, of), static_cast<uint64_t>(c.number) << 32 | all[of]);
  }
}

EP_DEVICE uint32_t rank_home_wait_count(const EpArgs &a, const EpCall &c, RankHomeShared &s, int source, int rank) {
  if (!ep_alive(a, source)) return 0;
  uint32_t rows;
  if (!ep_wait_word(a, rank_count_for(a, a.rank, c.number, source, rank), {EP_PHASE_DISPATCH_WAIT, -1, source}, c.number, &rows)) s.failed = 1;
  return rows;
}

/* Waits for the counts, and finds where the rows of each source begin. All threads call it. It begins and ends with a
 * barrier. */
EP_DEVICE void rank_home_counts(const EpArgs &a, const EpCall &c, RankHomeShared &s) {
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < EP_RANKS * EP_RANKS; i += blockDim.x) {
    int source = static_cast<int>(i / EP_RANKS), rank = static_cast<int>(i % EP_RANKS);
    if (EP_PACKED || rank == a.rank) s.rows[source][rank] = rank_home_wait_count(a, c, s, source, rank);
  }
  __syncthreads();
  if (threadIdx.x < EP_RANKS) {
    uint32_t r = threadIdx.x, here = r * static_cast<uint32_t>(a.max_tokens), there = static_cast<uint32_t>(a.rank) * static_cast<uint32_t>(a.max_tokens);
    if (EP_PACKED) {
      here = there = 0;
      for (uint32_t q = 0; q < r; q++) here += s.rows[q][a.rank];
      for (int q = 0; q < a.rank; q++) there += s.rows[q][r];
    }
    s.first[r] = here;
    s.there[r] = there;
  }
  __syncthreads();
}

/* Waits until this rank may store rows on all other ranks, and computes where its rows begin there. All threads call
 * it. It begins and ends with a barrier. */
EP_DEVICE void rank_home_ready(const EpArgs &a, const EpCall &c, RankHomeShared &s) {
  if (EP_PACKED) {
    rank_home_counts(a, c, s);
    return;
  }
  __syncthreads();
  if (threadIdx.x < EP_RANKS) {
    int r = static_cast<int>(threadIdx.x);
    if (r != a.rank) rank_home_wait_count(a, c, s, r, r);
    s.there[r] = static_cast<uint32_t>(a.rank) * static_cast<uint32_t>(a.max_tokens);
  }
  __syncthreads();
}

EP_DEVICE void rank_home_leave_counts(const EpArgs &a, const RankHomeShared &s) {
  if (threadIdx.x > EP_RANKS) return;
  uint32_t rows = 0;
  for (uint32_t q = 0; q < (threadIdx.x == EP_RANKS ? EP_RANKS : 0); q++) rows += s.rows[q][a.rank];
  if (threadIdx.x < EP_RANKS) rows = EP_PACKED ? s.first[threadIdx.x] : s.rows[threadIdx.x][a.rank];
  a.row_offsets[threadIdx.x] = rows;
}

EP_DEVICE uint64_t rank_row_on(const RankHomeShared &s, uint32_t i, int to) { return s.there[to] + static_cast<uint64_t>(rank_place(s.tile, i, to)); }

/* Sets s.tile.base to the number of tokens before `begin` that go to each rank. Then it waits until this rank may
 * store rows on all other ranks. The last sending block first counts all tokens and sends the counts, because every
 * rank waits for these counts. All threads of a sending block call it. It ends with a barrier. */
EP_DEVICE void rank_home_prepare(const EpArgs &a, const EpCall &c, RankHomeShared &s, uint32_t begin) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens);
  if (c.block == c.senders - 1) {
    rank_count_tokens(a, c, 0, tokens, s.tile.all);
    rank_home_tell(a, c, s.tile.all);
    rank_count_tokens(a, c, begin, tokens, s.tile.base);
    if (threadIdx.x < EP_RANKS) s.tile.base[threadIdx.x] = s.tile.all[threadIdx.x] - s.tile.base[threadIdx.x];
  } else {
    rank_count_tokens(a, c, 0, begin, s.tile.base);
  }
  rank_home_ready(a, c, s);
}
