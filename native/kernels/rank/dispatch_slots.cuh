/* dispatch_rank sends a token once to each rank that has any of its experts. A warp moves EP_UNIT_BYTES of a message
 * at a time. */
#include "common/split.cuh"
#include "rank/rows.cuh"
#include "rank/tokens.cuh"

struct RankShared {
  RankTile tile;
  uint32_t rows[EP_RANKS];
  uint32_t first[EP_RANKS];
  uint32_t failed;
};

EP_DEVICE void rank_signal(const EpArgs &a, const EpCall &c, const uint32_t (&all)[EP_RANKS]) {
  if (c.warp != 0 || c.lane >= EP_RANKS) return;
  int to = static_cast<int>((static_cast<uint32_t>(a.rank) + c.lane) % EP_RANKS);
  if (!ep_alive(a, to) || (a.drop_signal > 0 && (a.drop_signal - 1) / EP_LOCAL_EXPERTS == to)) return;
  st_relaxed_sys(rank_count(a, to, c.number, a.rank), static_cast<uint64_t>(c.number) << 32 | all[to]);
}

/* Sends one unit of token `token` to each rank that has any of its experts. `i` is the token's index in the tile. If
 * rows are not packed, the function writes this rank's own row directly to the output. */
EP_DEVICE void rank_send(const EpArgs &a, const EpCall &c, const RankTile &t, uint32_t token, uint32_t i, uint32_t unit, const RankUnit &u) {
  uint32_t first = unit * (32 * RANK_STEP) + c.lane;
  EpVector out[RANK_STEP];
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) out[v] = ep_message(u.in[v]);
  uint32_t turn = static_cast<uint32_t>(a.rank) + 1 + unit;
  for (uint32_t j = 0; j < EP_RANKS; j++) {
    int to = static_cast<int>((turn + j) % EP_RANKS);
    if (!rank_goes(t, i, to)) continue;
    uint32_t place = rank_place(t, i, to);
    bool own = to == a.rank, direct = own && !EP_PACKED;
    uint64_t row = static_cast<uint64_t>(a.rank) * a.max_tokens + place;
    uint8_t *slot = rank_slot(a, to, c.number, a.rank, place);
    uint4 *data = direct ? rank_out(a, row) : reinterpret_cast<uint4 *>(slot);
#pragma unroll
    for (uint32_t v = 0; v < RANK_STEP; v++) {
      uint32_t vector = first + 32 * v;
      if (ep_inside<RANK_STEP>(vector)) st_relaxed_sys(data + vector, out[v].data);
      if (ep_has_scale<RANK_STEP>(vector)) st_relaxed_sys(direct ? rank_out_scale(a, row, vector) : ep_slot_scale(slot, vector), out[v].scale);
    }
    if (unit != 0) continue;
    if (own && c.lane == 0) rank_places(a)[token] = static_cast<int32_t>(place);
    rank_send_head(a, c, token, to, slot, direct, row);
  }
}

/* Sends the tokens from `begin` to before `end`, in the tile that begins at token `first`. `next` holds this warp's
 * first unit. */
EP_DEVICE void rank_send_tile(const EpArgs &a, const EpCall &c, const RankTile &t, const RankRun &run, uint32_t first, uint32_t begin, uint32_t end, RankUnit next) {
  uint32_t step = c.warps * run.share, job = run.turn + c.warp * run.share, jobs = (end - begin) * RANK_UNITS;
  while (job < jobs) {
    RankUnit u = next;
    uint32_t after = job + step;
    next = rank_load(a, begin + after / RANK_UNITS, after % RANK_UNITS * (32 * RANK_STEP) + c.lane, after < jobs);
    uint32_t token = begin + job / RANK_UNITS;
    rank_send(a, c, t, token, token - first, job % RANK_UNITS, u);
    job = after;
  }
}

EP_DEVICE void rank_dispatch_async(const EpArgs &a, const EpCall &c, RankShared &s) {
  RankRun run = rank_run(a, c);
  uint32_t job = run.turn + c.warp * run.share;
  RankUnit unit = rank_load(a, run.begin + job / RANK_UNITS, job % RANK_UNITS * (32 * RANK_STEP) + c.lane, job < (run.end - run.begin) * RANK_UNITS);
  if (rank_one_tile(a)) {
    rank_place_all(a, c, s.tile);
    if (c.block == c.senders - 1) rank_signal(a, c, s.tile.all);
    rank_send_tile(a, c, s.tile, run, 0, run.begin, run.end, unit);
    return;
  }
  rank_count_tokens(a, c, 0, run.begin, s.tile.base);
  if (c.block == c.senders - 1) {
    if (threadIdx.x < EP_RANKS) s.tile.all[threadIdx.x] = s.tile.base[threadIdx.x];
    rank_count_tokens(a, c, run.begin, static_cast<uint32_t>(a.tokens), s.tile.all);
    rank_signal(a, c, s.tile.all);
  }
  for (uint32_t first = run.begin; first < run.end; first += blockDim.x) {
    uint32_t end = min(first + blockDim.x, run.end);
    if (first != run.begin) unit = rank_load(a, first + job / RANK_UNITS, job % RANK_UNITS * (32 * RANK_STEP) + c.lane, job < (end - first) * RANK_UNITS);
    rank_place_tile(a, c, s.tile, first, end);
    rank_send_tile(a, c, s.tile, run, first, first, end, unit);
  }
}

EP_DEVICE bool rank_wait_counts(const EpArgs &a, const EpCall &c, uint32_t *rows) {
  const uint32_t source = c.lane < EP_RANKS ? c.lane : 0;
  const uint64_t *p = rank_count(a, a.rank, c.number, source);
  const bool lost = !ep_alive(a, source);
  EpSpin spin;
  for (;;) {
    uint64_t v = ld_relaxed_sys(p);
    uint32_t missing = __ballot_sync(EP_FULL_WARP, !lost && v >> 32 != c.number);
    *rows = lost ? 0 : static_cast<uint32_t>(v);
    if (missing == 0) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, __ffs(missing) - 1}, c.number, v >> 32)) return false;
  }
}

EP_DEVICE void rank_index(const EpArgs &a, const EpCall &c, RankShared &s) {
  __syncthreads();
  if (c.warp == 0) {
    uint32_t rows = 0;
    bool here = rank_wait_counts(a, c, &rows);
    if (c.lane >= EP_RANKS) rows = 0;
    uint32_t end = warp_prefix_sum(rows), all = __shfl_sync(EP_FULL_WARP, end, 31);
    uint32_t first = EP_PACKED ? end - rows : c.lane * static_cast<uint32_t>(a.max_tokens);
    if (!here && c.lane == 0) s.failed = 1;
    if (c.lane < EP_RANKS) {
      s.rows[c.lane] = rows;
      s.first[c.lane] = first;
    }
    if (here && c.block == gridDim.x - 1) {
      if (c.lane < EP_RANKS) a.row_offsets[c.lane] = EP_PACKED ? first : rows;
      if (c.lane == 0) a.row_offsets[EP_RANKS] = all;
    }
  }
  __syncthreads();
}

struct RankPart {
  uint32_t source, place, unit;
  uint4 data[RANK_STEP];
  uint32_t scale[RANK_STEP], head[RANK_HEAD_LANE];
};

/* Returns whether this warp must receive a message that it polled before it knew the source's count `rows`. The warp
 * used the message's turn (a number, see rank/layout.cuh) as its place. Turn and place are equal if each block of the
 * source sends at most one message: `rows` is at most c.senders. Otherwise the slot may belong to another warp. */
EP_DEVICE bool rank_early_is_ours(const EpCall &c, const RankPart &p, uint32_t rows) { return p.place < rows && rows <= c.senders; }

/* Polls a unit until it has arrived. The message's head arrives with unit 0. With `early` the function also polls the
 * source's count, and returns false if this warp must not receive the unit. */
EP_DEVICE bool rank_wait_part(const EpArgs &a, const EpCall &c, RankPart &p, bool early) {
  uint8_t *slot = rank_slot(a, a.rank, c.number, p.source, p.place);
  const uint64_t *count = rank_count(a, a.rank, c.number, p.source);
  uint32_t first = p.unit * (32 * RANK_STEP) + c.lane;
  EpSpin spin;
  for (;;) {
    uint64_t rows = early ? ld_relaxed_sys(count) : 0;
    uint32_t largest = ep_load_part<RANK_STEP>(slot, first, p.data, p.scale);
#pragma unroll
    for (uint32_t i = 0; i < RANK_HEAD_LANE; i++) {
      p.head[i] = 0;
      if (p.unit == 0 && i * 32 + c.lane < RANK_HEAD) p.head[i] = ld_relaxed_sys(rank_slot_head(slot) + i * 32 + c.lane);
      largest = max(largest, p.head[i]);
    }
    if (__all_sync(EP_FULL_WARP, largest != EP_SENTINEL)) return true;
    bool known = early && rows >> 32 == c.number;
    if (__any_sync(EP_FULL_WARP, known && !rank_early_is_ours(c, p, static_cast<uint32_t>(rows)))) return false;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(p.source)}, 1, 0)) return false;
  }
}

EP_DEVICE void rank_take_part(const EpArgs &a, const EpCall &c, const RankShared &s, const RankPart &p) {
  uint64_t row = s.first[p.source] + p.place;
  uint8_t *slot = rank_slot(a, a.rank, c.number, p.source, p.place);
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    uint32_t vector = p.unit * (32 * RANK_STEP) + 32 * v + c.lane;
    if (ep_inside<RANK_STEP>(vector)) {
      rank_out(a, row)[vector] = p.data[v];
      st_relaxed_sys(reinterpret_cast<uint4 *>(slot) + vector, ep_sentinels());
    }
    if (ep_has_scale<RANK_STEP>(vector)) {
      *rank_out_scale(a, row, vector) = p.scale[v];
      st_relaxed_sys(ep_slot_scale(slot, vector), EP_SENTINEL);
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < RANK_HEAD_LANE; i++) {
    uint32_t w = i * 32 + c.lane;
    if (p.unit != 0 || w >= RANK_HEAD) continue;
    rank_put_head(a, p.source, row, w, p.head[i]);
    st_relaxed_sys(rank_slot_head(slot) + w, EP_SENTINEL);
  }
}

/* The number of sources that send through slots. If rows are not packed, a rank writes its own rows directly. */
static const uint32_t RANK_SOURCES = EP_PACKED ? EP_RANKS : EP_RANKS - 1;

/* Returns the unit that belongs to `job`. Its `place` is at first a turn, a position in the order in which the source
 * sends (see rank/layout.cuh). Once the source's count is known, the caller replaces the turn by the place, which
 * rank_turn returns. */
EP_DEVICE RankPart rank_part(const EpArgs &a, uint32_t job) {
  const uint32_t sources = max(RANK_SOURCES, 1u);
  RankPart p;
  p.source = (a.rank + 1 + job % sources) % EP_RANKS;
  p.unit = job / sources % RANK_UNITS;
  p.place = job / sources / RANK_UNITS;
  return p;
}

/* Receives rows. Warp 0 waits for the counts. Meanwhile each of the block's other warps may poll its first unit. It
 * polls if the unit's place is below this rank's number of tokens. Then the source probably has a message at this
 * place. */
EP_DEVICE void rank_dispatch_wait(const EpArgs &a, const EpCall &c, RankShared &s) {
  uint32_t job = rank_receiver(c), most = 0;
  RankPart p = rank_part(a, job);
  bool early = RANK_SOURCES > 0 && c.warp != 0 && p.place < static_cast<uint32_t>(a.tokens) && ep_alive(a, p.source) && rank_wait_part(a, c, p, true);
  uint32_t early_place = p.place;
  rank_index(a, c, s);
  if (s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  for (uint32_t i = 0; i < RANK_SOURCES; i++) most = max(most, rank_turns(c, s.rows[(a.rank + 1 + i) % EP_RANKS]));
  for (; RANK_SOURCES > 0 && job < most * RANK_UNITS * RANK_SOURCES; job += rank_receiving_warps(c), early = false) {
    RankPart now = rank_part(a, job);
    now.place = rank_turn(c, now.place, s.rows[now.source]);
    if (now.place >= s.rows[now.source]) continue;
    if (!early || now.place != early_place) {
      p = now;
      if (!rank_wait_part(a, c, p, false)) return;
    }
    ep_span_stage(a, EP_STAGE_ARRIVED);
    rank_take_part(a, c, s, p);
  }
}

template <bool first>
EP_DEVICE void rank_dispatch(const EpArgs &a) {
  __shared__ RankShared s;
  ep_begin(a);
  if (first) ep_drill_delay(a);
  EpCall c = ep_call(a);
  if (ep_block_leaves(a)) return;
  rank_begin(s);
  if (first && (!EP_FUSED || ep_sends(c))) rank_dispatch_async(a, c, s);
  EP_NUMBER_DONE(a, c.number);
  if (first) ep_span_stage(a, EP_STAGE_SENT);
  if (!first || (EP_FUSED && ep_receives(c))) rank_dispatch_wait(a, c, s);
  ep_span_end(a);
}

EP_ENTRIES(dispatch_rank, rank_dispatch)
