/* The memory of the ep kernels. kernels/cuda/declare/ep.go computes the same sizes. Offsets have 64 bits, because
 * the combine slots of 20,000 tokens already take more than 2^31 bytes.
 *
 * E is the number of all experts, L of the experts of a rank, R the number of ranks, T the largest number of
 * tokens of a rank, and K top-k. */
#pragma once

#include "common/check.cuh"
#include "common/dtypes.cuh"
#include "common/ids.cuh"

/* EP_ALGO: one message for each expert (direct) or for each rank (dedup). */
#define EP_DIRECT 0
#define EP_DEDUP 1

/* EP_COPY: senders move data as 16-byte vectors with all threads, or by bulk copies from a few lanes (sm_90 and
 * later). */
#define EP_VECTOR 0
#define EP_BULK 1

#ifndef EP_ALGO
#define EP_ALGO EP_DIRECT
#endif
#ifndef EP_COPY
#define EP_COPY EP_VECTOR
#endif
#ifndef EP_IN_FLIGHT
#define EP_IN_FLIGHT 4
#endif
#ifndef EP_EPILOGUE
#define EP_EPILOGUE EP_EPILOGUE_NONE
#endif

/* The number of ranks from which a rank receives. With skip_a2a a rank keeps the tokens of its own experts, and
 * its only source is itself, number 0. */
constexpr uint32_t EP_SOURCES = EP_SKIP_A2A ? 1 : EP_RANKS;
/* The number of (local expert, source) pairs of a rank, sorted by expert, then by source. */
constexpr uint32_t EP_PAIRS = EP_LOCAL_EXPERTS * EP_SOURCES;
constexpr uint32_t EP_GROUPS = EP_LOCAL_EXPERTS + EP_SHARED;

/* Indices into EpArgs.region. An unset u64 word is all ones. */
enum EpRegion {
  EP_D_SEND,  /* [T, message] this rank's staged tokens */
  EP_D_RECV,  /* direct [L, sources, T, message]; dedup [R, T, message] */
  EP_D_COUNT, /* [L, sources] u64 tokens of a pair */
  EP_D_RANK,  /* dedup [2, R] u64: [0, r] messages from rank r; [1, r] the call number once all have arrived */
  EP_D_ROWS,  /* dedup [R, T, K] i32 row of each selection, -1 if elsewhere */
  EP_C_RECV,  /* direct [T, K, row]; dedup [T, R, row] */
  EP_C_COUNT, /* [L, R] u64: [e, r] rows that local expert e of rank r sends back */
  EP_C_RANK,  /* dedup [R] u64 call number once a sender's rows have arrived */
};

/* A message holds the quantized token, its number on its rank (int32, padded), its K global expert ids (uint16,
 * padded) and, under dedup, its K router weights (float32, padded). */
constexpr uint32_t EP_PAYLOAD_BYTES = ep_payload(EP_DTYPE, EP_HIDDEN);
constexpr uint32_t EP_SCALES_AT = ep_up(EP_PAYLOAD_BYTES, 16);
constexpr uint32_t EP_TOKEN_BYTES =
    EP_SCALES_AT + ep_up(ep_scales(EP_DTYPE, EP_HIDDEN) * ep_scale_bytes(EP_DTYPE), 16);
constexpr uint32_t EP_IDS_AT = EP_TOKEN_BYTES + 16;
constexpr uint32_t EP_WEIGHTS_AT = EP_IDS_AT + ep_up(2 * EP_TOPK, 16);
constexpr uint32_t EP_MSG_BYTES = EP_ALGO == EP_DEDUP ? EP_WEIGHTS_AT + ep_up(4 * EP_TOPK, 16) : EP_WEIGHTS_AT;
constexpr uint64_t EP_ROW_BYTES = 2ull * EP_HIDDEN;

constexpr uint64_t EP_NOT_ARRIVED = ~0ull;
constexpr uint32_t EP_NO_EXPERT = 0xffff;

/* Indices of words in EpArgs.counters. Each word is zero when a call ends, except EP_PAIR and EP_PREFIX, which
 * dispatch writes for combine. */
enum EpCounter {
  EP_READY = 1,        /* EP_READY_FLAG while the copying blocks may run */
  EP_CLEANUP,
  EP_SHARED_READY,
  EP_SHARED_STARTED,
  EP_CLAIM,
  EP_DONE,
  EP_RANK_RESERVED = 8,  /* [8] dedup: slots assigned at a rank */
  EP_RANK_FINISHED = 16, /* [8] dedup: parts written to a rank */
  EP_MESSAGES = 24,      /* [8] dedup: messages from a source */
  EP_RETURNED = 32,      /* [8] dedup: chunks sent back to a rank */
  EP_TABLES = 40,
  EP_RESERVED = EP_TABLES,                  /* [E] slots assigned at an expert */
  EP_FINISHED = EP_RESERVED + EP_EXPERTS,   /* [E] parts written to an expert */
  EP_PAIR = EP_FINISHED + EP_EXPERTS,       /* [E, 2] of (local expert, source):
                                               {EP_READY_FLAG + end row, rows} */
  EP_PREFIX = EP_PAIR + 2 * EP_EXPERTS,     /* [E] of (local expert, source s): the expert's rows from sources 0 to s */
  EP_TILE = EP_PREFIX + EP_EXPERTS,
  EP_CURSOR = EP_TILE + EP_EXPERTS,
  EP_GO = EP_CURSOR + EP_EXPERTS,           /* [512] a word for each summing block. Each waiting block adds
                                               EP_READY_FLAG once its senders' rows have arrived. */
  EP_COUNTERS = EP_GO + 512,
};

EP_DEVICE uint8_t *ep_region(const EpArgs &a, int rank, EpRegion region) { return a.heap[rank] + a.region[region]; }

EP_DEVICE int32_t *ep_counter(const EpArgs &a, uint32_t word) { return a.counters + word; }

EP_DEVICE uint64_t send_buf_layout(uint64_t token) { return token * EP_MSG_BYTES; }

EP_DEVICE uint64_t recv_buf_layout(uint32_t local_expert, uint32_t source, uint64_t slot, uint64_t max_tokens) {
  if (EP_SKIP_A2A) source = 0;
  if (EP_ALGO == EP_DEDUP) local_expert = 0;
  return ((static_cast<uint64_t>(local_expert) * EP_SOURCES + source) * max_tokens + slot) * EP_MSG_BYTES;
}

EP_DEVICE uint32_t recv_count_layout(uint32_t local_expert, uint32_t source) {
  if (EP_SKIP_A2A) source = 0;
  return local_expert * EP_SOURCES + source;
}

/* Returns the offset of a row's slot in combine. `place` is the top-k position, or the sending rank under dedup. */
EP_DEVICE uint64_t combine_buf_layout(uint64_t token, uint32_t place) {
  return (token * (EP_ALGO == EP_DEDUP ? EP_RANKS : EP_TOPK) + place) * EP_ROW_BYTES;
}

EP_DEVICE uint64_t *ep_word(const EpArgs &a, int rank, EpRegion region, uint32_t index) {
  return reinterpret_cast<uint64_t *>(ep_region(a, rank, region)) + index;
}

/* Returns whether this rank sends tokens to an expert, and later gets a row back. */
EP_DEVICE bool ep_sends_to(const EpArgs &a, int32_t expert) {
  if (expert < 0 || expert >= EP_EXPERTS) return false;
  return !EP_SKIP_A2A || expert / EP_LOCAL_EXPERTS == a.rank;
}

struct EpSlice {
  int32_t start, count;
};
EP_DEVICE EpSlice ep_shared_slice(const EpArgs &a) {
  if (!EP_SHARED) return {0, 0};
  if (!EP_SKIP_A2A) return {0, a.tokens};
  const int32_t n = a.tokens, ranks = a.allreduce_size, r = a.rank;
  return {r * (n / ranks) + min(r, n % ranks), (n + ranks - r - 1) / ranks};
}
