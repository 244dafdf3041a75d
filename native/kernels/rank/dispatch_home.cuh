/* dispatch_rank_home is a dispatch_rank for many tokens: a sender stores a token's elements in the receiver's output,
 * not in a slot. With few SMs, copying rows out of slots takes longer than sending them over the link.
 *
 * A sender first waits until it may write to the outputs. If each source has its own segment of the output, it waits
 * until all ranks have begun the call. If rows are packed, it waits for the counts of all ranks. For each token the
 * sender stores the elements, passes a fence, and stores the scales and the head in the slot. When the receiver sees
 * the head, the elements have arrived too.
 *
 * dispatch_rank_staged (EP_STAGED) is for outputs that other ranks cannot write to. The sender stores the elements in
 * the slot, before the scales and the head. The receiver copies the elements, and fills the slot with ones again,
 * because dispatch_rank polls the same slots. A rank stores rows of its own tokens in its output directly. */
#include "rank/tails.cuh"

#ifdef EP_STAGED
static const bool RANK_STAGED = true;
#else
static const bool RANK_STAGED = false;
#endif

/* Stores a unit of a token on each rank that has any of its experts, and keeps the unit's scales in registers. The
 * order of ranks changes from unit to unit, to use all links. */
EP_DEVICE void rank_home_store(const EpArgs &a, const EpCall &c, const RankHomeShared &s, uint32_t i, uint32_t unit, const RankUnit &u, RankScales &kept) {
  uint32_t first = unit * (32 * RANK_STEP) + c.lane, turn = static_cast<uint32_t>(a.rank) + 1 + unit;
  EpVector out[RANK_STEP];
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    out[v] = ep_message(u.in[v]);
    if (EP_TOKEN_SCALES > 0) rank_keep_scales(c.lane, unit * RANK_STEP + v, out[v].scale, kept);
  }
  for (uint32_t j = 0; j < EP_RANKS; j++) {
    int to = static_cast<int>((turn + j) % EP_RANKS);
    if (!rank_goes(s.tile, i, to)) continue;
    uint4 *data;
    if (RANK_STAGED && to != a.rank) {
      data = reinterpret_cast<uint4 *>(rank_slot(a, to, c.number, a.rank, rank_place(s.tile, i, to)));
    } else {
      data = reinterpret_cast<uint4 *>(ep_heap(a, to) + (a.out - ep_heap(a, a.rank)) + rank_row_on(s, i, to) * EP_PAYLOAD);
    }
#pragma unroll
    for (uint32_t v = 0; v < RANK_STEP; v++)
      if (ep_inside<RANK_STEP>(first + 32 * v)) st_relaxed_sys(data + first + 32 * v, out[v].data);
  }
}

/* Sends a tile: the tokens from `first` to before `end`. One warp sends a token. */
EP_DEVICE void rank_home_send(const EpArgs &a, const EpCall &c, const RankHomeShared &s, uint32_t first, uint32_t end, RankUnit next) {
  for (uint32_t token = first + c.warp; token < end; token += c.warps) {
    RankScales kept = {};
    for (uint32_t unit = 0; unit < RANK_UNITS; unit++) {
      RankUnit u = next;
      bool last = unit + 1 == RANK_UNITS;
      uint32_t after = last ? token + c.warps : token;
      next = rank_load(a, after, last ? c.lane : (unit + 1) * (32 * RANK_STEP) + c.lane, after < end);
      rank_home_store(a, c, s, token - first, unit, u, kept);
    }
    rank_home_end(a, c, s, token, token - first, kept);
  }
}

/* Sends this block's tokens from `begin` to before `end`. c.warps warps call it, and a tile has one token for each of
 * their threads. `unit` holds the first unit of this warp's first token. */
EP_DEVICE void rank_home_tiles(const EpArgs &a, const EpCall &c, RankHomeShared &s, uint32_t begin, uint32_t end, RankUnit unit) {
  const uint32_t tile = RANK_STAGED ? c.warps * 32 : blockDim.x;
  for (uint32_t first = begin; first < end; first += tile) {
    uint32_t last = min(first + tile, end);
    if (first != begin) unit = rank_load(a, first + c.warp, c.lane, first + c.warp < last);
    rank_place_tile(a, c, s.tile, first, last);
    rank_home_send(a, c, s, first, last, unit);
  }
}

EP_DEVICE void rank_home_async(const EpArgs &a, const EpCall &c, RankHomeShared &s) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens), each = (tokens + c.senders - 1) / c.senders;
  uint32_t begin = min(c.block * each, tokens), end = min(begin + each, tokens);
  RankUnit unit = rank_load(a, begin + c.warp, c.lane, begin + c.warp < end);
  rank_home_prepare(a, c, s, begin);
  if (s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  rank_home_tiles(a, c, s, begin, end, unit);
}

/* Number of a row's vectors that a lane copies at a time. In a block of 1,024 threads a lane has registers for four. */
static const uint32_t RANK_TAKEN = EP_THREADS > 768 ? 4 : 7;

EP_DEVICE void rank_take_elements(const EpArgs &a, const EpCall &c, const RankHomeShared &s, const RankTailWords &m) {
  uint4 *slot = reinterpret_cast<uint4 *>(rank_slot(a, a.rank, c.number, m.source, m.place));
  uint4 *row = rank_out(a, s.first[m.source] + static_cast<uint64_t>(m.place));
#pragma unroll 1
  for (uint32_t first = c.lane; first < EP_VECTORS; first += 32 * RANK_TAKEN) {
    uint4 data[RANK_TAKEN];
#pragma unroll
    for (uint32_t v = 0; v < RANK_TAKEN; v++)
      if (first + 32 * v < EP_VECTORS) data[v] = ld_relaxed_sys(slot + first + 32 * v);
#pragma unroll
    for (uint32_t v = 0; v < RANK_TAKEN; v++)
      if (first + 32 * v < EP_VECTORS) {
        row[first + 32 * v] = data[v];
        st_relaxed_sys(slot + first + 32 * v, ep_sentinels());
      }
  }
}

EP_DEVICE void rank_home_wait(const EpArgs &a, const EpCall &c, const RankHomeShared &s) {
  uint32_t most = 0, step = rank_receiving_warps(c);
  for (uint32_t i = 1; i < EP_RANKS; i++) most = max(most, rank_turns(c, s.rows[(a.rank + i) % EP_RANKS][a.rank]));
  for (uint32_t job = rank_receiver(c); job < most * RANK_PEERS; job += RANK_TAILS * step) {
    RankTailWords m[RANK_TAILS];
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++) {
      m[b] = rank_tail(c, s, a.rank, job + b * step);
      m[b].exists &= job + b * step < most * RANK_PEERS;
    }
    if (!rank_wait_tails(a, c, m)) return;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    if (RANK_STAGED) {
      fence_acq_rel_sys(); /* pairs with the senders' fences */
#pragma unroll
      for (uint32_t b = 0; b < RANK_TAILS; b++)
        if (m[b].exists) rank_take_elements(a, c, s, m[b]);
    }
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++)
      if (m[b].exists) rank_take_tail(a, c, s, m[b]);
  }
  fence_acq_rel_sys(); /* pairs with the senders' fences, for readers of this call's output */
}

#ifndef EP_STAGED
EP_ENTRY(EP_THREADS, 1) dispatch_rank_home(const __grid_constant__ EpArgs a) {
  __shared__ RankHomeShared s;
  ep_begin(a);
  ep_drill_delay(a);
  EpCall c = ep_call(a);
  if (ep_block_leaves(a)) return;
  rank_begin(s);
  rank_home_begin(a, c);
  if (ep_sends(c)) rank_home_async(a, c, s);
  if (ep_receives(c) && !(EP_PACKED && ep_sends(c))) rank_home_counts(a, c, s);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  if (!s.failed && c.block == gridDim.x - 1) rank_home_leave_counts(a, s);
  if (!s.failed && ep_receives(c) && EP_RANKS > 1) rank_home_wait(a, c, s);
  ep_span_end(a);
}
#else
EP_ENTRY(EP_THREADS, 1) dispatch_rank_staged(const __grid_constant__ EpArgs a) {
  __shared__ RankHomeShared s;
  ep_begin(a);
  ep_drill_delay(a);
  EpCall c = ep_call(a);
  if (ep_block_leaves(a)) return;
  rank_begin(s);
  rank_home_begin(a, c);
  /* The first `senders` warps of the block send, and the others receive. */
  uint32_t senders = !ep_sends(c) ? 0 : c.receivers > 0 ? c.warps : c.warps / 2;
  bool sends = c.warp < senders;
  EpCall role = c;
  role.warps = sends ? senders : c.warps - senders;
  role.warp = sends ? c.warp : c.warp - senders;
  uint32_t tokens = static_cast<uint32_t>(a.tokens), each = (tokens + c.senders - 1) / c.senders;
  uint32_t begin = min(c.block * each, tokens), end = min(begin + each, tokens);
  RankUnit unit = rank_load(a, begin + role.warp, c.lane, sends && begin + role.warp < end);
  if (ep_sends(c)) rank_home_prepare(a, c, s, begin);
  if (ep_receives(c) && !(EP_PACKED && ep_sends(c))) rank_home_counts(a, c, s);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_READY);
  if (!s.failed && c.block == gridDim.x - 1) rank_home_leave_counts(a, s);
  if (!s.failed && sends) rank_home_tiles(a, role, s, begin, end, unit);
  if (sends) ep_span_stage(a, EP_STAGE_SENT);
  if (!s.failed && !sends && EP_RANKS > 1) rank_home_wait(a, role, s);
  ep_span_end(a);
}
#endif
