/* dispatch_final_home differs from dispatch_final on the sender's own rank. With algo=dedup, dispatch_final stores one
 * row of a token there, and a receiver copies it to the token's other rows. In dispatch_final_home the sender stores
 * all these rows. Receivers copy only rows of other ranks' tokens.
 *
 * EP_TEAM: number of warps that send one token together. */
#define EP_DIRECT 0
#include "final/dispatch_once.cuh"

static const uint32_t FIN_THREAD_EXPERTS = (EP_EXPERTS + EP_THREADS - 1) / EP_THREADS;

struct FinHomeShared {
  FinShared s;
  uint8_t *to[EP_THREADS / 32][EP_TOPK];
  uint32_t sent[EP_THREADS / 32];        /* number of tokens of which each warp has stored its share */
};

/* Counts all ids of this rank and sends the counts, then counts the ids of the block's own tokens. The last
 * sending block calls it; other blocks do only the second step. */
EP_DEVICE void fin_count_all(const EpArgs &a, const EpCall &c, FinShared &s) {
  uint32_t end = static_cast<uint32_t>(a.tokens) * EP_TOPK, rows[FIN_THREAD_EXPERTS];
  for (uint32_t e = threadIdx.x; e < EP_EXPERTS; e += blockDim.x) s.base[e] = s.start[e] = 0;
  EpIds ids = ep_load_ids(a, threadIdx.x, blockDim.x, end);
  fin_signal_tokens(a, c);
  __syncthreads();
  for (uint32_t j = threadIdx.x; j < end; j += blockDim.x * EP_IDS) {
    if (j != threadIdx.x) ids = ep_load_ids(a, j, blockDim.x, end);
#pragma unroll
    for (uint32_t i = 0; i < EP_IDS; i++)
      if (ep_is_expert(ids.id[i])) atomicAdd(&s.base[ids.id[i]], 1u);
  }
  __syncthreads();
  fin_signal(a, c, s);
#pragma unroll
  for (uint32_t i = 0; i < FIN_THREAD_EXPERTS; i++) {
    uint32_t e = threadIdx.x + i * blockDim.x;
    rows[i] = e < EP_EXPERTS ? s.base[e] : 0;
  }
  __syncthreads();
  fin_count(a, c, s);
  __syncthreads();
#pragma unroll
  for (uint32_t i = 0; i < FIN_THREAD_EXPERTS; i++) {
    uint32_t e = threadIdx.x + i * blockDim.x;
    if (e < EP_EXPERTS) s.base[e] = rows[i] - s.start[e];
  }
  __syncthreads();
}

struct FinGoals {
  uint32_t here, others; /* here: top-k positions with an expert on this rank; others: other ranks */
  uint32_t copies;
};
EP_DEVICE FinGoals fin_find_goals(const EpArgs &a, const EpCall &c, const FinPosition &p, uint8_t **to) {
  uint32_t below = (1u << c.lane) - 1;
  bool first = (__match_any_sync(EP_FULL_WARP, p.owner) & below) == 0;
  uint32_t sent = __ballot_sync(EP_FULL_WARP, p.id >= 0 && (p.owner == a.rank || first));
  __syncwarp(); /* all lanes have read the previous token's entries */
  if (sent >> c.lane & 1u)
    to[__popc(sent & below)] = a.heap[p.owner] + (a.out - a.heap[a.rank]) + static_cast<uint64_t>(p.row) * EP_PAYLOAD;
  __syncwarp();
  return {__ballot_sync(EP_FULL_WARP, p.owner == a.rank),
          __reduce_or_sync(EP_FULL_WARP, p.id < 0 || p.owner == a.rank ? 0u : 1u << p.owner), static_cast<uint32_t>(__popc(sent))};
}

/* Ends a token whose payload and scales have been stored. After a fence, it stores the headers for other ranks. On this
 * rank there is no message, so it writes src_info and the route itself, as fin_complete does for a message. */
EP_DEVICE void fin_end_token(const EpArgs &a, const EpCall &c, uint32_t token, const FinPosition &p) {
  uint32_t self = static_cast<uint32_t>(a.rank);
  bool mine = p.owner == a.rank;
  fence_acq_rel_sys();
  for (int r = 0; r < EP_RANKS; r++)
    if (r != a.rank && c.lane < EP_TOPK)
      st_relaxed_sys(fin_words(a, r, FIN_HEADERS, a.rank, token) + c.lane, p.weight | (p.owner == r ? p.row : FIN_NOWHERE));
  if (FIN_TILES && mine) fin_note_origin(a, {self, token, true}, p.row);
  if (mine) {
    a.src_info[2 * static_cast<uint64_t>(p.row)] = static_cast<int32_t>(token);
    a.src_info[2 * static_cast<uint64_t>(p.row) + 1] = static_cast<int32_t>(c.lane);
  }
  if (c.lane < EP_TOPK) fin_words(a, a.rank, FIN_ROUTE, a.rank, token)[c.lane] = p.weight | (mine ? p.row : FIN_NOWHERE);
}

EP_DEVICE void fin_scales_home(const EpArgs &a, const EpCall &c, uint32_t token, const FinPosition &p, uint32_t here, uint4 scales) {
  bool carries = EP_TOKEN_SCALES > 0 && c.lane < FIN_SCALE_BYTES / 16;
  if (FIN_TILES && carries && here != 0) reinterpret_cast<uint4 *>(fin_scales(a, a.rank, a.rank, token))[c.lane] = scales;
  const uint32_t bits[4] = {scales.x, scales.y, scales.z, scales.w};
  for (uint32_t left = FIN_TILES || EP_TOKEN_SCALES == 0 ? 0 : here; left != 0; left &= left - 1) {
    uint32_t *out = reinterpret_cast<uint32_t *>(a.out_scales) + __shfl_sync(EP_FULL_WARP, p.row, __ffs(left) - 1);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
      if (carries && 4 * c.lane + i < EP_TOKEN_SCALES) out[(4 * c.lane + i) * a.max_rows] = bits[i];
  }
}

EP_DEVICE void fin_send_home(const EpArgs &a, const EpCall &c, FinHomeShared &h, uint32_t token) {
  FinPosition p = fin_load_position(a, c, h.s, token);
  FinGoals g = fin_find_goals(a, c, p, h.to[c.warp]);
  uint4 scales = fin_send_payload(a, c, token, h.to[c.warp], g.copies);
  for (int r = 0; r < EP_RANKS; r++)
    if (EP_TOKEN_SCALES > 0 && (g.others >> r & 1u) && c.lane < FIN_SCALE_BYTES / 16)
      st_relaxed_sys(reinterpret_cast<uint4 *>(fin_scales(a, r, a.rank, token)) + c.lane, scales);
  __syncwarp();
  fin_end_token(a, c, token, p);
  fin_scales_home(a, c, token, p, g.here, scales);
}

/* With EP_TEAM above 1, that many warps (a team) send a token together. Other warps make the fence and store the
 * headers (fin_end_token), so a team goes on with the next token at once. A block's tokens arrive one after the other,
 * and receivers copy rows while later tokens are being sent. */
static const uint32_t FIN_ENDERS = 4;
/* In a block the first `senders` warps form `teams` teams, and the next `enders` warps end tokens. */
struct FinTeams {
  uint32_t teams, senders, enders;
};
EP_DEVICE FinTeams fin_teams(const EpCall &c) {
  uint32_t teams = max(c.warps / 2 / EP_TEAM, 1u), senders = teams * EP_TEAM;
  return {teams, senders, min(FIN_ENDERS, c.warps - senders)};
}

static const uint32_t FIN_UNITS = (EP_VECTORS + 31) / 32;
EP_DEVICE FinStep fin_load_share(const EpArgs &a, const EpCall &c, uint32_t token, uint32_t unit) {
  const uint16_t *x = a.x + static_cast<uint64_t>(token) * EP_HIDDEN;
  FinStep step;
#pragma unroll
  for (uint32_t v = 0; v < FIN_STEP; v++) {
    uint32_t vector = (unit + v * EP_TEAM) * 32 + c.lane;
    step.in[v] = ep_load_source(x, vector, vector < EP_VECTORS);
  }
  return step;
}

/* Stores the four scales of a unit (32 vectors). Lanes 0, 8, 16 and 24 have one each. Lane r stores all four on rank r,
 * if the token goes there. On this rank, without FIN_TILES, they are stored for each of the token's rows instead. */
EP_DEVICE void fin_share_scales(const EpArgs &a, const EpCall &c, uint32_t token, uint32_t unit, uint32_t scale,
                                const FinPosition &p, const FinGoals &g) {
  uint32_t group = 4 * unit + c.lane / 8, ranks = g.others | (FIN_TILES && g.here != 0 ? 1u << a.rank : 0u);
  uint4 all = fin_unit_scales(scale);
  if (unit < FIN_UNITS && ranks >> c.lane & 1u)
    st_relaxed_sys(reinterpret_cast<uint4 *>(fin_scales(a, static_cast<int>(c.lane), a.rank, token)) + unit, all);
  for (uint32_t left = FIN_TILES ? 0 : g.here; left != 0; left &= left - 1) {
    uint64_t row = __shfl_sync(EP_FULL_WARP, p.row, __ffs(left) - 1);
    if (c.lane % 8 == 0 && group < EP_TOKEN_SCALES) reinterpret_cast<uint32_t *>(a.out_scales)[group * a.max_rows + row] = scale;
  }
}

EP_DEVICE void fin_send_share(const EpArgs &a, const EpCall &c, const FinHomeShared &h, uint32_t token, uint32_t unit,
                              const FinStep &step, const FinPosition &p, const FinGoals &g) {
  EpVector out[FIN_STEP];
#pragma unroll
  for (uint32_t v = 0; v < FIN_STEP; v++) out[v] = ep_convert(step.in[v]);
  for (uint32_t i = 0; i < g.copies; i++) {
    uint4 *row = reinterpret_cast<uint4 *>(h.to[c.warp][i]);
#pragma unroll
    for (uint32_t v = 0; v < FIN_STEP; v++) {
      uint32_t vector = (unit + v * EP_TEAM) * 32 + c.lane;
      if (vector < EP_VECTORS) st_relaxed_sys(row + vector, out[v].data);
    }
  }
#pragma unroll
  for (uint32_t v = 0; v < FIN_STEP; v++)
    if (EP_TOKEN_SCALES > 0) fin_share_scales(a, c, token, unit + v * EP_TEAM, out[v].scale, p, g);
}

EP_DEVICE void fin_team_send(const EpArgs &a, const EpCall &c, FinHomeShared &h, const FinTeams &t) {
  FinRun run = fin_block_tokens(a, c);
  uint32_t token = run.begin + c.warp / EP_TEAM, first = c.warp % EP_TEAM, done = 0;
  FinStep ahead = {};
  if (token < run.end) ahead = fin_load_share(a, c, token, first);
  for (; token < run.end; token += t.teams) {
    FinPosition p = fin_load_position(a, c, h.s, token);
    FinGoals g = fin_find_goals(a, c, p, h.to[c.warp]);
    FinStep step = ahead;
    if (token + t.teams < run.end) ahead = fin_load_share(a, c, token + t.teams, first);
    for (uint32_t unit = first; unit < FIN_UNITS; unit += EP_TEAM * FIN_STEP) {
      if (unit != first) step = fin_load_share(a, c, token, unit);
      fin_send_share(a, c, h, token, unit, step, p, g);
    }
    __syncwarp();
    if (c.lane == 0) st_release_cta(&h.sent[c.warp], ++done);
  }
}

EP_DEVICE bool fin_wait_team(const EpArgs &a, const EpCall &c, FinHomeShared &h, uint32_t team, uint32_t tokens) {
  const uint32_t *sent = &h.sent[team * EP_TEAM + (c.lane < EP_TEAM ? c.lane : 0)];
  EpSpin spin;
  for (;;) {
    uint32_t behind = __ballot_sync(EP_FULL_WARP, ld_acquire_cta(sent) < tokens);
    __syncwarp(); /* orders what any lane acquired before later stores of all lanes */
    if (behind == 0) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, a.rank}, tokens, behind)) return false;
  }
}

EP_DEVICE void fin_team_end(const EpArgs &a, const EpCall &c, FinHomeShared &h, const FinTeams &t) {
  FinRun run = fin_block_tokens(a, c);
  for (uint32_t i = c.warp - t.senders; run.begin + i < run.end; i += t.enders) {
    FinPosition p = fin_load_position(a, c, h.s, run.begin + i);
    if (!fin_wait_team(a, c, h, i % t.teams, i / t.teams + 1)) return;
    fin_end_token(a, c, run.begin + i, p);
  }
}

EP_DEVICE void fin_home_send(const EpArgs &a, const EpCall &c, FinHomeShared &h) {
  FinTeams t = fin_teams(c);
  if (EP_TEAM == 1) {
    FinRun run = fin_block_tokens(a, c);
    for (uint32_t token = run.begin + c.warp; token < run.end; token += c.warps) fin_send_home(a, c, h, token);
  } else if (c.warp < t.senders) {
    fin_team_send(a, c, h, t);
  } else if (c.warp < t.senders + t.enders) {
    fin_team_end(a, c, h, t);
  }
}

EP_DEVICE void fin_home_async(const EpArgs &a, const EpCall &c, FinHomeShared &h) {
  if (c.block == c.senders - 1) {
    fin_count_all(a, c, h.s);
  } else {
    fin_count(a, c, h.s);
    fin_count_before(a, c, h.s);
  }
  fin_place(a, c, h.s);
  fin_wait_counts(a, c, h.s);
  if (h.s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  fin_home_send(a, c, h);
  ep_span_stage(a, EP_STAGE_SENT);
}

/* The receiving warps, and this warp's number among them. In a block with teams, sending warps do not receive, and
 * warps that end tokens come last. */
struct FinReceiver {
  uint32_t warp, warps;
  bool receives;
};
EP_DEVICE FinReceiver fin_home_receiver(const EpCall &c) {
  if (EP_TEAM == 1 || c.receivers > 0) return {fin_receiver(c), fin_receiving_warps(c), ep_receives(c)};
  uint32_t senders = fin_teams(c).senders;
  return {(c.warps - 1 - c.warp) * c.senders + c.block, (c.warps - senders) * c.senders, c.warp >= senders};
}

EP_ENTRY(EP_THREADS, 1) dispatch_final_home(const __grid_constant__ EpArgs a) {
  __shared__ FinHomeShared h;
  FinShared &s = h.s;
  ep_begin(a);
  ep_drill_delay(a);
  EpCall c = ep_call(a);
  if (c.lane == 0) h.sent[c.warp] = 0;
  fin_begin(a, c, s);
  if (ep_block_leaves(a)) return;
  if (ep_sends(c)) {
    fin_home_async(a, c, h);
  } else {
    fin_wait_tokens(a, c, s);
  }
  EP_NUMBER_DONE(a, c.number);
  FinReceiver receiver = fin_home_receiver(c);
  if (receiver.receives && !s.failed) fin_dispatch_wait(a, c, s, receiver.warp, receiver.warps);
  if (FIN_TILES && !s.failed) {
    fin_meet(a, c, s, c.senders + c.receivers, ep_receives(c)); /* a block that only sends has placed rows too */
    if (ep_receives(c) && !s.failed) fin_place_tiles(a, c, s);
  }
  ep_span_end(a);
}
