/* Second half of dispatch. One auxiliary block waits for the counts and computes where rows go. The other blocks
 * copy received messages to the rows. */
#pragma once

#include "ep/dispatch_send.cuh"

struct EpOffsets {
  uint32_t pair_ends[EP_PAIRS];      /* by (local expert, source): rows of the pairs up to and including this one */
  uint32_t group_rows[EP_GROUPS];    /* padded rows of each group; after the scan, up to and including the group */
  uint32_t group_blocks[EP_GROUPS];
};

#ifdef EP_HOSTS /* hosts/dispatch_send.cuh and hosts/dispatch_counts.cuh have these functions */
static const bool EP_OVER_HOSTS = true;
EP_DEVICE bool ep_collect_messages(const EpArgs &a, const EpOffsets &o);
#else
static const bool EP_OVER_HOSTS = false;

EP_DEVICE bool ep_await_pair(const EpArgs &a, uint32_t pair, EpWait what, uint64_t *count) {
  return ep_await_count(a, ep_word(a, a.rank, EP_D_COUNT, pair), what, count);
}

EP_DEVICE bool ep_collect_messages(const EpArgs &a, const EpOffsets &) {
  bool ok = true;
  if (EP_ALGO == EP_DEDUP && threadIdx.x < EP_RANKS) {
    const int32_t source = static_cast<int32_t>(threadIdx.x);
    const EpWait what = {EP_PHASE_DISPATCH_WAIT, -1, source};
    uint64_t *word = ep_word(a, a.rank, EP_D_RANK, source), count = 0;
    ok = ep_await_count(a, word, what, &count) && count <= static_cast<uint64_t>(a.max_tokens);
    *ep_counter(a, EP_MESSAGES + source) = ok ? static_cast<int32_t>(count) : 0;
    st_relaxed_sys(word, EP_NOT_ARRIVED);
  }
  return __syncthreads_or(!ok) == 0;
}
#endif

EP_DEVICE bool ep_collect_counts(const EpArgs &a, EpOffsets &o) {
  bool ok = true;
  for (uint32_t i = threadIdx.x; i < EP_PAIRS; i += blockDim.x) {
    const EpWait what = {EP_PHASE_DISPATCH_WAIT, static_cast<int32_t>(a.rank * EP_LOCAL_EXPERTS + i / EP_SOURCES),
                         static_cast<int32_t>(EP_SKIP_A2A ? a.rank : i % EP_SOURCES)};
    uint64_t count = 0;
    if (ok) ok = ep_await_pair(a, i, what, &count);
    if (ok && count > static_cast<uint64_t>(a.max_tokens)) {
      ep_fault(a, what, static_cast<uint64_t>(a.max_tokens), count);
      ok = false;
    }
    o.pair_ends[i] = ok ? static_cast<uint32_t>(count) : 0;
  }
  return __syncthreads_or(!ok) == 0;
}

/* Returns the sum before item i, for inclusive prefix sums. */
EP_DEVICE uint32_t ep_before(const uint32_t *sums, uint32_t i) { return i > 0 ? sums[i - 1] : 0; }

EP_DEVICE uint32_t ep_rows_before(const EpOffsets &o, uint32_t local) {
  return local > 0 ? o.pair_ends[local * EP_SOURCES - 1] : 0;
}

EP_DEVICE void ep_pad_offsets(const EpArgs &a, EpOffsets &o) {
  for (uint32_t g = threadIdx.x; g < EP_GROUPS; g += blockDim.x) {
    const uint32_t rows = EP_SHARED && g == 0
                              ? static_cast<uint32_t>(ep_shared_slice(a).count)
                              : ep_rows_before(o, g - EP_SHARED + 1) - ep_rows_before(o, g - EP_SHARED);
    o.group_rows[g] = ep_up(rows, EP_ROW_PAD);
    o.group_blocks[g] = ceil_div(rows, EP_SCALE_ROWS);
  }
  __syncthreads();
  block_scan(o.group_rows, EP_GROUPS);
  if (EP_DTYPE == EP_NVFP4) block_scan(o.group_blocks, EP_GROUPS);
  for (uint32_t g = threadIdx.x; g < EP_GROUPS; g += blockDim.x) {
    const uint32_t start = g > 0 ? o.group_rows[g - 1] : 0;
    a.row_offsets[g + 1] = o.group_rows[g];
    a.expert_ids[g] = static_cast<int32_t>(g);
    if (EP_DTYPE == EP_NVFP4) a.scale_offsets[g] = (g > 0 ? o.group_blocks[g - 1] : 0) - start / EP_SCALE_ROWS;
  }
  if (threadIdx.x == 0) a.row_offsets[0] = 0;
}

/* Writes EP_PREFIX, each expert's row counts added up over sources, for the copying blocks. Zeroes the counters by
 * which these blocks claim work. */
EP_DEVICE void ep_publish_prefixes(const EpArgs &a, const EpOffsets &o) {
  for (uint32_t i = threadIdx.x; i < EP_PAIRS; i += blockDim.x) {
    const uint32_t local = i / EP_SOURCES;
    *ep_counter(a, EP_PREFIX + i) = static_cast<int32_t>(o.pair_ends[i] - ep_rows_before(o, local));
    st_relaxed_gpu(ep_counter(a, EP_CURSOR + i), 0);
    if (i % EP_SOURCES == 0) st_relaxed_gpu(ep_counter(a, EP_TILE + local), 0);
  }
}

/* Writes {EP_READY_FLAG + end row, rows} of each pair, for combine, and sets the count words back to "not
 * arrived". */
EP_DEVICE void ep_publish_pairs(const EpArgs &a, const EpOffsets &o) {
  for (uint32_t i = threadIdx.x; i < EP_PAIRS; i += blockDim.x) {
    const uint32_t local = i / EP_SOURCES;
    const uint32_t end = ep_before(o.group_rows, local + EP_SHARED) + o.pair_ends[i] - ep_rows_before(o, local);
    ep_counter(a, EP_PAIR)[2 * i] = static_cast<int32_t>(EP_READY_FLAG + end);
    ep_counter(a, EP_PAIR)[2 * i + 1] = static_cast<int32_t>(o.pair_ends[i] - ep_before(o.pair_ends, i));
    if (!EP_OVER_HOSTS) st_relaxed_sys(ep_word(a, a.rank, EP_D_COUNT, i), EP_NOT_ARRIVED);
  }
}

static __device__ void ep_offsets_block(const EpArgs &a) {
  __shared__ EpOffsets o;
  if (!ep_collect_counts(a, o) || !ep_collect_messages(a, o)) return;
  if (!EP_OVER_HOSTS) ep_span_stage(a, EP_STAGE_READY);
  if (EP_ALGO == EP_DIRECT) ep_span_stage(a, EP_STAGE_ARRIVED); /* under direct, counts are sent after the rows */
  block_scan(o.pair_ends, EP_PAIRS);
  ep_pad_offsets(a, o);
  ep_publish_prefixes(a, o);
  if (EP_ALGO == EP_DEDUP) ep_publish_pairs(a, o);
  __syncthreads();
  if (threadIdx.x == 0) {
    st_relaxed_gpu(ep_counter(a, EP_CLEANUP), static_cast<int32_t>(gridDim.x - 1));
    st_relaxed_gpu(ep_counter(a, EP_CLAIM), 0);
    st_release_gpu(ep_counter(a, EP_READY), EP_READY_FLAG);
  }
  /* Under direct only combine reads the pairs, so they are written after the copying blocks have been released. */
  if (EP_ALGO == EP_DIRECT) ep_publish_pairs(a, o);
}

EP_DEVICE uint32_t ep_tile_rows(const EpArgs &a) { return static_cast<uint32_t>(a.tile_tokens); }

EP_DEVICE uint32_t ep_first_block(const EpArgs &a, uint32_t group) {
  return EP_DTYPE == EP_NVFP4 ? a.row_offsets[group] / EP_SCALE_ROWS + a.scale_offsets[group] : 0;
}

EP_DEVICE void ep_place_row(const EpArgs &a, const uint8_t *message, EpRow r) {
  warp_memcpy<EP_IN_FLIGHT>(a.out + r.row * EP_PAYLOAD_BYTES, message, EP_PAYLOAD_BYTES);
  ep_store_scales<EP_DTYPE, EP_HIDDEN>(a.out_scales, message + EP_SCALES_AT, r, a.max_rows);
}

/* Direct: writes a row's token and top-k position to src_info. The position is the lane whose id is this expert. */
EP_DEVICE void ep_note_source(const EpArgs &a, const uint8_t *message, int64_t row, uint32_t expert) {
  if (lane_id() >= EP_TOPK) return;
  if (reinterpret_cast<const uint16_t *>(message + EP_IDS_AT)[lane_id()] != expert) return;
  a.src_info[2 * row] = *reinterpret_cast<const int32_t *>(message + EP_TOKEN_BYTES);
  a.src_info[2 * row + 1] = static_cast<int32_t>(lane_id());
}

EP_DEVICE uint32_t ep_rows_to_visit(uint32_t rows) { return EP_DTYPE == EP_NVFP4 ? ep_up(rows, EP_SCALE_ROWS) : rows; }

/* Copies rows [from, to) of a local expert. The prefixes give a row's source and its slot there. */
EP_DEVICE void ep_copy_tile(const EpArgs &a, uint32_t local, uint32_t from, uint32_t to, const int32_t *prefix) {
  const uint32_t group = local + EP_SHARED;
  const int64_t start = a.row_offsets[group];
  const uint32_t first_block = ep_first_block(a, group);
  const uint32_t expert = static_cast<uint32_t>(a.rank) * EP_LOCAL_EXPERTS + local;
  const uint8_t *recv = ep_region(a, a.rank, EP_D_RECV);
  for (uint32_t i = from + warp_id(); i < to; i += warps_in_block()) {
    const EpRow r = {start + i, i, first_block};
    if (i >= static_cast<uint32_t>(prefix[EP_SOURCES - 1])) {
      ep_zero_scales<EP_HIDDEN>(a.out_scales, r);
      continue;
    }
    uint32_t source = 0;
    while (i >= static_cast<uint32_t>(prefix[source])) source++;
    const uint32_t slot = i - static_cast<uint32_t>(source > 0 ? prefix[source - 1] : 0);
    const uint8_t *message = recv + recv_buf_layout(local, source, slot, a.max_tokens);
    ep_place_row(a, message, r);
    ep_note_source(a, message, r.row, expert);
  }
}

/* Claims and copies tiles of one local expert, until none is left. If two statements before a barrier are for thread 0
 * only, ptxas 13.0 joins them, and lanes 1 to 31 pass the barrier too early. So the claim is the only such statement:
 * every thread reads the prefixes itself. */
EP_DEVICE void ep_copy_expert(const EpArgs &a, uint32_t local) {
  __shared__ uint32_t claimed;
  const int32_t *prefix = ep_counter(a, EP_PREFIX + local * EP_SOURCES);
  const uint32_t rows = ep_rows_to_visit(static_cast<uint32_t>(prefix[EP_SOURCES - 1]));
  for (;;) {
    if (threadIdx.x == 0) claimed = static_cast<uint32_t>(add_relaxed_gpu(ep_counter(a, EP_TILE + local), 1));
    __syncthreads();
    const uint32_t from = claimed * ep_tile_rows(a);
    if (from < rows) ep_copy_tile(a, local, from, min(from + ep_tile_rows(a), rows), prefix);
    __syncthreads();
    if (from + ep_tile_rows(a) >= rows) return;
  }
}

EP_DEVICE void ep_copy_experts(const EpArgs &a, uint32_t block, uint32_t blocks) {
  if (blocks >= EP_LOCAL_EXPERTS) {
    ep_copy_expert(a, block % EP_LOCAL_EXPERTS);
    return;
  }
  for (uint32_t local = block; local < EP_LOCAL_EXPERTS; local += blocks) ep_copy_expert(a, local);
}

EP_DEVICE void ep_leave_copying(const EpArgs &a) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (add_acq_rel_gpu(ep_counter(a, EP_CLEANUP), -1) == 1) st_relaxed_gpu(ep_counter(a, EP_READY), 0);
}

EP_DEVICE bool ep_await_ready(const EpArgs &a) {
  return ep_block_wait([&] {
    return ep_await_counter(a, ep_counter(a, EP_READY), {EP_PHASE_DISPATCH_WAIT, -1, -1}, EP_READY_FLAG);
  });
}

/* Waits until every sending block has written its tokens to the send buffer. The last waiting block resets both
 * counters. */
EP_DEVICE bool ep_await_staged(const EpArgs &a, uint32_t waiters) {
  const int32_t senders = static_cast<int32_t>(gridDim.x) - a.count_sms;
  return ep_block_wait([&] {
    if (!ep_await_counter(a, ep_counter(a, EP_SHARED_READY), {EP_PHASE_DISPATCH_WAIT, -1, a.rank}, senders)) return false;
    if (add_acq_rel_gpu(ep_counter(a, EP_SHARED_STARTED), 1) == static_cast<int32_t>(waiters) - 1) {
      st_relaxed_gpu(ep_counter(a, EP_SHARED_STARTED), 0);
      st_relaxed_gpu(ep_counter(a, EP_SHARED_READY), 0);
    }
    return true;
  });
}

/* Copies this rank's own tokens to the shared expert's rows, group 0. Blocks are counted from the end of the grid:
 * the last blocks have the fewest tokens to send. */
static __device__ bool ep_copy_shared(const EpArgs &a, uint32_t block, uint32_t blocks) {
  const EpSlice slice = ep_shared_slice(a);
  const uint32_t rows = ep_rows_to_visit(static_cast<uint32_t>(slice.count)), tile = ep_tile_rows(a);
  const uint32_t workers = max(1u, min(ceil_div(rows, tile), blocks));
  const uint32_t me = blocks - 1 - block;
  if (me >= workers) return true;
  if (!ep_await_staged(a, workers)) return false;
  const uint8_t *send = ep_region(a, a.rank, EP_D_SEND);
  for (uint32_t i = me * warps_in_block() + warp_id(); i < rows; i += workers * warps_in_block()) {
    const EpRow r = {i, i, 0};
    if (i < static_cast<uint32_t>(slice.count)) {
      ep_place_row(a, send + send_buf_layout(slice.start + i), r);
    } else {
      ep_zero_scales<EP_HIDDEN>(a.out_scales, r);
    }
  }
  return true;
}
