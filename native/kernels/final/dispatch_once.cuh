/* dispatch_final exchanges counts, then stores every token in its row of the output. The first `senders` blocks
 * send; the others complete the tokens that arrived.
 *
 * With EP_DIRECT 0, a token is sent once to each rank of its experts, and the receiver copies it to the rows of the
 * rank's other experts. With EP_DIRECT 1, a token is sent once for each expert, and receivers need fewer SMs. */
#include "final/scales.cuh"

static const uint32_t FIN_STEP = EP_DTYPE == EP_FP8 ? 2 : 4;
static const uint32_t FIN_DEPTH = EP_THREADS > 768 ? 4 : 8; /* vectors that a lane of fin_duplicate loads together */

struct FinStep {
  EpSource in[FIN_STEP];
};
EP_DEVICE FinStep fin_load(const uint16_t *token, uint32_t vector) {
  FinStep step;
#pragma unroll
  for (uint32_t v = 0; v < FIN_STEP; v++)
    step.in[v] = ep_load_source(token, vector + 32 * v, vector + 32 * v < EP_VECTORS);
  return step;
}

EP_DEVICE uint4 fin_unit_scales(uint32_t scale) {
  return make_uint4(__shfl_sync(EP_FULL_WARP, scale, 0), __shfl_sync(EP_FULL_WARP, scale, 8),
                    __shfl_sync(EP_FULL_WARP, scale, 16), __shfl_sync(EP_FULL_WARP, scale, 24));
}

/* Keeps the four scales of a unit (32 vectors) in the lane that will store them, so that all scales of a message are
 * stored by one instruction. */
EP_DEVICE void fin_keep_scales(uint32_t lane, uint32_t unit, uint32_t scale, uint4 &kept) {
  uint4 all = fin_unit_scales(scale);
  if (lane == unit) kept = all;
}

/* Converts a token and stores it at `copies` addresses, while the next step's vectors are being loaded. Returns
 * this lane's scales. */
EP_DEVICE uint4 fin_send_payload(const EpArgs &a, const EpCall &c, uint32_t token, uint8_t *const *to, uint32_t copies) {
  const uint16_t *x = a.x + static_cast<uint64_t>(token) * EP_HIDDEN;
  uint4 scales = make_uint4(0, 0, 0, 0);
  FinStep next = fin_load(x, c.lane);
  for (uint32_t first = 0; first < EP_VECTORS; first += 32 * FIN_STEP) {
    FinStep step = next;
    next = fin_load(x, first + 32 * FIN_STEP + c.lane);
    EpVector out[FIN_STEP];
#pragma unroll
    for (uint32_t v = 0; v < FIN_STEP; v++) {
      out[v] = ep_convert(step.in[v]);
      if (EP_TOKEN_SCALES > 0) fin_keep_scales(c.lane, first / 32 + v, out[v].scale, scales);
    }
    for (uint32_t i = 0; i < copies; i++) {
      uint4 *row = reinterpret_cast<uint4 *>(to[i]);
#pragma unroll
      for (uint32_t v = 0; v < FIN_STEP; v++) {
        uint32_t vector = first + 32 * v + c.lane;
        if (ep_inside<FIN_STEP>(vector)) st_relaxed_sys(row + vector, out[v].data);
      }
    }
  }
  return scales;
}

struct FinPosition {
  int32_t id, owner;
  uint32_t row;
  uint64_t weight;
};
EP_DEVICE FinPosition fin_load_position(const EpArgs &a, const EpCall &c, const FinShared &s, uint32_t token) {
  uint32_t at = token * EP_TOPK + c.lane;
  FinPosition p = {c.lane < EP_TOPK ? ep_id(a, at) : -1, -1, 0, 0};
  if (c.lane < EP_TOPK) p.weight = static_cast<uint64_t>(__float_as_uint(a.weights[at])) << 32;
  if (p.id < 0) return p;
  p.owner = p.id / EP_LOCAL_EXPERTS;
  p.row = s.base[p.id] + fin_places(a)[at];
  return p;
}

EP_DEVICE void fin_send_token(const EpArgs &a, const EpCall &c, FinShared &s, uint32_t token) {
  FinPosition p = fin_load_position(a, c, s, token);
  uint32_t below = (1u << c.lane) - 1;
  bool first = (__match_any_sync(EP_FULL_WARP, p.owner) & below) == 0;
  uint32_t sent = __ballot_sync(EP_FULL_WARP, p.id >= 0 && (EP_DIRECT || first));
  uint32_t ranks = __reduce_or_sync(EP_FULL_WARP, p.id < 0 ? 0u : 1u << p.owner);
  uint8_t **to = s.to[c.warp];
  if (sent >> c.lane & 1u)
    to[__popc(sent & below)] = a.heap[p.owner] + (a.out - a.heap[a.rank]) + static_cast<uint64_t>(p.row) * EP_PAYLOAD;
  __syncwarp();
  uint4 scales = fin_send_payload(a, c, token, to, __popc(sent));
  for (int r = 0; r < EP_RANKS; r++)
    if (EP_TOKEN_SCALES > 0 && (ranks >> r & 1u) && c.lane < FIN_SCALE_BYTES / 16)
      st_relaxed_sys(reinterpret_cast<uint4 *>(fin_scales(a, r, a.rank, token)) + c.lane, scales);
  __syncwarp();
  fence_acq_rel_sys();
  for (int r = 0; r < EP_RANKS; r++)
    if (c.lane < EP_TOPK)
      st_relaxed_sys(fin_words(a, r, FIN_HEADERS, a.rank, token) + c.lane, p.weight | (p.owner == r ? p.row : FIN_NOWHERE));
}

EP_DEVICE void fin_dispatch_async(const EpArgs &a, const EpCall &c, FinShared &s) {
  bool last = c.block == c.senders - 1;
  if (last) fin_signal_tokens(a, c);
  fin_count(a, c, s);
  fin_count_before(a, c, s);
  if (last) fin_signal(a, c, s);
  fin_place(a, c, s);
  fin_wait_counts(a, c, s);
  if (s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  FinRun run = fin_block_tokens(a, c);
  for (uint32_t t = run.begin + c.warp; t < run.end; t += c.warps) fin_send_token(a, c, s, t);
  ep_span_stage(a, EP_STAGE_SENT);
}

#ifdef EP_TEAM
static const bool FIN_HOME = true;
#else
static const bool FIN_HOME = false;
#endif
static const uint32_t FIN_SOURCES = FIN_HOME && EP_RANKS > 1 ? EP_RANKS - 1 : EP_RANKS;

/* Returns message i for this rank, in the order of sending: the first tokens of all blocks, then the second
 * tokens, and so on. */
EP_DEVICE FinMessage fin_message(const EpArgs &a, const EpCall &c, const FinShared &s, uint32_t i) {
  FinMessage m;
  m.source = (i + static_cast<uint32_t>(a.rank)) % EP_RANKS;
  if (FIN_HOME) m.source = (static_cast<uint32_t>(a.rank) + 1 + i % FIN_SOURCES) % EP_RANKS;
  uint32_t turn = i / FIN_SOURCES / c.senders, block = i / FIN_SOURCES % c.senders;
  uint32_t each = ceil_div(s.tokens[m.source], c.senders);
  m.token = block * each + turn;
  m.exists = turn < each && m.token < s.tokens[m.source];
  return m;
}
EP_DEVICE uint32_t fin_messages(const EpCall &c, const FinShared &s) {
  if (FIN_HOME && EP_RANKS == 1) return 0;
  uint32_t most = 0;
  for (int r = 0; r < EP_RANKS; r++) most = max(most, s.tokens[r]);
  return ceil_div(most, c.senders) * c.senders * FIN_SOURCES;
}

EP_DEVICE void fin_duplicate(const EpArgs &a, const EpCall &c, uint32_t here, uint32_t row) {
  uint64_t from = __shfl_sync(EP_FULL_WARP, row, __ffs(here) - 1);
  const uint4 *in = reinterpret_cast<const uint4 *>(a.out + from * EP_PAYLOAD);
  for (uint32_t first = 0; first < EP_VECTORS; first += 32 * FIN_DEPTH) {
    uint4 data[FIN_DEPTH];
#pragma unroll
    for (uint32_t v = 0; v < FIN_DEPTH; v++) {
      uint32_t vector = first + 32 * v + c.lane;
      if (vector < EP_VECTORS) data[v] = ld_once(in + vector);
    }
    for (uint32_t left = here & (here - 1); left != 0; left &= left - 1) {
      uint64_t to = __shfl_sync(EP_FULL_WARP, row, __ffs(left) - 1);
      uint4 *out = reinterpret_cast<uint4 *>(a.out + to * EP_PAYLOAD);
#pragma unroll
      for (uint32_t v = 0; v < FIN_DEPTH; v++) {
        uint32_t vector = first + 32 * v + c.lane;
        if (vector < EP_VECTORS) out[vector] = data[v];
      }
    }
  }
}

EP_DEVICE bool fin_complete(const EpArgs &a, const EpCall &c, FinMessage m) {
  uint64_t *header = fin_words(a, a.rank, FIN_HEADERS, m.source, m.token);
  uint64_t word = FIN_NOWHERE;
  EpSpin spin;
  while (__any_sync(EP_FULL_WARP, (word = c.lane < EP_TOPK ? ld_relaxed_sys(header + c.lane) : FIN_NOWHERE) == FIN_EMPTY))
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(m.source)}, 1, 0)) return false;
  ep_span_stage(a, EP_STAGE_ARRIVED);
  bool mine = static_cast<uint32_t>(word) != FIN_NOWHERE;
  uint32_t row = static_cast<uint32_t>(word);
  uint32_t here = __ballot_sync(EP_FULL_WARP, mine);
  FinScales scales = {};
  if (FIN_TILES && mine) fin_note_origin(a, m, row);
  if (EP_TOKEN_SCALES > 0 && !FIN_TILES && here != 0) scales = fin_load_scales(a, c, m);
  if (!EP_DIRECT && (here & (here - 1)) != 0) fin_duplicate(a, c, here, row);
  if (EP_TOKEN_SCALES > 0 && !FIN_TILES) fin_place_scales(a, c, scales, here, row);
  if (mine) {
    a.src_info[2 * static_cast<uint64_t>(row)] = static_cast<int32_t>(m.token);
    a.src_info[2 * static_cast<uint64_t>(row) + 1] = static_cast<int32_t>(c.lane);
  }
  if (c.lane < EP_TOPK) {
    fin_words(a, a.rank, FIN_ROUTE, m.source, m.token)[c.lane] = word;
    st_relaxed_sys(header + c.lane, FIN_EMPTY);
  }
  return true;
}

/* Receives, as warp number `warp` of `step` warps. Tokens arrive out of order, so each lane polls the header of a
 * different message. Then the whole warp completes the messages that have arrived. */
EP_DEVICE void fin_dispatch_wait(const EpArgs &a, const EpCall &c, const FinShared &s, uint32_t warp, uint32_t step) {
  uint32_t all = fin_messages(c, s), i = warp + c.lane * step;
  EpSpin spin;
  for (;;) {
    FinMessage m = fin_message(a, c, s, i);
    while (i < all && !m.exists) m = fin_message(a, c, s, i += 32 * step);
    bool pending = i < all, there = false;
    if (pending) there = ld_acquire_sys(fin_words(a, a.rank, FIN_HEADERS, m.source, m.token)) != FIN_EMPTY;
    uint32_t ready = __ballot_sync(EP_FULL_WARP, there), waiting = __ballot_sync(EP_FULL_WARP, pending);
    if (waiting == 0) return;
    if (ready == 0) {
      int32_t source = static_cast<int32_t>(__shfl_sync(EP_FULL_WARP, m.source, __ffs(waiting) - 1));
      if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, source}, waiting, 0)) return;
      continue;
    }
    __syncwarp(); /* all lanes may read what one lane acquired */
    spin = EpSpin();
    for (uint32_t left = ready; left != 0; left &= left - 1) {
      int lane = __ffs(left) - 1;
      FinMessage one = {__shfl_sync(EP_FULL_WARP, m.source, lane), __shfl_sync(EP_FULL_WARP, m.token, lane), true};
      if (!fin_complete(a, c, one)) return;
    }
    if (there) i += 32 * step;
  }
}

#ifndef EP_TEAM
EP_ENTRY(EP_THREADS, 1) dispatch_final(const __grid_constant__ EpArgs a) {
  __shared__ FinShared s;
  ep_begin(a);
  ep_drill_delay(a);
  EpCall c = ep_call(a);
  fin_begin(a, c, s);
  if (ep_block_leaves(a)) return;
  if (ep_sends(c)) {
    fin_dispatch_async(a, c, s);
  } else {
    fin_wait_tokens(a, c, s);
  }
  EP_NUMBER_DONE(a, c.number);
  if (ep_receives(c) && !s.failed) {
    fin_dispatch_wait(a, c, s, fin_receiver(c), fin_receiving_warps(c));
    if (FIN_TILES) {
      fin_meet(a, c, s, fin_receiving_blocks(c), true);
      if (!s.failed) fin_place_tiles(a, c, s);
    }
  }
  ep_span_end(a);
}
#endif
