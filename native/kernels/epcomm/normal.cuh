/* Kernels for DeepEP's normal calls, launched before and after the calls of layout rank:packed. They compute to which
 * ranks and experts tokens go, exchange counts that the host needs before it allocates outputs, convert the data of
 * received rows, and send top-k weights back. Sizes are arguments, so that one binary is enough for all shapes.
 *
 * The memory at EpMeeting.at is zeroed at set-up. R is the number of ranks, E of local experts, T is max_tokens and K
 * top-k:
 *   u32 announced;                        calls of ep_announce so far
 *   u32 returned[EP_NORMAL_BLOCKS];       calls of each block of ep_return_weights
 *   (padding to EP_NORMAL_HEADER bytes)
 *   u64 counts[2][R][R + E + 1];          by source: rows for each rank, rows for each expert of this rank, and the
 *                                         source's tokens
 *   u64 weights[2][T][R][K];              weights that come back
 * The upper half of a u64 word is the number of the call, the lower half is the value.
 *
 * Calls with even numbers use one set of words, calls with odd numbers the other. Two sets are enough, because no rank
 * writes words of call 8 before all ranks have read the words of call 6:
 * - Counts: every rank reads the counts of call 6 before it sends its counts of call 7. A rank sends its counts of
 *   call 8 only after it has received the counts of call 7 from all ranks.
 * - Weights: a rank that has begun the combine of call 7 has read the weights of call 6. The combine of call 8 waits
 *   until all ranks have begun the combine of call 7. A rank returns weights of call 8 after this combine. */
#pragma once

#include "common/check.cuh"
#include "epcomm_args.h"

static const uint32_t NORMAL_EXPERTS = 32;
static const uint32_t NORMAL_MOST = 1024;

EP_DEVICE int32_t normal_id(const void *ids, int32_t bits, int64_t i) {
  if (bits == 32) return static_cast<const int32_t *>(ids)[i];
  const int64_t id = static_cast<const int64_t *>(ids)[i];
  return id >= 0 && id < (1 << 30) ? static_cast<int32_t>(id) : -1;
}

EP_DEVICE void normal_begin() {
  pdl_wait();
  pdl_launch();
}

EP_DEVICE void normal_count_experts(const EpLayoutArgs &a, int32_t first, int32_t (&counts)[NORMAL_EXPERTS]) {
  if (threadIdx.x < NORMAL_EXPERTS) counts[threadIdx.x] = 0;
  __syncthreads();
  const int64_t all = static_cast<int64_t>(a.tokens) * a.topk;
  for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
    const int32_t at = normal_id(a.ids, a.ids_bits, i) - first;
    if (at >= 0 && at < static_cast<int32_t>(NORMAL_EXPERTS)) atomicAdd(&counts[at], 1);
  }
  __syncthreads();
  const int32_t e = first + static_cast<int32_t>(threadIdx.x);
  if (threadIdx.x < NORMAL_EXPERTS && e < a.experts) a.per_expert[e] = counts[threadIdx.x];
}

EP_DEVICE void normal_count_rank(const EpLayoutArgs &a, int32_t rank, int32_t (&counts)[NORMAL_EXPERTS]) {
  const int32_t local = a.experts / a.ranks, first = rank * local;
  int32_t mine = 0;
  if (threadIdx.x == 0) counts[0] = 0;
  __syncthreads();
  for (int32_t t = static_cast<int32_t>(threadIdx.x); t < a.tokens; t += static_cast<int32_t>(blockDim.x)) {
    bool goes = false;
    for (int32_t k = 0; k < a.topk; k++) {
      const int32_t id = normal_id(a.ids, a.ids_bits, static_cast<int64_t>(t) * a.topk + k);
      goes |= id >= first && id < first + local;
    }
    a.in_rank[static_cast<int64_t>(t) * a.ranks + rank] = goes ? 1 : 0;
    mine += goes ? 1 : 0;
  }
  if (mine != 0) atomicAdd(&counts[0], mine);
  __syncthreads();
  if (threadIdx.x == 0) a.per_rank[rank] = counts[0];
}

/* Computes EpLayoutArgs' outputs, with one block for each rank, then one for every NORMAL_EXPERTS experts. */
EP_ENTRY(1024, 1) ep_layout(const __grid_constant__ EpLayoutArgs a) {
  normal_begin();
  __shared__ int32_t counts[NORMAL_EXPERTS];
  const int32_t block = static_cast<int32_t>(blockIdx.x);
  if (block < a.ranks) {
    normal_count_rank(a, block, counts);
  } else {
    normal_count_experts(a, (block - a.ranks) * static_cast<int32_t>(NORMAL_EXPERTS), counts);
  }
}

EP_DEVICE EpArgs normal_args(const EpMeeting &m) {
  EpArgs a = {};
  a.rank = m.rank;
  a.counters = m.counters;
  a.deadline_ns = m.deadline_ns;
  a.fault = m.fault;
  a.given_up = m.given_up;
  return a;
}
/* Returns true if this rank has given up a wait earlier; the block must then leave. All threads call it. */
EP_DEVICE bool normal_leaves(const EpMeeting &m) { return __syncthreads_or(*m.given_up != 0); }
EP_DEVICE uint32_t *normal_calls(const EpMeeting &m) { return reinterpret_cast<uint32_t *>(m.heap[m.rank] + m.at); }
EP_DEVICE uint32_t normal_words(const EpMeeting &m) { return static_cast<uint32_t>(m.ranks + m.local_experts + 1); }
EP_DEVICE uint64_t *normal_counts(const EpMeeting &m, int32_t owner, uint32_t call, int32_t source) {
  return reinterpret_cast<uint64_t *>(m.heap[owner] + m.at + EP_NORMAL_HEADER) +
         (static_cast<uint64_t>(call & 1) * m.ranks + source) * normal_words(m);
}
EP_DEVICE uint64_t *normal_weights(const EpMeeting &m, int32_t owner, uint32_t call, int32_t token, int32_t from) {
  uint64_t *words = reinterpret_cast<uint64_t *>(m.heap[owner] + m.at + EP_NORMAL_HEADER) + 2ull * m.ranks * normal_words(m);
  return words + ((static_cast<uint64_t>(call & 1) * m.max_tokens + token) * m.ranks + from) * m.topk;
}
/* Waits until a word of this call has arrived, and stores its lower half in *value. Returns false if it gave up. */
EP_DEVICE bool normal_wait(const EpMeeting &m, const uint64_t *p, uint32_t call, int32_t source, uint32_t phase, uint32_t *value) {
  uint64_t v = ld_relaxed_sys(p);
  if (v >> 32 != call) {
    const EpArgs a = normal_args(m);
    EpSpin spin;
    while ((v = ld_relaxed_sys(p)) >> 32 != call)
      if (!spin.again(a, {phase, -1, source}, call, v >> 32)) return false;
  }
  *value = static_cast<uint32_t>(v);
  return true;
}

struct NormalCounts {
  uint32_t rows[EP_MAX_RANKS][EP_MAX_RANKS];
  uint32_t experts[NORMAL_MOST];
  uint32_t fullest, failed;
};

EP_DEVICE uint32_t normal_count_of(const EpAnnounceArgs &a, int32_t to, uint32_t j) {
  const uint32_t ranks = static_cast<uint32_t>(a.meeting.ranks), local = static_cast<uint32_t>(a.meeting.local_experts);
  if (j < ranks) return static_cast<uint32_t>(a.per_rank[j]);
  return j < ranks + local ? static_cast<uint32_t>(a.per_expert[static_cast<uint32_t>(to) * local + j - ranks]) : static_cast<uint32_t>(a.tokens);
}

EP_DEVICE void normal_send_counts(const EpAnnounceArgs &a, uint32_t call) {
  const EpMeeting &m = a.meeting;
  const uint32_t words = normal_words(m), all = static_cast<uint32_t>(m.ranks) * words;
  for (uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
    const int32_t to = static_cast<int32_t>((static_cast<uint32_t>(m.rank) + 1 + i / words) % static_cast<uint32_t>(m.ranks));
    st_relaxed_sys(normal_counts(m, to, call, m.rank) + i % words, static_cast<uint64_t>(call) << 32 | normal_count_of(a, to, i % words));
  }
}

EP_DEVICE void normal_take_counts(const EpAnnounceArgs &a, uint32_t call, NormalCounts &s) {
  const EpMeeting &m = a.meeting;
  const uint32_t words = normal_words(m), ranks = static_cast<uint32_t>(m.ranks), all = ranks * words;
  for (uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
    const uint32_t source = i / words, j = i % words;
    uint32_t value = 0;
    if (!normal_wait(m, normal_counts(m, m.rank, call, static_cast<int32_t>(source)) + j, call, static_cast<int32_t>(source),
                     EP_PHASE_DISPATCH_WAIT, &value)) {
      s.failed = 1;
      return;
    }
    if (j < ranks) {
      s.rows[source][j] = value;
    } else if (j + 1 < words) {
      atomicAdd(&s.experts[j - ranks], value);
    } else {
      atomicMax(&s.fullest, value);
    }
  }
}

EP_DEVICE uint32_t normal_before(const NormalCounts &s, uint32_t last, uint32_t rank) {
  uint32_t rows = 0;
  for (uint32_t q = 0; q <= last; q++) rows += s.rows[q][rank];
  return rows;
}

EP_DEVICE void normal_tell(const EpAnnounceArgs &a, const NormalCounts &s) {
  const uint32_t ranks = static_cast<uint32_t>(a.meeting.ranks), rank = static_cast<uint32_t>(a.meeting.rank);
  for (uint32_t i = threadIdx.x; i < ranks * ranks; i += blockDim.x) a.before[i] = static_cast<int32_t>(normal_before(s, i / ranks, i % ranks));
  const uint32_t rows = normal_before(s, ranks - 1, rank);
  if (threadIdx.x == 0 && a.worst > 0 && rows > static_cast<uint32_t>(a.worst)) /* then dispatch writes no rows */
    ep_fault(normal_args(a.meeting), {EP_PHASE_ROOM, -1, -1}, static_cast<uint64_t>(a.worst), rows);
  if (a.ticket == 0) return;
  const uint32_t align = static_cast<uint32_t>(a.align);
  for (uint32_t e = threadIdx.x; e < static_cast<uint32_t>(a.meeting.local_experts); e += blockDim.x)
    a.told[EP_TOLD_ROWS + e] = (s.experts[e] + align - 1) / align * align;
  if (threadIdx.x == 0) {
    a.told[1] = normal_before(s, ranks - 1, rank);
    a.told[2] = s.fullest;
  }
  __syncthreads(); /* the release below publishes all threads' writes */
  if (threadIdx.x == 0) st_release_sys(a.told, a.ticket);
}

EP_DEVICE void normal_tell_none(const EpAnnounceArgs &a) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.meeting.ranks * a.meeting.ranks; i += static_cast<int32_t>(blockDim.x)) a.before[i] = 0;
}

EP_DEVICE void normal_exchange(const EpAnnounceArgs &a, NormalCounts &s) {
  if (normal_leaves(a.meeting)) {
    normal_tell_none(a);
    return;
  }
  uint32_t *calls = normal_calls(a.meeting);
  const uint32_t call = ep_number_after(*calls, 1);
  for (uint32_t e = threadIdx.x; e < static_cast<uint32_t>(a.meeting.local_experts); e += blockDim.x) s.experts[e] = 0;
  if (threadIdx.x == 0) s.fullest = s.failed = 0;
  normal_send_counts(a, call);
  __syncthreads();
  normal_take_counts(a, call, s);
  __syncthreads();
  if (threadIdx.x == 0) *calls = call;
  if (s.failed) {
    normal_tell_none(a);
  } else {
    normal_tell(a, s);
  }
}

EP_DEVICE int32_t normal_narrow(const EpAnnounceArgs &a, int32_t token, int32_t k) {
  if (a.ids == nullptr)
    return k < a.meeting.ranks && a.in_rank[static_cast<int64_t>(token) * a.meeting.ranks + k] != 0 ? k * a.meeting.local_experts : -1;
  if (k >= a.given) return -1;
  const int32_t id = normal_id(a.ids, a.ids_bits, static_cast<int64_t>(token) * a.given + k);
  return id >= 0 && id < a.meeting.local_experts * a.meeting.ranks ? id : -1;
}
EP_DEVICE void normal_ready(const EpAnnounceArgs &a, uint32_t block, uint32_t blocks) {
  const int32_t topk = a.meeting.topk;
  const int64_t all = static_cast<int64_t>(a.tokens) * topk, step = static_cast<int64_t>(blocks) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(block) * blockDim.x + threadIdx.x; i < all; i += step) {
    const int32_t token = static_cast<int32_t>(i / topk), k = static_cast<int32_t>(i % topk);
    if (a.narrow != nullptr) a.narrow[i] = normal_narrow(a, token, k);
    if (a.padded != nullptr) a.padded[i] = k < a.given ? a.weights[static_cast<int64_t>(token) * a.given + k] : 0.0f;
  }
}

/* Announces a dispatch. Block 0 exchanges counts with the other ranks. The other blocks convert this rank's ids
 * and weights. */
EP_ENTRY(1024, 1) ep_announce(const __grid_constant__ EpAnnounceArgs a) {
  normal_begin();
  __shared__ NormalCounts s;
  if (blockIdx.x == 0) {
    normal_exchange(a, s);
  } else {
    normal_ready(a, blockIdx.x - 1, gridDim.x - 1);
  }
}

EP_ENTRY(1024, 1) ep_add_counts(const __grid_constant__ EpAddArgs a) {
  normal_begin();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.n; i += static_cast<int32_t>(blockDim.x)) a.to[i] += static_cast<int32_t>(a.counts[i]);
}

EP_ENTRY(1024, 1) ep_received(const __grid_constant__ EpReceivedArgs a) {
  normal_begin();
  const int32_t came = static_cast<int32_t>(a.row_offsets[a.ranks]), each = a.given > 0 ? a.given : 1;
  const int64_t all = static_cast<int64_t>(a.rows) * each, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = i / each, k = i % each, from = row * a.topk + k;
    const bool there = row < came;
    if (k == 0) a.tokens[row] = there ? a.src_info[2 * row] : -1;
    if (a.ids != nullptr) a.ids[i] = there ? a.experts[from] : -1;
    if (a.cut != nullptr) a.cut[i] = there ? __uint_as_float(a.weights[from]) : 0.0f;
  }
}

EP_DEVICE void normal_send_weights(const EpReturnArgs &a, uint32_t call, int64_t first, int64_t step) {
  const EpMeeting &m = a.meeting;
  const uint32_t came = a.row_offsets[m.ranks];
  const int64_t all = came <= static_cast<uint32_t>(a.max_rows) ? static_cast<int64_t>(came) * a.given : 0;
  for (int64_t i = first; i < all; i += step) {
    const int64_t row = i / a.given, k = i % a.given;
    const int32_t token = a.src_info[2 * row], source = a.src_info[2 * row + 1];
    /* A faulty dispatch may write wrong values, which must not lead outside the heap. */
    if (token < 0 || token >= m.max_tokens || source < 0 || source >= m.ranks) continue;
    st_relaxed_sys(normal_weights(m, source, call, token, m.rank) + k, static_cast<uint64_t>(call) << 32 | __float_as_uint(a.weights[i]));
  }
}

EP_DEVICE uint32_t normal_mask(const EpReturnArgs &a, int64_t token) {
  uint32_t mask = 0;
  for (int32_t k = 0; k < a.meeting.topk; k++) {
    const int32_t id = a.ids[token * a.meeting.topk + k];
    if (id >= 0) mask |= 1u << (id / a.meeting.local_experts);
  }
  return mask;
}

EP_DEVICE bool normal_sum_weights(const EpReturnArgs &a, uint32_t call, int64_t first, int64_t step) {
  const EpMeeting &m = a.meeting;
  for (int64_t i = first; i < static_cast<int64_t>(a.tokens) * a.given; i += step) {
    const int64_t token = i / a.given;
    const uint32_t mask = normal_mask(a, token);
    float sum = 0;
    for (int32_t r = 0; r < m.ranks; r++) {
      uint32_t bits = 0;
      if ((mask >> r & 1u) == 0) continue;
      if (!normal_wait(m, normal_weights(m, m.rank, call, static_cast<int32_t>(token), r) + i % a.given, call, r, EP_PHASE_COMBINE_WAIT, &bits))
        return false;
      sum += __uint_as_float(bits);
    }
    a.out[i] = sum;
  }
  return true;
}
EP_DEVICE void normal_spoil_weights(const EpReturnArgs &a) {
  for (int64_t i = threadIdx.x; i < static_cast<int64_t>(a.tokens) * a.given; i += blockDim.x) a.out[i] = __uint_as_float(0xffffffffu);
}

/* Sends weights back and sums them. It has EP_NORMAL_BLOCKS blocks, and follows the combine of the same call on
 * the same stream. */
EP_ENTRY(1024, 1) ep_return_weights(const __grid_constant__ EpReturnArgs a) {
  normal_begin();
  if (normal_leaves(a.meeting)) {
    normal_spoil_weights(a);
    return;
  }
  uint32_t *calls = normal_calls(a.meeting) + 1 + blockIdx.x;
  const uint32_t call = ep_number_after(*calls, 1);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  normal_send_weights(a, call, first, step);
  if (__syncthreads_or(!normal_sum_weights(a, call, first, step))) normal_spoil_weights(a);
  if (threadIdx.x == 0) *calls = call;
}
