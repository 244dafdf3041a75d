/* dispatch_ll is a dispatch for small batches. A token is sent once to each rank that has any of its experts. The
 * token's header names these experts. The receiver copies the token to one row of each of them.
 *
 * A sending warp sends EP_SEND_BYTES of a message at a time, which are called a unit. A receiving warp copies
 * EP_PART_BYTES at a time, which are called a part. With EP_EARLY 1 a warp waits for its first part before it knows
 * where the rows begin. */
#include "common/message.cuh"
#include "common/split.cuh"
#include "ll/offsets.cuh"
#ifndef LL_MEMORY
#include "ll/rows.cuh"
#endif

static const uint32_t LL_SEND = EP_SEND_BYTES / LL_WARP_BYTES;
static const uint32_t LL_PART = EP_PART_BYTES / LL_WARP_BYTES;
static const uint32_t LL_UNITS = (EP_VECTORS + 32 * LL_SEND - 1) / (32 * LL_SEND);
static const uint32_t LL_PARTS = (EP_VECTORS + 32 * LL_PART - 1) / (32 * LL_PART);
static const uint32_t LL_COUNT_WARPS = 8;

enum LlBarrier { LL_BAR_COUNT = 1, LL_BAR_OFFSETS };

struct LlShared {
  uint32_t selected[EP_EXPERTS]; /* tokens for each expert; used by the counting block only */
  uint32_t rows[EP_RANKS][EP_LOCAL_EXPERTS]; /* rows received; after ll_offsets the first row of each segment */
  uint32_t tokens[EP_RANKS];
  uint32_t failed;
  uint32_t ready;
};

/* The threads that count this rank's tokens for each expert. They are in the last block, in the warps before its last
 * warp. */
struct LlCounter {
  uint32_t index, threads; /* this thread counts if index < threads */
};
EP_DEVICE LlCounter ll_counter(const LlCall &c) {
  uint32_t warps = min(LL_COUNT_WARPS, c.warps - 1), first = c.warps - 1 - warps;
  return {c.block == c.blocks - 1 ? (c.warp - first) * 32 + c.lane : ~0u, warps * 32};
}

/* Counts. The counts are complete after the next barrier of these threads. */
EP_DEVICE void ll_count(const EpArgs &a, const LlCounter &n, LlShared &s) {
  if (n.index >= n.threads) return;
  for (uint32_t e = n.index; e < EP_EXPERTS; e += n.threads) s.selected[e] = 0;
  bar_sync(LL_BAR_COUNT, n.threads);
  ep_tally_ids(a, n.index, n.threads, static_cast<uint32_t>(a.tokens) * EP_TOPK, s.selected);
}

/* Sends each rank the counts of its experts. */
EP_DEVICE void ll_send_counts(const EpArgs &a, const LlCall &c, const LlCounter &n, const LlShared &s) {
  for (uint32_t e = n.index; n.index < n.threads && e < EP_EXPERTS + EP_RANKS; e += n.threads) {
    bool total = e >= EP_EXPERTS;
    uint32_t owner = total ? e - EP_EXPERTS : e / EP_LOCAL_EXPERTS;
    uint32_t word = total ? EP_LOCAL_EXPERTS : e % EP_LOCAL_EXPERTS;
    uint64_t count = total ? static_cast<uint32_t>(a.tokens) : s.selected[e];
    if (!total && ep_drill_drops(a, static_cast<int32_t>(e))) continue;
    st_relaxed_sys(ll_counts(a, owner, c.number, a.rank) + word, static_cast<uint64_t>(c.number) << 32 | count);
  }
}

/* Returns in lane k the position of a row in its segment: how many earlier tokens chose the expert that `token` has
 * at top-k position k. The function uses no atomics, so the position is the same in every run. */
EP_DEVICE uint32_t ll_positions(const EpArgs &a, uint32_t lane, uint32_t token, int32_t id) {
  const uint32_t batch = EP_TOPK < 8 ? EP_TOPK : 8;
  uint32_t mine = 0;
  for (uint32_t first = 0; first < EP_TOPK; first += batch) {
    int32_t want[batch];
    uint32_t seen[batch];
#pragma unroll
    for (uint32_t k = 0; k < batch; k++) {
      want[k] = __shfl_sync(EP_FULL_WARP, id, first + k);
      seen[k] = 0;
    }
    for (uint32_t j = lane; j < token * EP_TOPK; j += 32 * EP_IDS) {
      EpIds ids = ep_load_ids(a, j, 32, token * EP_TOPK);
#pragma unroll
      for (uint32_t i = 0; i < EP_IDS; i++)
#pragma unroll
        for (uint32_t k = 0; k < batch; k++) seen[k] += ids.id[i] == want[k];
    }
    __syncwarp();
#pragma unroll
    for (uint32_t k = 0; k < batch; k++) {
      uint32_t all = __reduce_add_sync(EP_FULL_WARP, seen[k]);
      if (lane == first + k) mine = all;
    }
  }
  return mine;
}

struct LlHead {
  int32_t id;
  uint32_t weight;
};
EP_DEVICE LlHead ll_load_head(const EpArgs &a, uint32_t token, uint32_t i) {
  uint32_t at = token * EP_TOPK + i % EP_TOPK;
  return {ep_load_id(a, at), LL_WEIGHTS ? __float_as_uint(a.weights[at]) : 0};
}

/* Sends a token's header to every rank. The header has a word for each top-k position: the weight, and the place of
 * the row if its expert is on that rank. With the weights, combine can sum rows before it sends them back. Lane k has
 * the id and weight of position k in `h`. */
EP_DEVICE void ll_send_header(const EpArgs &a, const LlCall &c, uint32_t token, LlHead h) {
  uint32_t position = ll_positions(a, c.lane, token, h.id);
  int32_t owner = h.id < 0 ? -1 : h.id / EP_LOCAL_EXPERTS;
  uint32_t place = static_cast<uint32_t>(h.id % EP_LOCAL_EXPERTS) << LL_PLACE_BITS | position;
  for (int i = 0; i < EP_RANKS; i++) {
    int to = (a.rank + i) % EP_RANKS;
    uint64_t word = static_cast<uint64_t>(h.weight) << 32 | (owner == to ? place : LL_NOWHERE);
    if (c.lane < EP_TOPK) st_relaxed_sys(ll_header(a, to, c.number, a.rank, token) + c.lane, word);
  }
}

struct LlUnit {
  EpInput in[LL_SEND];
  int32_t id;
};
EP_DEVICE uint32_t ll_unit_first(const LlCall &c, uint32_t unit) { return unit % LL_UNITS * (32 * LL_SEND) + c.lane; }
EP_DEVICE LlUnit ll_load_unit(const EpArgs &a, const LlCall &c, uint32_t unit) {
  uint32_t token = unit / LL_UNITS, first = ll_unit_first(c, unit);
  LlUnit u;
#pragma unroll
  for (uint32_t v = 0; v < LL_SEND; v++) u.in[v] = ep_load_input(a, token, first + 32 * v, ep_inside<LL_SEND>(first + 32 * v));
  u.id = c.lane < EP_TOPK ? ep_load_id(a, token * EP_TOPK + c.lane) : -1;
  return u;
}

/* Converts one unit of a token and stores it on every rank that has any of the token's experts. The order of ranks
 * changes from unit to unit, to use all links. */
EP_DEVICE void ll_send_unit(const EpArgs &a, const LlCall &c, uint32_t unit, const LlUnit &u) {
  uint32_t token = unit / LL_UNITS, first = ll_unit_first(c, unit), turn = static_cast<uint32_t>(a.rank) + 1 + unit;
  uint32_t ranks = __reduce_or_sync(EP_FULL_WARP, ep_is_expert(u.id) ? 1u << (u.id / EP_LOCAL_EXPERTS) : 0u);
  EpVector out[LL_SEND];
#pragma unroll
  for (uint32_t v = 0; v < LL_SEND; v++) out[v] = ep_message(u.in[v]);
  for (uint32_t i = 0; i < EP_RANKS; i++) {
    uint32_t to = (turn + i) % EP_RANKS;
    if (!(ranks >> to & 1u)) continue;
    uint8_t *slot = ll_slot(a, to, c.number, a.rank, token);
#pragma unroll
    for (uint32_t v = 0; v < LL_SEND; v++) {
      uint32_t vector = first + 32 * v;
      if (ep_inside<LL_SEND>(vector)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot) + vector, out[v].data);
      if (ep_has_scale<LL_SEND>(vector)) st_relaxed_sys(ep_slot_scale(slot, vector), out[v].scale);
    }
  }
}

EP_DEVICE uint32_t ll_senders(const EpArgs &a, const LlCall &c) {
  uint32_t units = static_cast<uint32_t>(a.tokens) * LL_UNITS;
  uint32_t receivers = min(static_cast<uint32_t>(a.receivers), c.warps - 1);
  return min((units + c.blocks - 1) / c.blocks, c.warps - receivers);
}

/* The unit and the header that a warp sends first. It loads them together with the number of the call, so that it
 * waits for memory only once. */
struct LlAhead {
  LlHead head;
  LlUnit unit;
};
EP_DEVICE LlAhead ll_load_ahead(const EpArgs &a, const LlCall &c) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens);
  LlAhead ahead = {};
  if (ll_from_bottom(c) < tokens * LL_UNITS) ahead.unit = ll_load_unit(a, c, ll_from_bottom(c));
  if (ll_from_top(c) < tokens) ahead.head = ll_load_head(a, ll_from_top(c), c.lane);
  return ahead;
}

/* Sends counts (the last block), headers (the last warps) and data (the first warps). */
EP_DEVICE void ll_dispatch_async(const EpArgs &a, const LlCall &c, const LlCounter &n, LlShared &s, uint32_t senders, LlAhead ahead) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens);
  if (!EP_EARLY && n.index < n.threads) {
    ll_count(a, n, s);
    bar_sync(LL_BAR_COUNT, n.threads);
  }
  ll_send_counts(a, c, n, s);
  for (uint32_t t = ll_from_top(c); t < tokens; t += ll_all_warps(c)) {
    if (t != ll_from_top(c)) ahead.head = ll_load_head(a, t, c.lane);
    ll_send_header(a, c, t, ahead.head);
  }
  if (c.warp >= senders) return;
  for (uint32_t u = ll_from_bottom(c); u < tokens * LL_UNITS; u += senders * c.blocks) {
    if (u != ll_from_bottom(c)) ahead.unit = ll_load_unit(a, c, u);
    ll_send_unit(a, c, u, ahead.unit);
  }
}

/* In call n, clears the headers of call n - 1. There are three sets of headers, so call n + 2 uses this set next. The
 * counts of call n - 1 say how many headers it used. One warp of each block calls it. */
EP_DEVICE void ll_clear_headers(const EpArgs &a, const LlCall &c) {
  uint32_t tokens = 0;
  const uint32_t before = ep_number_before(c.number);
  if (c.lane < EP_RANKS) tokens = static_cast<uint32_t>(ld_relaxed_sys(ll_counts(a, a.rank, before, c.lane) + EP_LOCAL_EXPERTS));
  for (int source = 0; source < EP_RANKS; source++) {
    uint32_t used = __shfl_sync(EP_FULL_WARP, tokens, source) * EP_TOPK;
    ep_clear_words(c, ll_header(a, a.rank, before, source, 0), used);
  }
  ll_clear_beside(a, c);
}

EP_DEVICE bool ll_wait_count(const EpArgs &a, const LlCall &c, int source, uint32_t word, uint32_t *count) {
  const uint64_t *p = ll_counts(a, a.rank, c.number, source) + word;
  int32_t expert = word < EP_LOCAL_EXPERTS ? static_cast<int32_t>(a.rank * EP_LOCAL_EXPERTS + word) : -1;
  EpSpin spin;
  for (;;) {
    uint64_t v = ld_relaxed_sys(p);
    *count = static_cast<uint32_t>(v);
    if (v >> 32 == c.number) return true;
    if (!spin.again(a, {EP_PHASE_DISPATCH_WAIT, expert, source}, c.number, v >> 32)) return false;
  }
}

/* Reads all counts and computes the first row of each segment. Every block does this, because one block could not
 * pass the result on as fast. Only warps of index `first` or more read and compute. */
EP_DEVICE void ll_wait_counts(const EpArgs &a, const LlCall &c, LlShared &s, uint32_t first) {
  if (c.warp < first) {
    while (ld_acquire_cta(&s.ready) == 0) spin_pause();
    __syncwarp();
    return;
  }
  uint32_t threads = (c.warps - first) * 32;
  for (uint32_t i = (c.warp - first) * 32 + c.lane; i < EP_RANKS * LL_COUNT_WORDS; i += threads) {
    uint32_t source = i / LL_COUNT_WORDS, word = i % LL_COUNT_WORDS, count = 0;
    if (!ll_wait_count(a, c, source, word, &count)) s.failed = 1;
    uint32_t *to = word < EP_LOCAL_EXPERTS ? &s.rows[source][word] : &s.tokens[source];
    *to = count;
  }
  bar_sync(LL_BAR_OFFSETS, threads);
  if (c.warp == first) {
    const bool publish = c.block == 0 && !s.failed;
    ll_offsets(a, s.rows, c.lane, publish);
    if (publish && c.lane < EP_RANKS) ll_tokens(a)[c.lane] = s.tokens[c.lane];
    __syncwarp();
    if (c.lane == 0) st_release_cta(&s.ready, 1u);
  }
  bar_sync(LL_BAR_OFFSETS, threads);
}

struct LlPart {
  uint32_t source, token, first;
  uint64_t head;
  uint32_t here;
  uint4 data[LL_PART];
  uint32_t scale[LL_PART];
};

EP_DEVICE LlPart ll_part(uint32_t job, uint32_t lane) {
  LlPart p;
  p.source = job % EP_RANKS;
  p.token = job / EP_RANKS / LL_PARTS;
  p.first = job / EP_RANKS % LL_PARTS * (32 * LL_PART) + lane;
  p.here = 0;
  return p;
}

/* Polls header, count and data of a part in one loop, so that their loads overlap. Returns false if the token does
 * not exist, has no expert on this rank, or did not arrive before the deadline. */
EP_DEVICE bool ll_wait_part(const EpArgs &a, const LlCall &c, LlPart &p) {
  if (!ep_alive(a, p.source)) return false;
  uint8_t *slot = ll_slot(a, a.rank, c.number, p.source, p.token);
  const uint64_t *header = ll_header(a, a.rank, c.number, p.source, p.token) + c.lane;
  const uint64_t *tokens = ll_counts(a, a.rank, c.number, p.source) + EP_LOCAL_EXPERTS;
  EpSpin spin;
  for (;;) {
    p.head = c.lane < EP_TOPK ? ld_relaxed_sys(header) : LL_NOWHERE;
    uint64_t count = ld_relaxed_sys(tokens);
    bool none = count >> 32 == c.number && p.token >= static_cast<uint32_t>(count);
    uint32_t largest = ep_load_part<LL_PART>(slot, p.first, p.data, p.scale);
    if (__all_sync(EP_FULL_WARP, p.head != ~0ull)) {
      p.here = __ballot_sync(EP_FULL_WARP, static_cast<uint32_t>(p.head) != LL_NOWHERE);
      if (p.here == 0 || __all_sync(EP_FULL_WARP, largest != EP_SENTINEL)) return p.here != 0;
    } else if (__any_sync(EP_FULL_WARP, none)) {
      return false;
    }
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(p.source)}, 1, p.here)) return false;
    if (a.pause_ns > 0) sleep_ns(static_cast<uint32_t>(a.pause_ns));
  }
}

EP_DEVICE void ll_copy_part(const EpArgs &a, const LlCall &c, const LlShared &s, const LlPart &p) {
  uint32_t place = static_cast<uint32_t>(p.head);
  bool mine = p.here >> c.lane & 1u;
  uint32_t row = 0;
  if (mine) row = s.rows[p.source][place >> LL_PLACE_BITS] + (place & ((1u << LL_PLACE_BITS) - 1));
  for (uint32_t left = p.here; left != 0; left &= left - 1) {
    uint64_t to = __shfl_sync(EP_FULL_WARP, row, __ffs(left) - 1);
    ep_write_part(a.out + to * EP_PAYLOAD, ll_row_scales(a, to, place, __ffs(left) - 1), ll_scale_step(a), p.first, p.data, p.scale);
  }
  uint8_t *slot = ll_slot(a, a.rank, c.number, p.source, p.token);
#pragma unroll
  for (uint32_t v = 0; v < LL_PART; v++) {
    uint32_t vector = p.first + 32 * v;
    if (ep_inside<LL_PART>(vector)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot) + vector, ep_sentinels());
    if (ep_has_scale<LL_PART>(vector)) st_relaxed_sys(ep_slot_scale(slot, vector), EP_SENTINEL);
  }
  if (p.first == c.lane && mine) ep_note_row(a, row, p.token, c.lane);
  if (p.first == c.lane && c.lane < EP_TOPK) ll_keep_route(a, p.source, p.token, c.lane, p.head, mine ? row : LL_NOWHERE);
}

EP_DEVICE void ll_route_nowhere(const EpArgs &a, const LlCall &c, const LlPart &p) {
  if (p.first == c.lane && c.lane < EP_TOPK) ll_keep_route(a, p.source, p.token, c.lane, 0, LL_NOWHERE);
}

EP_DEVICE void ll_dispatch_wait(const EpArgs &a, const LlCall &c, LlShared &s, uint32_t first) {
  uint32_t job = ll_from_top(c);
  const uint32_t per_token = EP_RANKS * LL_PARTS;
  LlPart p = ll_part(job, c.lane);
  bool here = false;
  if (EP_EARLY && job / per_token < static_cast<uint32_t>(a.max_tokens)) here = ll_wait_part(a, c, p);
  ll_wait_counts(a, c, s, first);
  if (s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  uint32_t tokens = 0;
  for (int r = 0; r < EP_RANKS; r++) tokens = max(tokens, s.tokens[r]);
  for (bool waited = EP_EARLY; job < tokens * per_token; job += ll_all_warps(c), waited = false) {
    if (!waited) {
      p = ll_part(job, c.lane);
      here = ll_wait_part(a, c, p);
    }
    ep_span_stage(a, EP_STAGE_ARRIVED);
    if (here) {
      ll_copy_part(a, c, s, p);
    } else if (p.token < s.tokens[p.source]) {
      ll_route_nowhere(a, c, p);
    }
  }
}

#ifndef EP_COUNT_IDS /* with EP_COUNT_IDS the entry is in dispatch_ids.cuh */
template <bool first>
EP_DEVICE void ll_dispatch(const EpArgs &a) {
  __shared__ LlShared s; /* in a first launch without EP_FUSED only the counting block uses it */
  ep_span_begin(a);
  pdl_wait();
  if (first && EP_FUSED) pdl_launch();
  if (first) ep_drill_delay(a);
  LlCall c = {0, warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x};
  const LlCounter n = ll_counter(c);
  LlAhead ahead;
  if (first) ahead = ll_load_ahead(a, c);
  /* Calls of few tokens (EP_EARLY) count while the number is loaded. With many tokens counting takes longer, and the
   * other warps of the block would wait for it in ep_block_leaves. */
  if (first && EP_EARLY) ll_count(a, n, s);
  c.number = ep_number(a);
  const uint32_t senders = first ? ll_senders(a, c) : 0;
  if ((!first || EP_FUSED) && threadIdx.x == 0) s.failed = s.ready = 0;
  if (ep_block_leaves(a)) return;
  if (first) ll_dispatch_async(a, c, n, s, senders, ahead);
  EP_NUMBER_DONE(a, c.number);
  if (first) ep_span_stage(a, EP_STAGE_SENT);
  if (first && c.warp == 0) ll_clear_headers(a, c);
  if (!first || EP_FUSED) ll_dispatch_wait(a, c, s, a.receivers > 0 ? senders : 0);
  ep_span_end(a);
}

EP_ENTRIES(dispatch_ll, ll_dispatch)
#endif
