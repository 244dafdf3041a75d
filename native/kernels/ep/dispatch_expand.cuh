/* The receiving half of dispatch with algo=dedup. A message names all experts of its token. The receiving rank copies
 * the message to one row of each of those experts that it has. Blocks take rows by counters, so the order of the rows
 * from one source changes from run to run. */
#pragma once

#include "ep/dispatch_wait.cuh"

/* Assigns the rows of a message. Returns in lane k the row of top-k position k, or -1 if its expert is on another
 * rank. */
EP_DEVICE int64_t ep_take_row(const EpArgs &a, const uint8_t *message, uint32_t source, uint32_t *local) {
  const uint32_t k = lane_id();
  if (k >= EP_TOPK) return -1;
  const uint32_t expert = reinterpret_cast<const uint16_t *>(message + EP_IDS_AT)[k];
  *local = expert - static_cast<uint32_t>(a.rank) * EP_LOCAL_EXPERTS;
  if (expert == EP_NO_EXPERT || *local >= EP_LOCAL_EXPERTS) return -1;
  const uint32_t pair = recv_count_layout(*local, source);
  const int32_t rows = ep_counter(a, EP_PAIR)[2 * pair + 1];
  const int32_t start = ep_counter(a, EP_PAIR)[2 * pair] - EP_READY_FLAG - rows;
  const int32_t i = add_relaxed_gpu(ep_counter(a, EP_CURSOR + pair), 1);
  if (i < rows) return start + i;
  ep_fault(a, {EP_PHASE_DISPATCH_WAIT, static_cast<int32_t>(expert), static_cast<int32_t>(source)},
           static_cast<uint64_t>(rows), static_cast<uint64_t>(i) + 1);
  return -1;
}

EP_DEVICE void ep_expand_message(const EpArgs &a, uint32_t source, uint32_t slot) {
  const uint64_t index = static_cast<uint64_t>(source) * a.max_tokens + slot;
  const uint8_t *message = ep_region(a, a.rank, EP_D_RECV) + recv_buf_layout(0, source, slot, a.max_tokens);
  uint32_t local = 0;
  const int64_t row = ep_take_row(a, message, source, &local);
  if (lane_id() < EP_TOPK)
    reinterpret_cast<int32_t *>(ep_region(a, a.rank, EP_D_ROWS))[index * EP_TOPK + lane_id()] = static_cast<int32_t>(row);
  if (row >= 0) ep_note_row(a, row, *reinterpret_cast<const int32_t *>(message + EP_TOKEN_BYTES), lane_id());
  const uint32_t owners = __ballot_sync(EP_FULL_WARP, row >= 0);
  warp_spread<EP_IN_FLIGHT>(a.out, EP_PAYLOAD_BYTES, message, row, owners);
  for (uint32_t todo = EP_DTYPE == EP_BF16 ? 0 : owners; todo != 0; todo &= todo - 1) {
    const int k = __ffs(todo) - 1;
    const int64_t to = __shfl_sync(EP_FULL_WARP, row, k);
    const uint32_t group = __shfl_sync(EP_FULL_WARP, local, k) + EP_SHARED;
    const EpRow r = {to, static_cast<uint32_t>(to - a.row_offsets[group]), ep_first_block(a, group)};
    ep_store_scales<EP_DTYPE, EP_HIDDEN>(a.out_scales, message + EP_SCALES_AT, r, a.max_rows);
  }
}

/* A tile of the messages of one source. Each rank begins with its own messages, so that ranks wait for different
 * sources. */
struct EpMessageTile {
  int32_t source;
  uint32_t first, end;
};
EP_DEVICE EpMessageTile ep_find_tile(const EpArgs &a, uint32_t tile) {
  for (uint32_t i = 0; i < EP_RANKS; i++) {
    const int32_t source = static_cast<int32_t>((a.rank + i) % EP_RANKS);
    const uint32_t messages = static_cast<uint32_t>(*ep_counter(a, EP_MESSAGES + source));
    const uint32_t tiles = ceil_div(messages, ep_tile_rows(a));
    if (tile < tiles) return {source, tile * ep_tile_rows(a), min((tile + 1) * ep_tile_rows(a), messages)};
    tile -= tiles;
  }
  return {-1, 0, 0};
}

/* Zeroes the scales of the padding rows after each group (NVFP4). */
EP_DEVICE void ep_zero_group_tails(const EpArgs &a, uint32_t block, uint32_t blocks) {
  if (EP_DTYPE != EP_NVFP4) return;
  const uint32_t warps = blocks * warps_in_block();
  for (uint32_t local = block * warps_in_block() + warp_id(); local < EP_LOCAL_EXPERTS; local += warps) {
    const uint32_t group = local + EP_SHARED;
    const uint32_t rows = static_cast<uint32_t>(*ep_counter(a, EP_PREFIX + (local + 1) * EP_SOURCES - 1));
    for (uint32_t i = rows; i < ep_up(rows, EP_SCALE_ROWS); i++)
      ep_zero_scales<EP_HIDDEN>(a.out_scales, {a.row_offsets[group] + i, i, ep_first_block(a, group)});
  }
}

/* Claims and copies tiles until none is left. It waits for a source only after it has claimed a tile of that
 * source. */
static __device__ bool ep_expand_messages(const EpArgs &a, uint32_t block, uint32_t blocks) {
  __shared__ EpMessageTile tile;
  ep_zero_group_tails(a, block, blocks);
  for (;;) {
    const bool arrived = ep_block_wait([&] {
      tile = ep_find_tile(a, static_cast<uint32_t>(add_relaxed_gpu(ep_counter(a, EP_CLAIM), 1)));
      return tile.source < 0 || ep_await_value(a, ep_word(a, a.rank, EP_D_RANK, EP_RANKS + tile.source),
                                               {EP_PHASE_DISPATCH_WAIT, -1, tile.source}, ep_round(a));
    });
    if (!arrived) return false;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    if (tile.source < 0) return true;
    for (uint32_t i = tile.first + warp_id(); i < tile.end; i += warps_in_block())
      ep_expand_message(a, static_cast<uint32_t>(tile.source), i);
    __syncthreads();
  }
}
