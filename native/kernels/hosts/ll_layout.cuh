/* The memory of the low-latency kernels over hosts. kernels/cuda/declare/hosts.go computes the same sizes. Inside a
 * host everything is as in ll/layout.cuh.
 *
 * A network may deliver the parts of a put in any order, so between hosts a receiver waits for the word that the put
 * sets after its bytes. Each message has its own word, because messages may arrive in any order too.
 *
 * A token is sent in one message to each rank that has any of its experts. The messages from one rank to another are
 * numbered in the order of their tokens.
 *
 * Under EP_ROUTE_RAIL a token is sent to another host in one relayed message, to the rank with the sender's place
 * (number on its host). That rank forwards it by stores to each rank of its host that has any of the experts. Each
 * forwarded message has the number that it would have if the sender had sent it directly. The relayed message contains
 * these numbers. The counts say how many messages a rank has to forward.
 *
 * Calls of both routes may follow each other on the same memory. A receiver may poll the data words of a slot only if
 * they are all ones between calls. Nobody writes all ones back to the slots that puts fill (those of far sources in
 * LH_SLOTS). So receivers never poll these slots, and forwarded messages, which are polled, go to LH_FORWARDED. A call
 * clears the headers of the previous call, whatever the route of that call was.
 *
 * Calls need no barrier, for the reason in ll/layout.cuh: no rank is more than one call ahead of another, and
 * consecutive calls use different sets of the memory. Puts of consecutive calls also set different words. Otherwise, as
 * two puts of a rank may arrive in either order, the earlier put could overwrite the later call's number.
 *
 * Forwarding keeps this rule, because a rank ends a call only after it has forwarded all messages of the call.
 * - A sender in call 8 has ended call 7, so its forwarders have ended call 6. The slots and staged tokens of call 6 are
 *   free for call 8.
 * - A forwarder in call 8 has ended call 7, so its receivers have ended call 6. In call 6 they emptied the slots of
 *   call 6 and cleared the headers of call 5. Call 8 uses the same slots as call 6 (of two sets) and the same headers
 *   as call 5 (of three sets). */
#pragma once

/* Sizes, calls and sentinels are those of ll/layout.cuh; regions differ. */
#define ll_return ll_return_of_one_host
#include "ll/layout.cuh"
#undef ll_return
#include "hosts/topology.cuh"
#include "hosts/transport.cuh"

/* Indices into EpArgs.region. R is the number of ranks, T max_tokens, K top-k, H hidden. "near": on this host;
 * "far": on another host; "own": only this rank uses it. "All ones", "Zeroed": contents before the first call. */
enum LhRegion {
  LH_COUNTS,      /* [3][R source][LH_COUNT_WORDS] u64: call << 32 | count: rows by expert, messages, relayed ones.
                     Zeroed */
  LH_COUNT_FLAG,  /* [3][R source] u64: call whose counts have arrived from a far rank. Zeroed */
  LH_COUNT_SEND,  /* [3][R][LH_COUNT_WORDS] u64: counts for far ranks; own */
  LH_HEADERS,     /* [3][R source][T][LH_HEAD] u64: headers that are polled. All ones */
  LH_SLOTS,       /* [2][R source][T][LH_MESSAGE]. From a near source: elements and scales, all ones between calls. From
                     a far source: messages that were put */
  LH_FLAG,        /* [2][R source][T] u64: call whose put has arrived from a far rank. Zeroed */
  LH_SEND,        /* [2][T][LH_MESSAGE]: tokens for far ranks; own */
  LH_ROUTE,       /* [R source][T message][LH_HEAD] u64: weight << 32 | row or LL_NOWHERE, then the token; own */
  LH_MESSAGES,    /* [R source] u32: messages of the last dispatch; own */
  LH_STARTED,     /* [2][R] u64: by number & 1, last combine that a rank began. Signals of two calls may be on the way.
                     Zeroed */
  LH_RETURN,      /* [2][T][K][H] BF16: rows by top-k position. All ones between calls */
  LH_RETURN_FLAG, /* [2][T][K] u64: call whose row has arrived from a far rank. Zeroed */
  LH_FORWARDED,   /* [2][R source][T][LL_SLOT_BYTES]: forwarded elements and scales. All ones between calls */
};

/* Number of words of a header: one word for each top-k position, and last the token's number. The upper half of
 * a position's word is the weight. The lower half is LL_NOWHERE if the position is masked. Otherwise it has the expert
 * from bit 20 on and, below, the row's position among this source's rows for the expert. */
static const uint32_t LH_HEAD = EP_TOPK + 1;
static const uint32_t LH_HEAD_AT = LL_SLOT_BYTES;
/* Offset in a relayed message: by top-k position, u32 number of the message forwarded to its expert's rank. */
static const uint32_t LH_NUMBERS_AT = LH_HEAD_AT + ep_up(8 * LH_HEAD, 16);
static const uint32_t LH_MESSAGE = LH_NUMBERS_AT + ep_up(4 * EP_TOPK, 16);
static const uint32_t LH_PUT = EP_ROUTE == EP_ROUTE_RAIL ? LH_MESSAGE : LH_NUMBERS_AT;
/* Number of words of LH_COUNTS for which a receiver waits. LH_COUNTS may have more: a put's bytes are a multiple
 * of 16. */
static const uint32_t LH_AWAITED = LL_COUNT_WORDS + (EP_ROUTE == EP_ROUTE_RAIL ? 1 : 0);
static const uint32_t LH_COUNT_WORDS = ep_up(LL_COUNT_WORDS + 1, 2);
static const uint32_t LH_ROW = 2 * EP_HIDDEN;

/* These functions return the offset of a cell of `bytes` bytes in a region [sets][R] or [sets][R][T]. Consecutive calls
 * use different sets. */
#define LH_BY_RANK(name, area, sets, bytes)                                \
  EP_DEVICE uint64_t name(const EpArgs &a, uint32_t call, uint32_t rank) { \
    return a.region[area] + (bytes) * (call % (sets) * EP_RANKS + rank);   \
  }
#define LH_BY_MESSAGE(name, area, sets, bytes)                                                 \
  EP_DEVICE uint64_t name(const EpArgs &a, uint32_t call, uint32_t source, uint32_t message) { \
    return a.region[area] + (bytes) * ep_token_place(a, call % (sets), source, message);       \
  }
LH_BY_RANK(lh_counts, LH_COUNTS, 3, 8ull * LH_COUNT_WORDS)
LH_BY_RANK(lh_count_flag, LH_COUNT_FLAG, 3, 8ull)
LH_BY_RANK(lh_count_send, LH_COUNT_SEND, 3, 8ull * LH_COUNT_WORDS)
LH_BY_RANK(lh_started, LH_STARTED, 2, 8ull)
LH_BY_MESSAGE(lh_header, LH_HEADERS, 3, 8ull * LH_HEAD)
LH_BY_MESSAGE(lh_slot, LH_SLOTS, 2, LH_MESSAGE)
LH_BY_MESSAGE(lh_forwarded, LH_FORWARDED, 2, LL_SLOT_BYTES)
LH_BY_MESSAGE(lh_flag, LH_FLAG, 2, 8)
EP_DEVICE uint64_t lh_send(const EpArgs &a, uint32_t call, uint32_t token) {
  return a.region[LH_SEND] + (static_cast<uint64_t>(call & 1) * static_cast<uint64_t>(a.max_tokens) + token) * LH_MESSAGE;
}
EP_DEVICE uint64_t lh_place(const EpArgs &a, uint32_t call, uint32_t token, uint32_t k) {
  return (static_cast<uint64_t>(call & 1) * static_cast<uint64_t>(a.max_tokens) + token) * EP_TOPK + k;
}
EP_DEVICE uint64_t lh_return(const EpArgs &a, uint32_t call, uint32_t token, uint32_t k) {
  return a.region[LH_RETURN] + lh_place(a, call, token, k) * LH_ROW;
}
EP_DEVICE uint64_t lh_return_flag(const EpArgs &a, uint32_t call, uint32_t token, uint32_t k) {
  return a.region[LH_RETURN_FLAG] + 8 * lh_place(a, call, token, k);
}

EP_DEVICE uint64_t *lh_route(const EpArgs &a, uint32_t source, uint32_t message) {
  return ep_own_word(a, a.region[LH_ROUTE]) + LH_HEAD * ep_token_place(a, 0, source, message);
}
EP_DEVICE uint32_t *lh_messages(const EpArgs &a) { return reinterpret_cast<uint32_t *>(ep_own_heap(a) + a.region[LH_MESSAGES]); }

EP_DEVICE int32_t lh_owner(int32_t expert) { return expert < 0 ? -1 : expert / EP_LOCAL_EXPERTS; }
EP_DEVICE int32_t lh_host(int32_t owner) { return owner < 0 ? -1 : ep_node_of(owner); }

/* Returns whether no lower lane has the same value. Such a lane begins a message. */
EP_DEVICE bool lh_first(int32_t value) {
  return static_cast<uint32_t>(__ffs(__match_any_sync(EP_FULL_WARP, value))) == lane_id() + 1;
}

/* Runs `work` as a call of a kernel. All blocks of the kernel must run at the same time. If the rank has given up a
 * wait, the call's number is 0 and the block leaves. */
template <class Work>
EP_DEVICE void lh_run(const EpArgs &a, Work work) {
  ep_span_begin(a);
  pdl_wait();
  const LlCall c = ll_call(a);
  if (ep_block_leaves(a)) return;
  work(c);
  pdl_launch();
  EP_NUMBER_DONE(a, c.number);
  ep_span_end(a);
}

/* LH_ENTRIES(name, call) defines the entries of a kernel that may be launched in two halves. call<sends, receives>(a)
 * does what a launch does: NAME_async sends, NAME_wait receives, and NAME does both. */
#define LH_ENTRY(name, call, sends, receives) \
  EP_ENTRY(EP_THREADS, 1) name(const __grid_constant__ EpArgs a) { call<sends, receives>(a); }
#define LH_ENTRIES(name, call) \
  LH_ENTRY(name##_async, call, true, false) LH_ENTRY(name##_wait, call, false, true) LH_ENTRY(name, call, true, true)
