/* Functions that all dispatches of the layout named rank use.
 *
 *   EP_UNIT_BYTES  message bytes that a warp moves at a time (a unit)
 *   EP_RAW         see common/message.cuh */
#pragma once

#include "common/message.cuh"
#include "rank/layout.cuh"

static const uint32_t RANK_STEP = EP_UNIT_BYTES / 512; /* vectors of a lane */
static const uint32_t RANK_UNITS = (EP_VECTORS + 32 * RANK_STEP - 1) / (32 * RANK_STEP); /* units in a message */

EP_DEVICE uint4 *rank_out(const EpArgs &a, uint64_t row) { return reinterpret_cast<uint4 *>(a.out + row * EP_PAYLOAD); }
EP_DEVICE uint32_t *rank_out_scale(const EpArgs &a, uint64_t row, uint32_t vector) {
  return reinterpret_cast<uint32_t *>(a.out_scales) + row * EP_TOKEN_SCALES + vector / 8;
}

EP_DEVICE void rank_put_head(const EpArgs &a, uint32_t source, uint64_t row, uint32_t i, uint32_t word) {
  if (i == 0) {
    a.src_info[2 * row] = static_cast<int32_t>(word);
    a.src_info[2 * row + 1] = static_cast<int32_t>(source);
    if (a.row_tokens != nullptr) a.row_tokens[row] = static_cast<int32_t>(word);
  } else if (i <= EP_TOPK) {
    int32_t expert = word == RANK_ELSEWHERE ? -1 : static_cast<int32_t>(word);
    uint64_t at = row * EP_TOPK + i - 1;
    if (a.row_tokens != nullptr) {
      reinterpret_cast<int64_t *>(a.expert_ids)[at] = expert;
    } else {
      a.expert_ids[at] = expert;
    }
  } else {
    a.scale_offsets[row * EP_TOPK + i - 1 - EP_TOPK] = word;
  }
}

struct RankUnit {
  EpInput in[RANK_STEP];
};
EP_DEVICE RankUnit rank_load(const EpArgs &a, uint32_t token, uint32_t first, bool exists) {
  RankUnit u;
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    uint32_t vector = first + 32 * v;
    u.in[v] = ep_load_input(a, token, vector, exists && vector < EP_VECTORS);
  }
  return u;
}

/* Returns word i of the head of a token's message to a rank. */
EP_DEVICE uint32_t rank_head(const EpArgs &a, uint32_t token, int to, uint32_t i) {
  if (i == 0) return token;
  uint32_t k = (i - 1) % EP_TOPK;
  int32_t id = ep_id(a, token * EP_TOPK + k);
  bool there = id >= 0 && id / EP_LOCAL_EXPERTS == to;
  if (i <= EP_TOPK) return there ? static_cast<uint32_t>(id % EP_LOCAL_EXPERTS) : RANK_ELSEWHERE;
  uint32_t weight = there ? __float_as_uint(a.weights[token * EP_TOPK + k]) : 0;
  return weight == EP_SENTINEL ? 0x7fffffffu : weight; /* EP_SENTINEL marks an empty word */
}

/* Sends the head of a token's message to a rank: to `slot`, or with `direct` to a row of this rank's own output. */
EP_DEVICE void rank_send_head(const EpArgs &a, const EpCall &c, uint32_t token, int to, uint8_t *slot, bool direct,
                              uint64_t row) {
  for (uint32_t w = c.lane; w < RANK_HEAD; w += 32) {
    uint32_t word = rank_head(a, token, to, w);
    if (direct) {
      rank_put_head(a, a.rank, row, w, word);
    } else {
      st_relaxed_sys(rank_slot_head(slot) + w, word);
    }
  }
}
