/* First half of combine: sends experts' rows back. Direct: each row goes to slot [token][k]. Dedup: the rows of
 * one token on this rank are weighted and summed, and the sum goes to slot [token][rank]. Combine changes nothing that
 * dispatch wrote, so another combine can follow. */
#pragma once

#include "ep/signal.cuh"

struct EpPair {
  uint32_t local, source;
  int64_t start, end;
};

EP_DEVICE EpPair ep_pair(const EpArgs &a, uint32_t index) {
  uint32_t source = index / EP_LOCAL_EXPERTS;
  if (a.rotate) source = (source + static_cast<uint32_t>(a.rank)) % EP_SOURCES;
  const uint32_t local = index % EP_LOCAL_EXPERTS;
  const int32_t *pair = ep_counter(a, EP_PAIR + 2 * recv_count_layout(local, source));
  const int64_t end = pair[0] - EP_READY_FLAG;
  return {local, source, end - pair[1], end};
}

EP_DEVICE int32_t ep_source_rank(const EpArgs &a, uint32_t source) {
  return EP_SKIP_A2A ? a.rank : static_cast<int32_t>(source);
}

/* Returns the slot of a row on its token's rank, or null if src_info names no slot. */
EP_DEVICE uint8_t *ep_return_slot(const EpArgs &a, int64_t row, int32_t rank) {
  const int32_t token = a.src_info[2 * row], k = a.src_info[2 * row + 1];
  if (token < 0 || token >= a.max_tokens || k < 0 || k >= EP_TOPK) return nullptr;
  return ep_region(a, rank, EP_C_RECV) + combine_buf_layout(static_cast<uint64_t>(token), static_cast<uint32_t>(k));
}

/* Copies the rows of a pair (local expert, source), EP_ROWS rows at a time, with the whole block. */
#ifndef EP_ROWS
#define EP_ROWS 1
#endif
EP_DEVICE void ep_return_rows(const EpArgs &a, const EpPair &p) {
  const int32_t rank = ep_source_rank(a, p.source);
  constexpr uint32_t vectors = EP_ROW_BYTES / 16;
  for (int64_t first = p.start; first < p.end; first += EP_ROWS) {
    uint8_t *to[EP_ROWS];
#pragma unroll
    for (int j = 0; j < EP_ROWS; j++) to[j] = first + j < p.end ? ep_return_slot(a, first + j, rank) : nullptr;
    for (uint32_t i = threadIdx.x; i < vectors; i += blockDim.x) {
      uint4 v[EP_ROWS];
      const uint4 *from = reinterpret_cast<const uint4 *>(a.y + first * EP_HIDDEN) + i;
#pragma unroll
      for (int j = 0; j < EP_ROWS; j++)
        if (to[j] != nullptr) v[j] = ld_readonly(from + j * vectors);
#pragma unroll
      for (int j = 0; j < EP_ROWS; j++)
        if (to[j] != nullptr) reinterpret_cast<uint4 *>(to[j])[i] = v[j];
    }
  }
}

/* The number of lanes of warp 0 that make bulk copies (carriers). A carrier has room for a row in shared memory
 * (its stage) and a barrier. */
constexpr uint32_t EP_CARRIERS = 8;

struct EpCarrier {
  uint8_t *stage;
  uint64_t *arrived;
  uint32_t parity;
};

EP_DEVICE EpCarrier ep_carrier() {
  EP_DYNAMIC_SHARED(stages);
  __shared__ uint64_t arrived[EP_CARRIERS];
  const uint32_t lane = threadIdx.x < EP_CARRIERS ? threadIdx.x : 0;
  if (threadIdx.x < EP_CARRIERS) mbar_init(&arrived[lane], 1);
  __syncthreads();
  return {stages + lane * EP_ROW_BYTES, &arrived[lane], 0};
}

/* Copies the rows of a pair: each carrier copies every eighth row through its stage. */
EP_DEVICE void ep_return_bulk(const EpArgs &a, const EpPair &p, EpCarrier &c) {
  if (threadIdx.x >= EP_CARRIERS) return;
  const int32_t rank = ep_source_rank(a, p.source);
  for (int64_t row = p.start + threadIdx.x; row < p.end; row += EP_CARRIERS) {
    uint8_t *to = ep_return_slot(a, row, rank);
    if (to == nullptr) continue;
    bulk_wait_read<0>();
    mbar_expect(c.arrived, EP_ROW_BYTES);
    bulk_load(c.stage, a.y + row * EP_HIDDEN, EP_ROW_BYTES, c.arrived);
    while (!mbar_try(c.arrived, c.parity)) {
    }
    c.parity ^= 1;
    bulk_store(to, c.stage, EP_ROW_BYTES);
    bulk_commit();
  }
  bulk_wait_written<0>();
}

EP_DEVICE void ep_send_pairs(const EpArgs &a) {
#if EP_COPY == EP_BULK
  EpCarrier carrier = ep_carrier();
#endif
  for (uint32_t i = blockIdx.x; i < EP_PAIRS; i += gridDim.x) {
    const EpPair p = ep_pair(a, i);
#if EP_COPY == EP_BULK
    ep_return_bulk(a, p, carrier);
#else
    ep_return_rows(a, p);
#endif
    __syncthreads();
    const int32_t expert = static_cast<int32_t>(a.rank * EP_LOCAL_EXPERTS + p.local);
    if (threadIdx.x != 0 || ep_drill_drops(a, expert)) continue;
    ep_signal_completion(
        ep_word(a, ep_source_rank(a, p.source), EP_C_COUNT, recv_count_layout(p.local, static_cast<uint32_t>(a.rank))),
        static_cast<uint64_t>(p.end - p.start));
  }
}

EP_DEVICE uint32_t ep_chunk_vectors(const EpArgs &a) { return static_cast<uint32_t>(a.chunk_bytes) / 16; }
EP_DEVICE uint32_t ep_row_chunks(const EpArgs &a) {
  return ceil_div(static_cast<uint32_t>(EP_ROW_BYTES / 16), ep_chunk_vectors(a));
}

struct EpTerms {
  const uint4 *rows;
  int32_t row;
  float weight;
};

EP_DEVICE const uint4 *ep_row(const EpTerms &t, int32_t row) {
  return t.rows + static_cast<int64_t>(row) * (EP_ROW_BYTES / 16);
}

/* Each lane may name a row. Adds one vector of each of these rows, in the order of lanes, with EP_IN_FLIGHT loads in
 * flight. For a lane without a row it adds zeros. Adding 0 changes only minus zero, and a sum that begins at 0 is never
 * minus zero. */
EP_DEVICE void ep_sum_terms(float (&acc)[8], EpTerms mine, uint32_t count, uint32_t vector, bool inside) {
#pragma unroll 1
  for (uint32_t k = 0; k < count; k += EP_IN_FLIGHT) {
    uint4 v[EP_IN_FLIGHT];
#pragma unroll
    for (uint32_t j = 0; j < EP_IN_FLIGHT; j++) {
      const int32_t row = __shfl_sync(EP_FULL_WARP, mine.row, static_cast<int>((k + j) & 31u));
      v[j] = inside && k + j < count && row >= 0 ? ld_once(ep_row(mine, row) + vector) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (uint32_t j = 0; j < EP_IN_FLIGHT; j++)
      bf16_accumulate(acc, v[j], __shfl_sync(EP_FULL_WARP, mine.weight, static_cast<int>((k + j) & 31u)));
  }
}

/* Returns the terms of message `slot` of a source, and stores the message's token number in *token. Lane k has the
 * row of top-k position k and its weight, or row -1 if that expert is on another rank. */
EP_DEVICE EpTerms ep_message_terms(const EpArgs &a, uint32_t source, uint32_t slot, int32_t *token) {
  const uint64_t index = static_cast<uint64_t>(source) * a.max_tokens + slot;
  const uint8_t *message = ep_region(a, a.rank, EP_D_RECV) + recv_buf_layout(0, source, slot, a.max_tokens);
  *token = *reinterpret_cast<const int32_t *>(message + EP_TOKEN_BYTES);
  const uint32_t k = lane_id();
  const uint4 *rows = reinterpret_cast<const uint4 *>(a.y);
  if (k >= EP_TOPK) return {rows, -1, 0.0f};
  const int32_t row = reinterpret_cast<const int32_t *>(ep_region(a, a.rank, EP_D_ROWS))[index * EP_TOPK + k];
  if (row < 0 || row >= a.max_rows) return {rows, -1, 0.0f};
  return {rows, row, reinterpret_cast<const float *>(message + EP_WEIGHTS_AT)[k]};
}

EP_DEVICE void ep_return_sum(const EpArgs &a, uint32_t source, uint32_t slot, uint32_t chunk) {
  int32_t token;
  const EpTerms terms = ep_message_terms(a, source, slot, &token);
  const bool valid = token >= 0 && token < a.max_tokens;
  uint8_t *to = ep_region(a, static_cast<int>(source), EP_C_RECV) +
                combine_buf_layout(static_cast<uint64_t>(valid ? token : 0), static_cast<uint32_t>(a.rank));
  const uint32_t first = chunk * ep_chunk_vectors(a);
  const uint32_t end = min(first + ep_chunk_vectors(a), static_cast<uint32_t>(EP_ROW_BYTES / 16));
#pragma unroll 1
  for (uint32_t base = first; base < end; base += 32) {
    const uint32_t i = base + lane_id();
    float acc[8] = {};
    ep_sum_terms(acc, terms, EP_TOPK, i, i < end);
    if (i < end && valid) reinterpret_cast<uint4 *>(to)[i] = bf16_pack(acc);
  }
}

/* Counts the chunks that this warp has sent to a source. The warp with the last chunk signals to the source. */
EP_DEVICE void ep_note_returned(const EpArgs &a, uint32_t source, uint32_t done, uint32_t all) {
  if (done == 0 && all != 0) return;
  __syncwarp();
  if (lane_id() != 0) return;
  int32_t *returned = ep_counter(a, EP_RETURNED + source);
  const uint32_t before = static_cast<uint32_t>(add_acq_rel_gpu(returned, static_cast<int32_t>(done)));
  if (before + done != all) return;
  st_relaxed_gpu(returned, 0);
  if (!ep_drill_drops(a, a.rank * EP_LOCAL_EXPERTS))
    ep_signal_completion(ep_word(a, static_cast<int>(source), EP_C_RANK, static_cast<uint32_t>(a.rank)), ep_round(a));
}

/* Sends the sums to one source after another. With a.rotate the first source is this rank, else it is rank 0. All warps
 * of the grid share a source's chunks. */
EP_DEVICE void ep_send_sums(const EpArgs &a) {
  const uint32_t warps = gridDim.x * warps_in_block();
  const uint32_t me = blockIdx.x + warp_id() * gridDim.x;
  const uint32_t chunks = ep_row_chunks(a);
  for (uint32_t turn = 0; turn < EP_RANKS; turn++) {
    const uint32_t source = (turn + (a.rotate ? static_cast<uint32_t>(a.rank) : 0)) % EP_RANKS;
    const uint32_t all = static_cast<uint32_t>(*ep_counter(a, EP_MESSAGES + source)) * chunks;
    uint32_t done = 0;
    for (uint32_t u = me; u < all; u += warps, done++) ep_return_sum(a, source, u / chunks, u % chunks);
    if (all != 0 || me == 0) ep_note_returned(a, source, done, all);
  }
}

static __device__ void send_tokens_back(const EpArgs &a) {
  ep_drill_delay(a);
  ep_span_stage(a, EP_STAGE_READY);
  if (EP_ALGO == EP_DEDUP) {
    ep_send_sums(a);
  } else {
    ep_send_pairs(a);
  }
  ep_span_stage(a, EP_STAGE_SENT);
}
