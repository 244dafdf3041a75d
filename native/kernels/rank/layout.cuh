/* The memory of the kernels of layout rank. A token has one row on each rank that has any of its experts. A message
 * holds the token, its local experts and their weights. The receiver polls its words (common/sentinel.cuh) and copies
 * them to the output.
 *
 * If EP_PACKED is 0, each sender has max_tokens rows of the output. If EP_PACKED is 1, rows have no gaps.
 *
 * Calls need no barrier between them. A dispatch ends only when the counts of every rank have arrived. A rank sends
 * its counts only after all its earlier calls have ended. So no rank is more than one call ahead, and two sets of
 * messages and counts are enough. A combine waits for the words in RANK_STARTED (common/started.cuh).
 *
 * dispatch_rank_home stores elements in the outputs of other ranks. It first waits until every rank has begun the
 * call, because a rank that has begun a call no longer needs the output of the call before. */
#pragma once

#include "common/call.cuh"
#include "common/token.cuh"

/* Regions of the state, in the order of kernels/cuda/declare/rank.go. R is the number of ranks, T is max_tokens and H
 * is the hidden size. "All ones" and "Zeroed" tell what a region contains before the first call. */
enum RankRegion {
  RANK_COUNTS,  /* [2][R source][R] u64: call << 32 | number of rows from the source for a rank. Zeroed */
  RANK_SLOTS,   /* [2][R source][T][RANK_SLOT_BYTES]. All ones */
  RANK_STARTED, /* [R] u32: last call of combine that each rank began. Zeroed */
  RANK_RETURN   /* [2][T][R][H] BF16: rows that are sent back. All ones */
};

static const uint32_t RANK_ELSEWHERE = 0xfffeu;

/* A message: elements, scales, then RANK_HEAD words: the token, K local experts, K weights. */
static const uint32_t RANK_HEAD = 1 + 2 * EP_TOPK;
static const uint32_t RANK_HEAD_LANE = (RANK_HEAD + 31) / 32;
static const uint32_t RANK_SLOT_BYTES = ep_up(EP_PAYLOAD + (EP_TOKEN_SCALES + RANK_HEAD) * 4, 128);

/* Returns this warp's index among the receiving warps. If each block sends and receives, the first units to send go to
 * its first warps, and the first units to receive go to its last warps. So in a small batch no warp both sends and
 * receives. */
EP_DEVICE uint32_t rank_receiver(const EpCall &c) {
  if (c.receivers == 0) return (c.warps - 1 - c.warp) * c.senders + c.block;
  return c.warp * c.receivers + c.block - c.senders;
}
EP_DEVICE uint32_t rank_receiving_warps(const EpCall &c) { return (c.receivers == 0 ? c.senders : c.receivers) * c.warps; }

/* A turn is a position in the order in which a source sends: the first message of every block, then the second
 * message of every block, and so on. rank_turns returns the number of turns of `rows` messages. rank_turn returns the
 * index of the message of turn i. If the turn has no message, it returns `rows` or a larger number. */
EP_DEVICE uint32_t rank_turns(const EpCall &c, uint32_t rows) { return (rows + c.senders - 1) / c.senders * c.senders; }
EP_DEVICE uint32_t rank_turn(const EpCall &c, uint32_t i, uint32_t rows) {
  uint32_t each = (rows + c.senders - 1) / c.senders;
  return i / c.senders < each ? i % c.senders * each + i / c.senders : rows;
}

EP_DEVICE uint64_t *rank_count_for(const EpArgs &a, int owner, uint32_t call, int source, int rank) {
  return ep_at<uint64_t>(a, owner, RANK_COUNTS) + ((call & 1) * EP_RANKS + source) * EP_RANKS + rank;
}
EP_DEVICE uint64_t *rank_count(const EpArgs &a, int owner, uint32_t call, int source) {
  return rank_count_for(a, owner, call, source, owner);
}
EP_DEVICE uint8_t *rank_slot(const EpArgs &a, int owner, uint32_t call, int source, uint32_t place) {
  return ep_at(a, owner, RANK_SLOTS) + ep_token_place(a, call & 1, source, place) * RANK_SLOT_BYTES;
}
EP_DEVICE uint32_t *rank_slot_head(uint8_t *slot) { return reinterpret_cast<uint32_t *>(slot + EP_PAYLOAD) + EP_TOKEN_SCALES; }

/* For each token of this rank: its place among this rank's own rows. */
EP_DEVICE int32_t *rank_places(const EpArgs &a) { return a.src_info + 2 * a.max_rows; }

EP_DEVICE uint32_t *ep_started(const EpArgs &a, int owner) { return ep_at<uint32_t>(a, owner, RANK_STARTED); }
EP_DEVICE uint8_t *rank_return(const EpArgs &a, int owner, uint32_t call, uint32_t token, uint32_t from) {
  uint64_t at = static_cast<uint64_t>(call & 1) * a.max_tokens + token;
  return ep_at(a, owner, RANK_RETURN) + (at * EP_RANKS + from) * (2 * EP_HIDDEN);
}
