/* combine_rank sends back one row for each token that this rank received: the weighted sum that the caller has computed
 * for this rank's experts. The token's rank polls the slots where the rows arrive. It adds the rows in f32, in the
 * order of ranks. It reads its own row from y and not from a slot.
 *
 * combine_rank finds the rows by row_offsets and src_info. The caller may pass any output of a dispatch that this rank
 * made in the layout named rank, not only the last one. */
#include "common/split.cuh"
#include "common/ids.cuh"
#include "common/started.cuh"
#include "rank/layout.cuh"

static const uint32_t RANK_ROW = 2 * EP_HIDDEN; /* bytes */
EP_DEVICE const uint4 *rank_y(const EpArgs &a, uint64_t row, uint32_t column) {
  return reinterpret_cast<const uint4 *>(reinterpret_cast<const uint8_t *>(a.y) + row * RANK_ROW + column);
}

/* Lane r holds the number of rows from rank r, and the first of these rows. Combine sends no rows to a lost rank. */
struct RankRows {
  uint32_t rows, first;
};
EP_DEVICE RankRows rank_rows(const EpArgs &a, uint32_t lane) {
  if (lane >= EP_RANKS || !ep_alive(a, lane)) return {0, 0};
  uint32_t word = a.row_offsets[lane], most = static_cast<uint32_t>(a.max_tokens);
  RankRows of = {word, lane * most};
  if (EP_PACKED) of = {a.row_offsets[lane + 1] - word, word};
  /* A broken dispatch may write wrong offsets, which must not lead out of y. */
  if (of.rows > most || of.first > a.max_rows - of.rows) of = {0, 0};
  return of;
}

static const uint32_t RANK_STEP = EP_UNIT_BYTES / 512;
static const uint32_t RANK_CHUNKS = (RANK_ROW + EP_UNIT_BYTES - 1) / EP_UNIT_BYTES;
static const uint32_t RANK_PEERS = EP_RANKS > 1 ? EP_RANKS - 1 : 1;
static const uint32_t RANK_BATCH = RANK_PEERS < 7 ? RANK_PEERS : 7;

EP_DEVICE bool rank_in_row(uint32_t column) { return RANK_ROW % EP_UNIT_BYTES == 0 || column < RANK_ROW; }

/* A unit of work: one chunk of a row that this rank sends. Consecutive units go to different ranks. */
struct RankReturn {
  uint32_t token, source, column;
  bool exists;
  uint4 data[RANK_STEP];
};
EP_DEVICE void rank_load_row(const EpArgs &a, RankReturn &r, uint64_t row, bool there) {
  r.token = there ? static_cast<uint32_t>(a.src_info[2 * row]) : 0;
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    r.data[v] = make_uint4(0, 0, 0, 0);
    if (there && rank_in_row(r.column + 512 * v)) r.data[v] = ld_readonly(rank_y(a, row, r.column + 512 * v));
  }
}
/* Loads a unit. Without EP_PACKED each source has a fixed segment of rows, so the position of a row is known before
 * the source's number of rows. Then, with `ahead`, the function loads the row first and checks afterwards that it
 * exists. */
EP_DEVICE RankReturn rank_load_return(const EpArgs &a, const EpCall &c, uint32_t unit, RankRows of, bool ahead) {
  const uint32_t peers = RANK_PEERS, most = static_cast<uint32_t>(a.max_tokens);
  uint32_t place = unit / peers / RANK_CHUNKS;
  RankReturn r;
  r.source = (static_cast<uint32_t>(a.rank) + 1 + unit % peers) % EP_RANKS;
  r.column = unit / peers % RANK_CHUNKS * EP_UNIT_BYTES + c.lane * 16;
  if (!EP_PACKED && ahead) {
    rank_load_row(a, r, static_cast<uint64_t>(r.source) * most + place, place < most);
    r.exists = place < __shfl_sync(EP_FULL_WARP, of.rows, r.source);
    return r;
  }
  r.exists = place < __shfl_sync(EP_FULL_WARP, of.rows, r.source);
  rank_load_row(a, r, __shfl_sync(EP_FULL_WARP, of.first, r.source) + static_cast<uint64_t>(place), r.exists);
  return r;
}

EP_DEVICE void rank_combine_async(const EpArgs &a, const EpCall &c) {
  if (EP_RANKS == 1) return;
  const uint32_t peers = RANK_PEERS;
  uint32_t unit = c.warp * c.senders + c.block, step = c.warps * c.senders;
  RankRows of = rank_rows(a, c.lane);
  RankReturn next = rank_load_return(a, c, unit, of, true);
  uint32_t units = __reduce_max_sync(EP_FULL_WARP, c.lane == static_cast<uint32_t>(a.rank) ? 0 : of.rows) * RANK_CHUNKS * peers;
  if (!ep_wait_started(a, c)) return;
  ep_span_stage(a, EP_STAGE_READY);
  for (; unit < units; unit += step) {
    RankReturn r = next;
    next = rank_load_return(a, c, unit + step, of, false);
    /* A broken dispatch may write a wrong token number, which must not lead outside the buffer. */
    if (!r.exists || r.token >= static_cast<uint32_t>(a.max_tokens)) continue;
    uint8_t *slot = rank_return(a, r.source, c.number, r.token, a.rank);
#pragma unroll
    for (uint32_t v = 0; v < RANK_STEP; v++)
      if (rank_in_row(r.column + 512 * v)) st_relaxed_sys(reinterpret_cast<uint4 *>(slot + r.column + 512 * v), ep_canonical(r.data[v]));
  }
}

/* Number of a row's vectors that a lane loads at a time. With more than 2 ranks it has registers for only one. */
static const uint32_t RANK_WIDE = EP_RANKS <= 2 && RANK_STEP > 1 ? 2 : 1;

/* Some vectors of a token's rows from a batch of other ranks. Other ranks are counted from 0 in the order of ranks,
 * without this rank. rank_other returns the rank for such a number. `first` is the number of the batch's first rank. */
struct RankTerms {
  uint8_t *slots;
  uint32_t first, used, left; /* bit i of used: rank number first + i has a row; left: bytes to the row's end */
};
EP_DEVICE uint32_t rank_other(const EpArgs &a, uint32_t i) { return i + (i >= static_cast<uint32_t>(a.rank)); }
EP_DEVICE bool rank_there(const RankTerms &t, uint32_t v) { return RANK_ROW % EP_UNIT_BYTES == 0 || v * 512 < t.left; }
EP_DEVICE uint4 *rank_term(const EpArgs &a, const RankTerms &t, uint32_t i, uint32_t v) {
  bool exists = RANK_PEERS % RANK_BATCH == 0 || t.first + i < RANK_PEERS; /* the last batch may be short */
  return reinterpret_cast<uint4 *>(t.slots + rank_other(a, exists ? t.first + i : 0) * RANK_ROW + (rank_there(t, v) ? v * 512 : 0));
}

/* Polls the slots of a batch of ranks until the rows of all these ranks have arrived. It also reads unused slots,
 * because a branch between the loads would delay them. */
EP_DEVICE bool rank_wait_terms(const EpArgs &a, const RankTerms &t, uint4 (&data)[RANK_WIDE][RANK_BATCH]) {
  EpSpin spin;
  for (;;) {
    uint32_t lacks = 0;
#pragma unroll
    for (uint32_t v = 0; v < RANK_WIDE; v++)
#pragma unroll
      for (uint32_t i = 0; i < RANK_BATCH; i++) data[v][i] = ld_relaxed_sys(rank_term(a, t, i, v));
#pragma unroll
    for (uint32_t v = 0; v < RANK_WIDE; v++)
#pragma unroll
      for (uint32_t i = 0; i < RANK_BATCH; i++) lacks |= rank_there(t, v) && ep_largest(data[v][i]) == EP_SENTINEL ? 1u << i : 0;
    uint32_t missing = __reduce_or_sync(EP_FULL_WARP, lacks & t.used);
    if (missing == 0) return true;
    int32_t source = static_cast<int32_t>(rank_other(a, t.first + __ffs(missing) - 1));
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_WAIT, -1, source}, 1, 0)) return false;
  }
}

EP_DEVICE bool rank_reduce(const EpArgs &a, const EpCall &c, uint32_t token, uint32_t used, uint64_t row, uint32_t column) {
  uint32_t self = static_cast<uint32_t>(a.rank), others = (used & ((1u << self) - 1)) | used >> (self + 1) << self;
  uint32_t left = column < RANK_ROW ? RANK_ROW - column : 0, at = column < RANK_ROW ? column : 0;
  RankTerms t = {rank_return(a, a.rank, c.number, token, 0) + at, 0, 0, left};
  uint4 mine[RANK_WIDE], data[RANK_WIDE][RANK_BATCH];
  float acc[RANK_WIDE][8] = {};
#pragma unroll
  for (uint32_t v = 0; v < RANK_WIDE; v++) {
    mine[v] = make_uint4(0, 0, 0, 0);
    if ((used >> self & 1u) != 0 && rank_there(t, v)) mine[v] = ld_readonly(rank_y(a, row, at + v * 512));
  }
  auto add_own = [&]() {
    if ((used >> self & 1u) == 0) return;
#pragma unroll
    for (uint32_t v = 0; v < RANK_WIDE; v++) bf16_accumulate(acc[v], mine[v], 1.0f);
  };
  for (uint32_t first = 0; EP_RANKS > 1 && first < RANK_PEERS; first += RANK_BATCH) {
    t.first = first;
    t.used = others >> first;
    if (!rank_wait_terms(a, t, data)) return false;
    ep_span_stage(a, EP_STAGE_ARRIVED);
#pragma unroll
    for (uint32_t i = 0; i < RANK_BATCH; i++) {
      if (first + i == self && self + 1 < EP_RANKS) add_own();
      if ((t.used >> i & 1u) == 0) continue;
#pragma unroll
      for (uint32_t v = 0; v < RANK_WIDE; v++) {
        bf16_accumulate(acc[v], data[v][i], 1.0f);
        if (rank_there(t, v)) st_relaxed_sys(rank_term(a, t, i, v), ep_sentinels());
      }
    }
  }
  if (self + 1 == EP_RANKS) add_own();
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(token) * RANK_ROW + at;
#pragma unroll
  for (uint32_t v = 0; v < RANK_WIDE; v++)
    if (rank_there(t, v)) *reinterpret_cast<uint4 *>(out + v * 512) = bf16_pack(acc[v]);
  return true;
}

EP_DEVICE void rank_combine_wait(const EpArgs &a, const EpCall &c) {
  uint64_t first = __shfl_sync(EP_FULL_WARP, rank_rows(a, c.lane).first, a.rank);
  for (uint32_t u = rank_receiver(c); u < static_cast<uint32_t>(a.tokens) * RANK_CHUNKS; u += rank_receiving_warps(c)) {
    uint32_t token = u / RANK_CHUNKS;
    int32_t id = c.lane < EP_TOPK ? ep_id(a, token * EP_TOPK + c.lane) : -1;
    uint32_t place = static_cast<uint32_t>(rank_places(a)[token]);
    uint32_t used = __reduce_or_sync(EP_FULL_WARP, id < 0 ? 0u : 1u << (id / EP_LOCAL_EXPERTS));
    uint64_t row = used >> a.rank & 1u ? first + place : 0;
    for (uint32_t v = 0; v < RANK_STEP; v += RANK_WIDE)
      if (!rank_reduce(a, c, token, used, row, u % RANK_CHUNKS * EP_UNIT_BYTES + v * 512 + c.lane * 16)) return;
  }
}

template <bool first>
EP_DEVICE void rank_combine(const EpArgs &a) {
  ep_begin(a);
  if (first) ep_drill_delay(a);
  EpCall c = ep_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  if (first) ep_announce(a, c, 0);
  if (first && (!EP_FUSED || ep_sends(c))) rank_combine_async(a, c);
  EP_NUMBER_DONE(a, c.number);
  if (first) ep_span_stage(a, EP_STAGE_SENT);
  if (!first || (EP_FUSED && ep_receives(c))) rank_combine_wait(a, c);
  ep_span_end(a);
}

EP_ENTRIES(combine_rank, rank_combine)
