/* The memory of the low-latency kernels on the symmetric heap. Senders set no flags, because a receiver polls the data
 * words (common/sentinel.cuh).
 *
 * Calls need no barrier between them. A dispatch ends only when the counts of every rank have arrived, and a rank
 * sends its counts only after all its earlier calls have ended. So no rank is more than one call ahead. */
#pragma once

#include "common/token.cuh"
#include "ll/call.cuh"

/* Regions of the state, in the order of kernels/cuda/declare/ll.go. R is the number of ranks, T is max_tokens, K is
 * top-k and H is the hidden size. Only the rank itself writes a region marked "own". "All ones" and "Zeroed" tell
 * what a region contains before the first call. */
enum LlRegion {
  LL_COUNTS,  /* [3][R source][local experts + 1] u64: call << 32 | rows; last word: tokens. Zeroed */
  LL_HEADERS, /* [3][R source][T][K] u64: weight << 32 | place (see ll/call.cuh). All ones */
  LL_SLOTS,   /* [2][R source][T][LL_SLOT_BYTES]: elements, then scales. All ones */
  LL_ROUTE,   /* [R source][T][K] u64: weight << 32 | row or LL_NOWHERE; own */
  LL_TOKENS,  /* [R source] u32: tokens of the last dispatch; own */
  LL_STARTED, /* [R] u32: last combine that each rank began. Zeroed */
  LL_RETURN   /* [2][T][LL_RETURN_SLOTS][H] BF16: sums by rank, or rows by top-k position. All ones */
};

static const uint32_t LL_SLOT_BYTES = ep_up(EP_PAYLOAD + EP_TOKEN_SCALES * 4, 16);
static const uint32_t LL_RETURN_SLOTS = EP_RANKS > EP_TOPK ? EP_RANKS : EP_TOPK;
static const uint32_t LL_COUNT_WORDS = EP_LOCAL_EXPERTS + 1;

/* Returns the count words of a source. There are three sets of counts and headers, and call n uses set n % 3. During
 * a call, a fast rank may already write the next call's set, and this rank clears the previous call's set. */
EP_DEVICE uint64_t *ll_counts(const EpArgs &a, int owner, uint32_t call, int source) {
  return ep_at<uint64_t>(a, owner, LL_COUNTS) + (call % 3 * EP_RANKS + source) * LL_COUNT_WORDS;
}

EP_DEVICE uint64_t *ll_header(const EpArgs &a, int owner, uint32_t call, int source, uint32_t token) {
  return ep_at<uint64_t>(a, owner, LL_HEADERS) + ep_token_place(a, call % 3, source, token) * EP_TOPK;
}

EP_DEVICE uint8_t *ll_slot(const EpArgs &a, int owner, uint32_t call, int source, uint32_t token) {
  return ep_at(a, owner, LL_SLOTS) + ep_token_place(a, call & 1, source, token) * LL_SLOT_BYTES;
}

EP_DEVICE uint64_t *ll_route(const EpArgs &a, int source, uint32_t token) {
  return ep_at<uint64_t>(a, a.rank, LL_ROUTE) + (static_cast<uint64_t>(source) * a.max_tokens + token) * EP_TOPK;
}

EP_DEVICE uint32_t *ll_tokens(const EpArgs &a) { return ep_at<uint32_t>(a, a.rank, LL_TOKENS); }

EP_DEVICE uint32_t *ep_started(const EpArgs &a, int owner) { return ep_at<uint32_t>(a, owner, LL_STARTED); }

EP_DEVICE uint8_t *ll_return(const EpArgs &a, int owner, uint32_t call, uint32_t token, uint32_t slot) {
  uint64_t at = static_cast<uint64_t>(call & 1) * a.max_tokens + token;
  return ep_at(a, owner, LL_RETURN) + (at * LL_RETURN_SLOTS + slot) * (2 * EP_HIDDEN);
}
