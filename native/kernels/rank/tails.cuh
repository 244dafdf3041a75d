/* Sends and receives messages that contain the scales and the head of a row, but not its elements. A sender first
 * stores the row's elements, then the message. When the message has arrived, the elements have arrived too. */
#pragma once

#include "rank/counts.cuh"
#include "rank/rows.cuh"

static const uint32_t RANK_SCALE_LANE = (EP_TOKEN_SCALES + 31) / 32; /* scales of a lane */
static const uint32_t RANK_TAIL = EP_TOKEN_SCALES + RANK_HEAD;       /* words of a message */
static const uint32_t RANK_TAIL_LANE = (RANK_TAIL + 31) / 32;
static const uint32_t RANK_TAILS = 4;
static const uint32_t RANK_PEERS = EP_RANKS > 1 ? EP_RANKS - 1 : 1;

/* ---- sending ---- */

/* The scales of a token: word[i] of a lane is scale i * 32 + lane. */
struct RankScales {
  uint32_t word[RANK_SCALE_LANE + 1];
};

/* Passes scales to the lanes that will store them. In each step a warp converts 32 vectors, one in each lane, and then
 * every eighth lane has a scale. `step` is the number of the step. */
EP_DEVICE void rank_keep_scales(uint32_t lane, uint32_t step, uint32_t scale, RankScales &kept) {
  uint32_t word = __shfl_sync(EP_FULL_WARP, scale, lane % 4 * 8);
#pragma unroll
  for (uint32_t i = 0; i < RANK_SCALE_LANE; i++)
    if (step / 8 == i && lane / 4 == step % 8) kept.word[i] = word;
}

/* Writes the scales and the head of a token to its row on this rank and to the slots of other ranks. A barrier and a
 * fence before these writes ensure that other ranks see the warp's elements first. */
EP_DEVICE void rank_home_end(const EpArgs &a, const EpCall &c, const RankHomeShared &s, uint32_t token, uint32_t i, const RankScales &kept) {
  __syncwarp();
  fence_acq_rel_sys();
  for (uint32_t j = 1; j <= EP_RANKS; j++) {
    int to = static_cast<int>((static_cast<uint32_t>(a.rank) + j) % EP_RANKS);
    if (!rank_goes(s.tile, i, to)) continue;
    bool own = to == a.rank;
    uint32_t place = rank_place(s.tile, i, to);
    uint64_t row = rank_row_on(s, i, to);
    uint8_t *slot = rank_slot(a, to, c.number, a.rank, place);
    uint32_t *scales = own ? rank_out_scale(a, row, 0) : ep_slot_scale(slot, 0);
#pragma unroll
    for (uint32_t w = 0; w < RANK_SCALE_LANE; w++)
      if (w * 32 + c.lane < EP_TOKEN_SCALES) st_relaxed_sys(scales + w * 32 + c.lane, kept.word[w]);
    rank_send_head(a, c, token, to, slot, own, row);
    if (own && c.lane == 0) rank_places(a)[token] = static_cast<int32_t>(place);
  }
}

/* ---- receiving ---- */

/* A message in the registers of a warp: word[i] of a lane is word i * 32 + lane. */
struct RankTailWords {
  uint32_t source, place;
  bool exists;
  uint32_t word[RANK_TAIL_LANE];
};

/* Returns which message belongs to `job`. */
EP_DEVICE RankTailWords rank_tail(const EpCall &c, const RankHomeShared &s, int rank, uint32_t job) {
  RankTailWords m;
  m.source = (static_cast<uint32_t>(rank) + 1 + job % RANK_PEERS) % EP_RANKS;
  m.place = rank_turn(c, job / RANK_PEERS, s.rows[m.source][rank]);
  m.exists = m.place < s.rows[m.source][rank];
  return m;
}

EP_DEVICE bool rank_wait_tails(const EpArgs &a, const EpCall &c, RankTailWords (&m)[RANK_TAILS]) {
  EpSpin spin;
  for (;;) {
    uint32_t missing = 0;
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++) {
      const uint32_t *words = ep_slot_scale(rank_slot(a, a.rank, c.number, m[b].source, m[b].exists ? m[b].place : 0), 0);
#pragma unroll
      for (uint32_t i = 0; i < RANK_TAIL_LANE; i++) {
        m[b].word[i] = 0;
        if (m[b].exists && i * 32 + c.lane < RANK_TAIL) m[b].word[i] = ld_relaxed_sys(words + i * 32 + c.lane);
      }
    }
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++)
#pragma unroll
      for (uint32_t i = 0; i < RANK_TAIL_LANE; i++)
        if (m[b].word[i] == EP_SENTINEL) missing |= 1u << m[b].source;
    missing = __reduce_or_sync(EP_FULL_WARP, missing);
    if (missing == 0) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, __ffs(missing) - 1}, 1, 0)) return false;
  }
}

EP_DEVICE void rank_take_tail(const EpArgs &a, const EpCall &c, const RankHomeShared &s, const RankTailWords &m) {
  uint64_t row = s.first[m.source] + static_cast<uint64_t>(m.place);
  uint32_t *words = ep_slot_scale(rank_slot(a, a.rank, c.number, m.source, m.place), 0);
#pragma unroll
  for (uint32_t i = 0; i < RANK_TAIL_LANE; i++) {
    uint32_t w = i * 32 + c.lane;
    if (w >= RANK_TAIL) continue;
    if (w < EP_TOKEN_SCALES) {
      rank_out_scale(a, row, 0)[w] = m.word[i];
    } else {
      rank_put_head(a, m.source, row, w - EP_TOKEN_SCALES, m.word[i]);
    }
    st_relaxed_sys(words + w, EP_SENTINEL);
  }
}
