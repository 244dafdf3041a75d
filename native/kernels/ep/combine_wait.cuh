/* Second half of combine. The first EpArgs.wait_sms blocks wait for all senders. Then they release the other
 * blocks, which sum the rows. */
#pragma once

#include "ep/combine_send.cuh"

/* Waits for all senders. The blocks 0 to wait_sms - 1 call it, and each waits for a part of the senders' words.
 * Then each of these blocks adds EP_READY_FLAG to the word EP_GO of every summing block. */
static __device__ bool wait_for_all_arrivals(const EpArgs &a) {
  const uint32_t step = static_cast<uint32_t>(a.wait_sms) * blockDim.x;
  const uint32_t words = EP_ALGO == EP_DEDUP ? EP_RANKS : EP_PAIRS;
  bool ok = true;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; ok && i < words; i += step) {
    const int32_t sender = static_cast<int32_t>(EP_SKIP_A2A ? a.rank : i % EP_RANKS);
    if (EP_ALGO == EP_DEDUP) {
      ok = ep_await_value(a, ep_word(a, a.rank, EP_C_RANK, i), {EP_PHASE_COMBINE_WAIT, -1, sender}, ep_round(a));
      continue;
    }
    const int32_t expert = sender * EP_LOCAL_EXPERTS + static_cast<int32_t>(i / EP_SOURCES);
    uint64_t *word = ep_word(a, a.rank, EP_C_COUNT, i), count;
    ok = ep_await_count(a, word, {EP_PHASE_COMBINE_WAIT, expert, sender}, &count);
    if (ok) st_relaxed_sys(word, EP_NOT_ARRIVED);
  }
  if (__syncthreads_or(!ok)) return false;
  ep_span_stage(a, EP_STAGE_ARRIVED);
  for (uint32_t i = threadIdx.x; i < gridDim.x - a.wait_sms; i += blockDim.x)
    red_add_release_gpu(ep_counter(a, EP_GO + i), EP_READY_FLAG);
  return true;
}

EP_DEVICE bool ep_await_go(const EpArgs &a, uint32_t block) {
  return ep_block_wait([&] {
    int32_t *go = ep_counter(a, EP_GO + block);
    if (!ep_await_counter(a, go, {EP_PHASE_COMBINE_WAIT, -1, -1}, a.wait_sms * EP_READY_FLAG)) return false;
    st_relaxed_gpu(go, 0);
    return true;
  });
}

/* Returns the terms of a token's sum. Lane k has the row of top-k position k and its weight. Under dedup, lane r
 * has the sum from rank r, if the token has an expert there. */
EP_DEVICE EpTerms ep_arrived_terms(const EpArgs &a, int64_t token) {
  const uint32_t lane = lane_id();
  const int32_t expert = lane < EP_TOPK ? ep_id(a, token * EP_TOPK + lane) : -1;
  EpTerms t = {reinterpret_cast<const uint4 *>(ep_region(a, a.rank, EP_C_RECV) + combine_buf_layout(token, 0)), -1, 0.0f};
  if (EP_ALGO == EP_DEDUP) {
    const uint32_t ranks = __reduce_or_sync(EP_FULL_WARP, ep_sends_to(a, expert) ? 1u << (expert / EP_LOCAL_EXPERTS) : 0u);
    if (ranks >> lane & 1u) t.row = static_cast<int32_t>(lane);
    t.weight = 1.0f;
  } else if (ep_sends_to(a, expert)) {
    t.row = static_cast<int32_t>(lane);
    t.weight = a.weights != nullptr ? a.weights[token * EP_TOPK + lane] : 1.0f;
  }
  return t;
}

EP_DEVICE uint4 ep_epilogue(const EpArgs &a, uint4 v, uint32_t vector) {
  if (EP_EPILOGUE == EP_EPILOGUE_NONE) return v;
  float x[8], b[8];
  bf16_unpack(v, x);
  if (EP_EPILOGUE == EP_EPILOGUE_BIAS) bf16_unpack(ld_readonly(reinterpret_cast<const uint4 *>(a.bias) + vector), b);
#pragma unroll
  for (int i = 0; i < 8; i++)
    x[i] = EP_EPILOGUE == EP_EPILOGUE_BIAS ? __fadd_rn(x[i], b[i]) : __fmul_rn(x[i], a.epilogue_scale);
  return bf16_pack(x);
}

EP_DEVICE uint4 ep_add_shared(const EpArgs &a, uint4 v, int64_t token, uint32_t vector) {
  const EpSlice slice = ep_shared_slice(a);
  const int64_t row = token - slice.start;
  if (!EP_SHARED || row < 0 || row >= slice.count) return v;
  float x[8], y[8];
  bf16_unpack(v, x);
  bf16_unpack(ld_readonly(reinterpret_cast<const uint4 *>(a.y + row * EP_HIDDEN) + vector), y);
#pragma unroll
  for (int i = 0; i < 8; i++) x[i] = __fadd_rn(x[i], y[i]);
  return bf16_pack(x);
}

/* Copies the rows of a token to output [token, k], because without router weights nothing is summed. If position k
 * is masked, it writes zeros there. */
EP_DEVICE void ep_copy_rows(const EpArgs &a, EpTerms terms, int64_t token, uint32_t vector, bool inside) {
  uint4 *out = reinterpret_cast<uint4 *>(a.combined) + token * EP_TOPK * (EP_ROW_BYTES / 16) + vector;
  for (uint32_t k = 0; k < EP_TOPK; k++) {
    const int32_t row = __shfl_sync(EP_FULL_WARP, terms.row, static_cast<int>(k));
    if (!inside) continue;
    const uint4 v = row >= 0 ? ld_once(ep_row(terms, row) + vector) : make_uint4(0, 0, 0, 0);
    out[k * (EP_ROW_BYTES / 16)] = ep_epilogue(a, v, vector);
  }
}

EP_DEVICE void ep_reduce_chunk(const EpArgs &a, int64_t token, uint32_t chunk) {
  const EpTerms terms = ep_arrived_terms(a, token);
  const uint32_t first = chunk * ep_chunk_vectors(a);
  const uint32_t end = min(first + ep_chunk_vectors(a), static_cast<uint32_t>(EP_ROW_BYTES / 16));
#pragma unroll 1
  for (uint32_t base = first; base < end; base += 32) {
    const uint32_t i = base + lane_id();
    if (EP_ALGO == EP_DIRECT && a.weights == nullptr) {
      ep_copy_rows(a, terms, token, i, i < end);
      continue;
    }
    float acc[8] = {};
    ep_sum_terms(acc, terms, EP_ALGO == EP_DEDUP ? EP_RANKS : EP_TOPK, i, i < end);
    if (i >= end) continue;
    const uint4 sum = ep_add_shared(a, bf16_pack(acc), token, i);
    reinterpret_cast<uint4 *>(a.combined)[token * (EP_ROW_BYTES / 16) + i] = ep_epilogue(a, sum, i);
  }
}

/* Sums all tokens. Consecutive chunks go to different blocks, so that a small batch uses all blocks. */
static __device__ void reduce_and_copy_to_output(const EpArgs &a) {
  const uint32_t block = blockIdx.x - static_cast<uint32_t>(a.wait_sms);
  const uint32_t blocks = gridDim.x - static_cast<uint32_t>(a.wait_sms);
  if (!ep_await_go(a, block)) return;
  const int64_t chunks = ep_row_chunks(a);
  const int64_t step = static_cast<int64_t>(blocks) * warps_in_block();
  for (int64_t u = block + static_cast<int64_t>(warp_id()) * blocks; u < a.tokens * chunks; u += step)
    ep_reduce_chunk(a, u / chunks, static_cast<uint32_t>(u % chunks));
}

/* Copies the first `tokens` rows of y to the output, for a shared expert that is not fused. */
static __device__ void copy_shared_expert_outputs(const EpArgs &a) {
  for (int64_t row = blockIdx.x; row < a.tokens; row += gridDim.x)
    block_memcpy<EP_IN_FLIGHT>(a.combined + row * EP_HIDDEN, a.y + row * EP_HIDDEN,
                               static_cast<uint32_t>(EP_ROW_BYTES), threadIdx.x, blockDim.x);
}
