/* dispatch_ll_ids is a dispatch_ll in which senders do not count rows. Each block that copies rows counts the headers
 * of all tokens, and computes the rows' positions in the output.
 *
 * dispatch_ll_ids uses the memory and the messages of dispatch_ll (ll/layout.cuh), with two differences. A header word
 * has the weight and the local expert, but no position. A source sends only the last count word, which is its number of
 * tokens.
 *
 * Why memory may be used again: call n uses set n % 3 of counts and headers, and set n & 1 of slots.
 * - A rank ends call n only when its last block has received the token counts of all ranks for call n. A rank sends its
 *   count for call n after its call n - 1 has ended. So while one rank is in call n, every rank is in call n - 1, n or
 *   n + 1.
 * - Headers: in call n the receiver reads set n % 3 and clears set (n - 1) % 3. A fast rank in call n + 1 writes set
 *   (n + 1) % 3. This was the set of call n - 2, which the receiver cleared in call n - 1.
 * - Counts: each contains the number of its call. Call n reads the counts of call n - 1 to know how many headers it
 *   must clear. dispatch_ll clears headers in the same way, so calls of the two kernels may follow each other on the
 *   same memory.
 * - Slots: a fast rank in call n + 1 writes the set of call n - 1, which the readers emptied before that call ended.
 * - Shared memory: a thread sets `ready` to 0 before the block's only __syncthreads. Gathering warps, which read the
 *   headers, first clear the row counts and marks and wait at a barrier of their own. They fill both from the headers.
 *   Then they store `ready` with release order. The block's other warps read rows and marks only after they have loaded
 *   a value other than 0 from `ready`. */
#define EP_EARLY 1
#include "ll/ids_send.cuh"

/* Number of header words that a lane polls together. In large blocks it is smaller, because threads have few
 * registers. */
static const uint32_t LL_HEADS = EP_THREADS > 512 ? 2 : 4;
static const uint32_t LL_HEADS_WARP = 32 * LL_HEADS;
static const uint32_t LL_LANE_EXPERTS = (EP_LOCAL_EXPERTS + 31) / 32;

/* The warps of a block that read the headers. They follow the sending warps, and there is one for each LL_HEADS_WARP
 * header words. */
struct LlGather {
  uint32_t first, warps;
};
EP_DEVICE LlGather ll_gatherers(const EpArgs &a, const LlCall &c, uint32_t senders) {
  uint32_t wanted = ceil_div(static_cast<uint32_t>(a.tokens) * LL_HEADS_TOKEN, LL_HEADS_WARP);
  return {senders, min(max(wanted, 1u), c.warps - senders)};
}
EP_DEVICE bool ll_gathers(const LlCall &c, const LlGather &g) { return c.warp >= g.first && c.warp < g.first + g.warps; }
EP_DEVICE void ll_gather_sync(const LlGather &g) {
  if (g.warps > 1) {
    bar_sync(LL_BAR_OFFSETS, g.warps * 32);
  } else {
    __syncwarp();
  }
}

/* Marks are words in dynamic shared memory, in an array [max_tokens / 32][source rank][local expert]. Bit t % 32 of
 * word t / 32 says that token t of the source has a row for the expert. A row's position is the number of marks of
 * earlier tokens. */
EP_DEVICE uint32_t ll_mark_words(int32_t tokens) { return ceil_div(static_cast<uint32_t>(tokens), 32) * EP_EXPERTS; }
EP_DEVICE uint32_t ll_mark(uint32_t source, uint32_t token, uint32_t expert) {
  return (token / 32 * EP_RANKS + source) * EP_LOCAL_EXPERTS + expert;
}

/* LlShared::ready is 0 until the headers are counted. Then it is the token count of the fullest rank plus 1, or
 * LL_LOST if data never arrived. */
static const uint32_t LL_LOST = 0xffffffffu;

EP_DEVICE bool ll_needs_ids(const LlCall &c, uint32_t tokens) {
  return c.block < tokens * EP_RANKS * LL_PARTS || c.block == c.blocks - 1;
}

/* The numbers of tokens that a gathering warp has received so far. `end` is the number of tokens whose headers it
 * polls: at first this rank's number, later the largest number received. */
struct LlArrivals {
  uint32_t tokens; /* lane r: tokens of rank r % EP_RANKS; 0 if not known yet */
  uint32_t end;
  bool reads;
};

/* Header words that a warp polls. They are numbered by token, then source, then top-k position. */
struct LlHeads {
  uint32_t first;
  uint64_t word[LL_HEADS];
};
EP_DEVICE uint32_t ll_head_token(uint32_t w) { return w / LL_HEADS_TOKEN; }
EP_DEVICE uint32_t ll_head_source(uint32_t w) { return w / EP_TOPK % EP_RANKS; }

EP_DEVICE bool ll_heads_here(const LlCall &c, const LlArrivals &n, const LlHeads &h) {
  bool here = true;
#pragma unroll
  for (uint32_t i = 0; i < LL_HEADS; i++) {
    uint32_t w = h.first + 32 * i + c.lane;
    uint32_t sent = __shfl_sync(EP_FULL_WARP, n.tokens, ll_head_source(w));
    here &= !n.reads | (ll_head_token(w) >= sent) | (h.word[i] != ~0ull);
  }
  return here;
}

EP_DEVICE int32_t ll_missing_source(const LlCall &c, const LlArrivals &n, const LlHeads &h, bool counted) {
  uint32_t silent = __ballot_sync(EP_FULL_WARP, !counted), source = 0;
  if (silent != 0) return static_cast<int32_t>((__ffs(silent) - 1) % EP_RANKS);
#pragma unroll
  for (uint32_t i = 0; i < LL_HEADS; i++) {
    uint32_t w = h.first + 32 * i + c.lane, of = ll_head_source(w);
    if (ll_head_token(w) < __shfl_sync(EP_FULL_WARP, n.tokens, of) && h.word[i] == ~0ull) source = max(source, of);
  }
  return static_cast<int32_t>(__reduce_max_sync(EP_FULL_WARP, source));
}

EP_DEVICE bool ll_wait_heads(const EpArgs &a, const LlCall &c, LlArrivals &n, LlHeads &h) {
  const uint64_t *counts = ll_counts(a, a.rank, c.number, c.lane % EP_RANKS) + EP_LOCAL_EXPERTS;
  const uint64_t lost = ep_alive(a, c.lane % EP_RANKS) ? 0 : static_cast<uint64_t>(c.number) << 32;
  EpSpin spin;
  for (;;) {
    uint64_t count = lost != 0 ? lost : ld_relaxed_sys(counts);
#pragma unroll
    for (uint32_t i = 0; i < LL_HEADS; i++) {
      uint32_t w = h.first + 32 * i + c.lane, token = ll_head_token(w);
      h.word[i] = ~0ull;
      if (n.reads && token < n.end) h.word[i] = ld_relaxed_sys(ll_header(a, a.rank, c.number, ll_head_source(w), token) + w % EP_TOPK);
    }
    bool counted = count >> 32 == c.number;
    n.tokens = counted ? static_cast<uint32_t>(count) : 0;
    if (__all_sync(EP_FULL_WARP, ll_heads_here(c, n, h) & counted)) return true;
    if (__any_sync(EP_FULL_WARP, n.tokens > n.end)) n.end = __reduce_max_sync(EP_FULL_WARP, n.tokens);
    /* Only a fault record needs the source, and EpSpin can give up only in every 64th poll. */
    int32_t source = (spin.polls & 63u) == 63u ? ll_missing_source(c, n, h, counted) : 0;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, source}, c.number, count >> 32)) return false;
  }
}

EP_DEVICE void ll_mark_heads(const LlCall &c, LlShared &s, uint32_t *marks, const LlHeads &h) {
#pragma unroll
  for (uint32_t i = 0; i < LL_HEADS; i++) {
    uint32_t place = static_cast<uint32_t>(h.word[i]);
    if (place >= LL_NOWHERE) continue; /* expert on another rank, id -1, or no such token */
    uint32_t w = h.first + 32 * i + c.lane, source = ll_head_source(w), token = ll_head_token(w), expert = place >> LL_PLACE_BITS;
    atomicAdd(&s.rows[source][expert], 1u);
    atomicOr(&marks[ll_mark(source, token, expert)], 1u << token % 32);
  }
}

EP_DEVICE void ll_clear_marks(const LlCall &c, LlShared &s, uint32_t *marks, const LlGather &g, uint32_t words) {
  uint32_t first = (c.warp - g.first) * 32 + c.lane, step = g.warps * 32;
  for (uint32_t i = first; i < EP_EXPERTS; i += step) s.rows[i / EP_LOCAL_EXPERTS][i % EP_LOCAL_EXPERTS] = 0;
  for (uint32_t i = first; i < words; i += step) marks[i] = 0;
  ll_gather_sync(g);
}

/* Waits for the first headers and all counts. Returns the token count of the fullest rank, or LL_LOST. Some blocks
 * have nothing to copy unless another rank has more tokens than this one. Such a block first waits for the counts
 * alone, then for the headers. */
EP_DEVICE uint32_t ll_wait_first(const EpArgs &a, const LlCall &c, LlArrivals &n, LlHeads &h) {
  if (!ll_wait_heads(a, c, n, h)) return LL_LOST;
  uint32_t most = __reduce_max_sync(EP_FULL_WARP, n.tokens);
  n.end = most;
  if (n.reads || !ll_needs_ids(c, most)) return most;
  n.reads = true;
  return ll_wait_heads(a, c, n, h) ? most : LL_LOST;
}

/* Counts all headers, and returns the value for LlShared::ready. All gathering warps call it. They pass the same
 * barriers even if a header never arrives. */
EP_DEVICE uint32_t ll_gather(const EpArgs &a, const LlCall &c, LlShared &s, uint32_t *marks, const LlGather &g) {
  uint32_t own = static_cast<uint32_t>(a.tokens), warp = c.warp - g.first, clear = ll_mark_words(a.tokens);
  LlArrivals n = {0, own, ll_needs_ids(c, own)};
  LlHeads h;
  h.first = warp * LL_HEADS_WARP;
  ll_clear_marks(c, s, marks, g, clear);
  uint32_t most = ll_wait_first(a, c, n, h);
  if (ll_mark_words(a.max_tokens) > clear) {
    uint32_t end = most == LL_LOST ? 0 : ll_mark_words(static_cast<int32_t>(most));
    for (uint32_t i = clear + warp * 32 + c.lane; i < end; i += g.warps * 32) marks[i] = 0;
    ll_gather_sync(g);
  }
  bool here = most != LL_LOST;
  while (here && n.reads) {
    ll_mark_heads(c, s, marks, h);
    h.first += g.warps * LL_HEADS_WARP;
    if (h.first >= most * LL_HEADS_TOKEN) break;
    here = ll_wait_heads(a, c, n, h);
  }
  if (!here) s.failed = 1;
  if (warp == 0 && c.lane < EP_RANKS) s.tokens[c.lane] = n.tokens;
  ll_gather_sync(g);
  return s.failed ? LL_LOST : 1 + most;
}

EP_DEVICE void ll_place_segments(const EpArgs &a, LlShared &s, uint32_t lane, bool publish) {
  uint32_t count[LL_LANE_EXPERTS][EP_RANKS], padded[LL_LANE_EXPERTS], rows = 0;
#pragma unroll
  for (uint32_t i = 0; i < LL_LANE_EXPERTS; i++) {
    uint32_t e = lane * LL_LANE_EXPERTS + i, all = 0;
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) all += count[i][r] = e < EP_LOCAL_EXPERTS ? s.rows[r][e] : 0;
    rows += padded[i] = ll_block_rows(a, all);
  }
  uint32_t end = warp_prefix_sum(rows), start = end - rows;
#pragma unroll
  for (uint32_t i = 0; i < LL_LANE_EXPERTS; i++) {
    uint32_t e = lane * LL_LANE_EXPERTS + i, row = start;
    if (e < EP_LOCAL_EXPERTS && publish) ll_publish_expert(a, e, row, count[i]);
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) {
      if (e < EP_LOCAL_EXPERTS) s.rows[r][e] = row;
      row += count[i][r];
    }
    start += padded[i];
  }
  if (!publish) return;
  ll_publish_all(a, lane, end, count);
  if (lane < EP_RANKS) ll_tokens(a)[lane] = s.tokens[lane];
}

/* Counts the rows and finds their positions. The last block also writes row_offsets and expert_ids, because it has
 * the fewest rows to copy. */
EP_DEVICE void ll_gather_and_place(const EpArgs &a, const LlCall &c, LlShared &s, uint32_t *marks, const LlGather &g) {
  uint32_t ready = ll_gather(a, c, s, marks, g);
  if (c.warp != g.first) return;
  if (ready != LL_LOST) ll_place_segments(a, s, c.lane, c.block == c.blocks - 1);
  __syncwarp();
  if (c.lane == 0) st_release_cta(&s.ready, ready);
}

/* Waits until the gathering warps have found the rows' positions. Returns the token count of the fullest rank, or 0
 * if a count or a header never arrived. */
EP_DEVICE uint32_t ll_wait_ready(const EpArgs &a, const LlShared &s) {
  EpSpin spin;
  for (;;) {
    uint32_t ready = ld_acquire_cta(&s.ready);
    if (__all_sync(EP_FULL_WARP, ready != 0)) return ready == LL_LOST ? 0 : ready - 1;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, -1}, 1, 0)) return 0;
  }
}

EP_DEVICE void ll_find_positions(const LlCall &c, const uint32_t *marks, LlPart &p) {
  if (!(p.here >> c.lane & 1u)) return;
  uint32_t expert = static_cast<uint32_t>(p.head) >> LL_PLACE_BITS;
  uint32_t position = __popc(marks[ll_mark(p.source, p.token, expert)] & ((1u << p.token % 32) - 1));
  for (uint32_t t = 0; t < p.token / 32 * 32; t += 32) position += __popc(marks[ll_mark(p.source, t, expert)]);
  p.head += position;
}

/* Receives rows. Gathering warps first read headers. Meanwhile each of the block's other warps may poll the data of its
 * first part. It polls if the part's token number exists on this rank, because it then probably exists on the source
 * too. */
EP_DEVICE void ll_ids_wait(const EpArgs &a, const LlCall &c, LlShared &s, uint32_t *marks, const LlGather &g) {
  const uint32_t per_token = EP_RANKS * LL_PARTS;
  uint32_t job = ll_from_top(c);
  LlPart p = ll_part(job, c.lane);
  bool early = false, here = false;
  if (ll_gathers(c, g)) {
    ll_gather_and_place(a, c, s, marks, g);
  } else if (p.token < static_cast<uint32_t>(a.tokens)) {
    early = true;
    here = ll_wait_part(a, c, p);
  }
  uint32_t tokens = ll_wait_ready(a, s);
  ep_span_stage(a, EP_STAGE_READY);
  for (; job < tokens * per_token; job += ll_all_warps(c), early = false) {
    if (!early) {
      p = ll_part(job, c.lane);
      here = ll_wait_part(a, c, p);
    }
    ep_span_stage(a, EP_STAGE_ARRIVED);
    if (here) {
      ll_find_positions(c, marks, p);
      ll_copy_part(a, c, s, p);
    } else if (p.token < s.tokens[p.source]) {
      ll_route_nowhere(a, c, p);
    }
  }
}

EP_ENTRY(EP_THREADS, 1) dispatch_ll_ids(const __grid_constant__ EpArgs a) {
  __shared__ LlShared s;
  EP_DYNAMIC_SHARED(shared);
  uint32_t *marks = reinterpret_cast<uint32_t *>(shared);
  ep_begin(a);
  ep_drill_delay(a);
  LlCall c = {0, warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x};
  LlAhead ahead = ll_load_ahead(a, c);
  c.number = ep_number(a);
  if (threadIdx.x == 0) s.failed = s.ready = 0;
  if (ep_block_leaves(a)) return;
  uint32_t senders = ll_senders(a, c);
  ll_ids_async(a, c, senders, ahead);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  if (c.warp == 0) ll_clear_headers(a, c);
  ll_ids_wait(a, c, s, marks, ll_gatherers(a, c, senders));
  ep_span_end(a);
}
