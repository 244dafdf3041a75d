/* dispatch_masked sends a token once to each rank that has any of its experts. The receiver copies the token to one
 * row for each of these experts. A warp moves EP_UNIT_BYTES of a message at a time. */
#include "common/split.cuh"
#include "masked/places.cuh"
#include "rank/rows.cuh"

struct MaskedShared {
  RankTile tile;
  MaskedPlaces places;
  uint32_t base[EP_RANKS][EP_LOCAL_EXPERTS]; /* number of rows; masked_index replaces it by the first row */
  uint32_t messages[EP_RANKS];
  uint32_t failed;
};

EP_DEVICE void masked_signal(const EpArgs &a, const EpCall &c, const MaskedShared &s) {
  uint64_t call = static_cast<uint64_t>(c.number) << 32;
  for (uint32_t e = threadIdx.x; e < EP_EXPERTS + EP_RANKS; e += blockDim.x) {
    if (!ep_alive(a, e < EP_EXPERTS ? e / EP_LOCAL_EXPERTS : e - EP_EXPERTS)) continue;
    if (e >= EP_EXPERTS) {
      st_relaxed_sys(rank_count(a, e - EP_EXPERTS, c.number, a.rank), call | s.tile.all[e - EP_EXPERTS]);
    } else if (!ep_drill_drops(a, static_cast<int32_t>(e))) {
      st_relaxed_sys(masked_count(a, e / EP_LOCAL_EXPERTS, c.number, a.rank, e % EP_LOCAL_EXPERTS), call | s.places.all[e]);
    }
  }
}

EP_DEVICE uint32_t masked_head_word(const MaskedPlaces &m, uint32_t token, uint32_t i, int to, uint32_t w) {
  if (w == 0) return token;
  uint32_t k = (w - 1) % EP_TOPK;
  int32_t id = m.id[i][k];
  if (id < 0 || id / EP_LOCAL_EXPERTS != to) return RANK_ELSEWHERE;
  return w <= EP_TOPK ? static_cast<uint32_t>(id % EP_LOCAL_EXPERTS) : m.place[i][k];
}

EP_DEVICE void masked_send(const EpArgs &a, const EpCall &c, const MaskedShared &s, uint32_t token, uint32_t i, uint32_t unit, const RankUnit &u) {
  uint32_t first = unit * (32 * RANK_STEP) + c.lane;
  EpVector out[RANK_STEP];
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) out[v] = ep_message(u.in[v]);
  uint32_t turn = static_cast<uint32_t>(a.rank) + 1 + unit;
  for (uint32_t j = 0; j < EP_RANKS; j++) {
    int to = static_cast<int>((turn + j) % EP_RANKS);
    if (!rank_goes(s.tile, i, to)) continue;
    uint32_t place = rank_place(s.tile, i, to);
    ep_send_part(rank_slot(a, to, c.number, a.rank, place), first, out);
    for (uint32_t w = c.lane; unit == 0 && w < RANK_HEAD; w += 32)
      st_relaxed_sys(masked_head(a, to, c.number, a.rank, place) + w, masked_head_word(s.places, token, i, to, w));
  }
}

/* Sends this block's tokens. All threads call it. */
EP_DEVICE void masked_dispatch_async(const EpArgs &a, const EpCall &c, MaskedShared &s) {
  RankRun run = rank_run(a, c);
  uint32_t step = c.warps * run.share, begin = run.turn + c.warp * run.share;
  if (c.block == c.senders - 1) {
    rank_count_tokens(a, c, 0, static_cast<uint32_t>(a.tokens), s.tile.all);
    masked_count_rows(a, 0, static_cast<uint32_t>(a.tokens), s.places.all);
    masked_signal(a, c, s);
  }
  rank_count_tokens(a, c, 0, run.begin, s.tile.base);
  masked_count_rows(a, 0, run.begin, s.places.before);
  for (uint32_t first = run.begin; first < run.end; first += MASKED_TILE) {
    uint32_t end = min(first + MASKED_TILE, run.end), job = begin, jobs = (end - first) * RANK_UNITS;
    RankUnit next = rank_load(a, first + job / RANK_UNITS, job % RANK_UNITS * (32 * RANK_STEP) + c.lane, job < jobs);
    rank_place_tile(a, c, s.tile, first, end);
    masked_place_tile(a, c, s.places, first, end);
    while (job < jobs) {
      RankUnit u = next;
      uint32_t after = job + step;
      next = rank_load(a, first + after / RANK_UNITS, after % RANK_UNITS * (32 * RANK_STEP) + c.lane, after < jobs);
      masked_send(a, c, s, first + job / RANK_UNITS, job / RANK_UNITS, job % RANK_UNITS, u);
      job = after;
    }
  }
}

/* Clears the heads and ids of the previous call. There are three sets of them, so the call after the next one uses this
 * set again. */
EP_DEVICE void masked_clear_heads(const EpArgs &a, const EpCall &c) {
  if (c.warp != 0) return;
  MaskedClear before = {ep_number_before(c.number), c.block, gridDim.x, c.lane};
  masked_clear_heads_of(a, before);
  masked_clear_ids_of(a, before);
}

EP_DEVICE bool masked_wait_count(const EpArgs &a, const EpCall &c, const uint64_t *p, int32_t expert, int source, uint32_t *count) {
  EpSpin spin;
  for (;;) {
    uint64_t v = ld_relaxed_sys(p);
    *count = static_cast<uint32_t>(v);
    if (v >> 32 == c.number) return true;
    if (!spin.again(a, {EP_PHASE_DISPATCH_WAIT, expert, source}, c.number, v >> 32)) return false;
  }
}

/* Reads all counts and computes s.base. The last block also writes row_offsets and expert_ids. */
EP_DEVICE void masked_index(const EpArgs &a, const EpCall &c, MaskedShared &s) {
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < EP_RANKS * (EP_LOCAL_EXPERTS + 1); i += blockDim.x) {
    uint32_t source = i / (EP_LOCAL_EXPERTS + 1), e = i % (EP_LOCAL_EXPERTS + 1), count = 0;
    bool total = e == EP_LOCAL_EXPERTS;
    const uint64_t *p = total ? rank_count(a, a.rank, c.number, source) : masked_count(a, a.rank, c.number, source, e);
    int32_t expert = total ? -1 : static_cast<int32_t>(a.rank * EP_LOCAL_EXPERTS + e);
    if (ep_alive(a, source) && !masked_wait_count(a, c, p, expert, source, &count)) s.failed = 1;
    *(total ? &s.messages[source] : &s.base[source][e]) = count;
  }
  __syncthreads();
  bool publish = c.block == gridDim.x - 1 && !s.failed;
  uint32_t rows_here = 0;
  for (uint32_t e = threadIdx.x; e < EP_LOCAL_EXPERTS; e += blockDim.x) {
    uint32_t rows[EP_RANKS], all = 0;
    for (int r = 0; r < EP_RANKS; r++) {
      rows[r] = s.base[r][e];
      s.base[r][e] = all;
      all += rows[r];
    }
    rows_here += all;
    if (publish) masked_publish(a, e, rows);
  }
  if (publish && threadIdx.x < EP_RANKS) {
    masked_last(a, c.number)[threadIdx.x] = static_cast<uint64_t>(c.number) << 32 | s.messages[threadIdx.x];
    masked_messages(a)[threadIdx.x] = static_cast<int32_t>(s.messages[threadIdx.x]);
  }
  if (threadIdx.x == 0) s.places.all[0] = 0;
  __syncthreads();
  if (publish && rows_here != 0) atomicAdd(&s.places.all[0], rows_here);
  __syncthreads();
  if (publish && threadIdx.x == 0) a.row_offsets[EP_LOCAL_EXPERTS] = s.places.all[0];
}

struct MaskedPart {
  uint32_t source, place, unit;
  uint4 data[RANK_STEP];
  uint32_t scale[RANK_STEP], token, expert, row;
};

EP_DEVICE bool masked_wait_part(const EpArgs &a, const EpCall &c, const MaskedShared &s, MaskedPart &p) {
  uint8_t *slot = rank_slot(a, a.rank, c.number, p.source, p.place);
  const uint32_t *head = masked_head(a, a.rank, c.number, p.source, p.place);
  uint32_t first = p.unit * (32 * RANK_STEP) + c.lane, k = c.lane < EP_TOPK ? c.lane : 0;
  EpSpin spin;
  for (;;) {
    p.token = ld_relaxed_sys(head);
    p.expert = ld_relaxed_sys(head + 1 + k);
    p.row = ld_relaxed_sys(head + 1 + EP_TOPK + k);
    uint32_t largest = max(max(p.token, p.expert), p.row);
    largest = ep_load_part<RANK_STEP>(slot, first, p.data, p.scale, largest);
    if (__all_sync(EP_FULL_WARP, largest != EP_SENTINEL)) break;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(p.source)}, 1, 0)) return false;
  }
  if (c.lane >= EP_TOPK) p.expert = RANK_ELSEWHERE;
  if (p.expert != RANK_ELSEWHERE) p.row += p.expert * masked_room(a) + s.base[p.source][p.expert];
  return true;
}

EP_DEVICE void masked_take_part(const EpArgs &a, const EpCall &c, const MaskedPart &p) {
  uint32_t room = masked_room(a), first = p.unit * (32 * RANK_STEP) + c.lane;
  uint32_t here = __ballot_sync(EP_FULL_WARP, p.expert != RANK_ELSEWHERE);
  for (uint32_t left = here; left != 0; left &= left - 1) {
    uint64_t row = __shfl_sync(EP_FULL_WARP, p.row, __ffs(left) - 1), e = __shfl_sync(EP_FULL_WARP, p.expert, __ffs(left) - 1);
    uint32_t *scales = reinterpret_cast<uint32_t *>(a.out_scales) + e * room * (EP_TOKEN_SCALES - 1) + row;
    ep_write_part(a.out + row * EP_PAYLOAD, scales, static_cast<uint64_t>(room), first, p.data, p.scale);
  }
  ep_empty_part<RANK_STEP>(rank_slot(a, a.rank, c.number, p.source, p.place), first);
  if (p.unit != 0) return;
  bool mine = (here >> c.lane & 1u) != 0;
  if (mine) ep_note_row(a, p.row, p.token, c.lane);
  int32_t *route = masked_route(a, p.source, p.place);
  if (c.lane == 0) route[0] = static_cast<int32_t>(p.token);
  if (c.lane < EP_TOPK) route[1 + c.lane] = mine ? static_cast<int32_t>(p.row) : -1;
}

EP_DEVICE void masked_dispatch_wait(const EpArgs &a, const EpCall &c, MaskedShared &s) {
  masked_index(a, c, s);
  if (s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  uint32_t most = 0;
  for (int r = 0; r < EP_RANKS; r++) most = max(most, rank_turns(c, s.messages[r]));
  for (uint32_t job = rank_receiver(c); job < most * RANK_UNITS * EP_RANKS; job += rank_receiving_warps(c)) {
    MaskedPart p;
    p.source = (static_cast<uint32_t>(a.rank) + job) % EP_RANKS;
    p.unit = job / EP_RANKS % RANK_UNITS;
    p.place = rank_turn(c, job / EP_RANKS / RANK_UNITS, s.messages[p.source]);
    if (p.place >= s.messages[p.source]) continue;
    if (!masked_wait_part(a, c, s, p)) return;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    masked_take_part(a, c, p);
  }
}

EP_DEVICE void masked_begin(MaskedShared &s) {
  rank_begin(s);
  for (uint32_t e = threadIdx.x; e < EP_EXPERTS; e += blockDim.x) s.places.before[e] = s.places.all[e] = 0;
}

template <bool first>
EP_DEVICE void masked_dispatch(const EpArgs &a) {
  __shared__ MaskedShared s;
  ep_begin(a);
  if (first) ep_drill_delay(a);
  EpCall c = ep_call(a);
  if (ep_block_leaves(a)) return;
  masked_begin(s);
  if (first && (!EP_FUSED || ep_sends(c))) masked_dispatch_async(a, c, s);
  EP_NUMBER_DONE(a, c.number);
  if (first) ep_span_stage(a, EP_STAGE_SENT);
  if (first) masked_clear_heads(a, c);
  if (!first || (EP_FUSED && ep_receives(c))) masked_dispatch_wait(a, c, s);
  ep_span_end(a);
}

EP_ENTRIES(dispatch_masked, masked_dispatch)
