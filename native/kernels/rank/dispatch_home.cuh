/* dispatch_rank_home does the work of dispatch_rank for many tokens. A sender stores a token's
 * elements directly in their row of the receiver's output, so that nobody has to copy them.
 * With dispatch_rank a sender stores them in a slot, and the receiver reads them, writes them
 * to the output and empties the slot. With few SMs this takes longer than the transfer over
 * the link.
 *
 * On the other hand there is a wait before the first store, and a fence for each token. With
 * segments a sender waits until all ranks have begun the call. With packed rows it also waits
 * for the counts of all ranks, from which it computes its first row. After the fence it sends
 * scales and the head of a row to the slot. The receiver polls them; when they have arrived,
 * the elements have arrived too.
 *
 * Compile-time: EP_UNIT_BYTES, message bytes that a warp moves at a time; EP_PACKED, see
 * layout.cuh; EP_RAW, see source.cuh.
 */
#include "rank/rows.cuh"
#include "rank/tokens.cuh"

static const uint32_t RANK_SCALE_LANE = (RANK_SCALES + 31) / 32; /* number of scales of a lane: lane, lane + 32, ... */
static const uint32_t RANK_TAIL = RANK_SCALES + RANK_HEAD;       /* number of words of a message, which has no elements here */
static const uint32_t RANK_TAIL_LANE = (RANK_TAIL + 31) / 32;
static const uint32_t RANK_TAILS = 4; /* messages that a warp polls together; other numbers were not tried */
static const uint32_t RANK_PEERS = EP_RANKS > 1 ? EP_RANKS - 1 : 1;

struct RankHomeShared {
  RankTile tile;
  uint32_t rows[EP_RANKS][EP_RANKS]; /* number of rows from a source for a rank */
  uint32_t first[EP_RANKS];          /* row on this rank of each source's first message */
  uint32_t there[EP_RANKS];          /* row on each rank of this rank's first message */
  uint32_t failed;
};

/* ---- counts ---- */

/* Tells every rank that this rank has begun the call, before anything is counted. This is
 * needed only with segments. There a rank reads only the counts of the rows for itself. So
 * the word for the rows from a source to that source is not needed on other ranks, and it is
 * used as this signal. */
EP_DEVICE void rank_home_begin(const EpArgs &a, const RankCall &c) {
  if (EP_PACKED || c.block != 0 || threadIdx.x >= EP_RANKS || threadIdx.x == static_cast<uint32_t>(a.rank)) return;
  int to = static_cast<int>(threadIdx.x);
  if (!ep_alive(a, to)) return;
  st_relaxed_sys(rank_count_for(a, to, c.number, a.rank, a.rank), static_cast<uint64_t>(c.number) << 32);
}

/* Sends every rank the number of rows that it receives from this rank. With packed rows it
 * sends every rank the numbers for all ranks. */
EP_DEVICE void rank_home_tell(const EpArgs &a, const RankCall &c, const uint32_t (&all)[EP_RANKS]) {
  for (uint32_t i = threadIdx.x; i < EP_RANKS * EP_RANKS; i += blockDim.x) {
    int to = static_cast<int>((static_cast<uint32_t>(a.rank) + i / EP_RANKS) % EP_RANKS), of = static_cast<int>(i % EP_RANKS);
    if (!ep_alive(a, to) || (!EP_PACKED && of != to)) continue;
    if (a.drop_signal > 0 && (a.drop_signal - 1) / EP_LOCAL_EXPERTS == to) continue;
    st_relaxed_sys(rank_count_for(a, to, c.number, a.rank, of), static_cast<uint64_t>(c.number) << 32 | all[of]);
  }
}

/* Waits for the number of rows from a source for a rank, and returns it; 0 for a lost source. */
EP_DEVICE uint32_t rank_home_wait_count(const EpArgs &a, const RankCall &c, RankHomeShared &s, int source, int rank) {
  if (!ep_alive(a, source)) return 0;
  const uint64_t *p = rank_count_for(a, a.rank, c.number, source, rank);
  uint64_t v;
  EpSpin spin;
  while ((v = ld_relaxed_sys(p)) >> 32 != c.number)
    if (!spin.again(a, {EP_PHASE_DISPATCH_WAIT, -1, source}, c.number, v >> 32)) {
      s.failed = 1;
      break;
    }
  return static_cast<uint32_t>(v);
}

/* Waits for the counts, and finds where the rows of each source begin. All threads call it;
 * begins and ends with a barrier. */
EP_DEVICE void rank_home_counts(const EpArgs &a, const RankCall &c, RankHomeShared &s) {
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < EP_RANKS * EP_RANKS; i += blockDim.x) {
    int source = static_cast<int>(i / EP_RANKS), rank = static_cast<int>(i % EP_RANKS);
    if (EP_PACKED || rank == a.rank) s.rows[source][rank] = rank_home_wait_count(a, c, s, source, rank);
  }
  __syncthreads();
  if (threadIdx.x < EP_RANKS) {
    uint32_t r = threadIdx.x, here = r * static_cast<uint32_t>(a.max_tokens), there = static_cast<uint32_t>(a.rank) * static_cast<uint32_t>(a.max_tokens);
    if (EP_PACKED) {
      here = there = 0;
      for (uint32_t q = 0; q < r; q++) here += s.rows[q][a.rank];
      for (int q = 0; q < a.rank; q++) there += s.rows[q][r];
    }
    s.first[r] = here;
    s.there[r] = there;
  }
  __syncthreads();
}

/* Waits until this rank may store rows on all other ranks, and knows their positions. All
 * threads call it; begins and ends with a barrier. */
EP_DEVICE void rank_home_ready(const EpArgs &a, const RankCall &c, RankHomeShared &s) {
  if (EP_PACKED) {
    rank_home_counts(a, c, s);
    return;
  }
  __syncthreads();
  if (threadIdx.x < EP_RANKS) {
    int r = static_cast<int>(threadIdx.x);
    if (r != a.rank) rank_home_wait_count(a, c, s, r, r);
    s.there[r] = static_cast<uint32_t>(a.rank) * static_cast<uint32_t>(a.max_tokens);
  }
  __syncthreads();
}

/* Writes the counts to the output. */
EP_DEVICE void rank_home_leave_counts(const EpArgs &a, const RankHomeShared &s) {
  if (threadIdx.x > EP_RANKS) return;
  uint32_t rows = 0;
  for (uint32_t q = 0; q < (threadIdx.x == EP_RANKS ? EP_RANKS : 0); q++) rows += s.rows[q][a.rank];
  if (threadIdx.x < EP_RANKS) rows = EP_PACKED ? s.first[threadIdx.x] : s.rows[threadIdx.x][a.rank];
  rank_left_counts(a)[threadIdx.x] = rows;
}

/* ---- sending ---- */

/* The scales of a token in the order in which they are stored: word i * 32 + lane. */
struct RankScales {
  uint32_t word[RANK_SCALE_LANE + 1]; /* one extra element, because dtypes without scales would have none */
};

/* Passes each scale to the lane that stores it. In a step each lane has one vector, and every
 * eighth lane has a scale. So all scales of a message are stored together, instead of four in
 * each step. */
EP_DEVICE void rank_keep_scales(uint32_t lane, uint32_t step, uint32_t scale, RankScales &kept) {
  uint32_t word = __shfl_sync(EP_FULL_WARP, scale, lane % 4 * 8);
#pragma unroll
  for (uint32_t i = 0; i < RANK_SCALE_LANE; i++)
    if (step / 8 == i && lane / 4 == step % 8) kept.word[i] = word;
}

/* The row of token `i` of the tile on a rank. */
EP_DEVICE uint64_t rank_row_on(const RankHomeShared &s, uint32_t i, int to) { return s.there[to] + static_cast<uint64_t>(rank_place(s.tile, i, to)); }

/* Stores a unit in the token's rows, and keeps the unit's scales in registers. The first rank
 * changes from unit to unit, so that units stored at the same time go to different ranks. */
EP_DEVICE void rank_home_store(const EpArgs &a, const RankCall &c, const RankHomeShared &s, uint32_t i, uint32_t unit, const RankUnit &u, RankScales &kept) {
  uint32_t first = unit * (32 * RANK_STEP) + c.lane, turn = static_cast<uint32_t>(a.rank) + 1 + unit;
  EpVector out[RANK_STEP];
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    out[v] = rank_convert(u.in[v]);
    if (RANK_SCALES > 0) rank_keep_scales(c.lane, unit * RANK_STEP + v, out[v].scale, kept);
  }
  for (uint32_t j = 0; j < EP_RANKS; j++) {
    int to = static_cast<int>((turn + j) % EP_RANKS);
    if (!rank_goes(s.tile, i, to)) continue;
    uint4 *data = reinterpret_cast<uint4 *>(ep_heap(a, to) + (a.out - ep_heap(a, a.rank)) + rank_row_on(s, i, to) * RANK_PAYLOAD);
#pragma unroll
    for (uint32_t v = 0; v < RANK_STEP; v++)
      if (rank_inside(first + 32 * v)) st_relaxed_sys(data + first + 32 * v, out[v].data);
  }
}

/* Ends a token whose elements are stored: it writes scales and head to the token's rows on
 * this rank and to the slots of other ranks. A barrier of the warp and then a fence order
 * the warp's stores of elements before these writes. */
EP_DEVICE void rank_home_end(const EpArgs &a, const RankCall &c, const RankHomeShared &s, uint32_t token, uint32_t i, const RankScales &kept) {
  __syncwarp();
  fence_acq_rel_sys();
  for (uint32_t j = 1; j <= EP_RANKS; j++) {
    int to = static_cast<int>((static_cast<uint32_t>(a.rank) + j) % EP_RANKS);
    if (!rank_goes(s.tile, i, to)) continue;
    bool own = to == a.rank;
    uint32_t place = rank_place(s.tile, i, to);
    uint64_t row = rank_row_on(s, i, to);
    uint8_t *slot = rank_slot(a, to, c.number, a.rank, place);
    uint32_t *scales = own ? rank_out_scale(a, row, 0) : rank_slot_scale(slot, 0);
#pragma unroll
    for (uint32_t w = 0; w < RANK_SCALE_LANE; w++)
      if (w * 32 + c.lane < RANK_SCALES) st_relaxed_sys(scales + w * 32 + c.lane, kept.word[w]);
    for (uint32_t w = c.lane; w < RANK_HEAD; w += 32) {
      uint32_t word = rank_head(a, token, to, w);
      if (own) {
        rank_put_head(a, a.rank, row, w, word);
      } else {
        st_relaxed_sys(rank_slot_head(slot) + w, word);
      }
    }
    if (own && c.lane == 0) rank_places(a)[token] = static_cast<int32_t>(place);
  }
}

/* Sends tokens [first, end), which are the tile; one warp sends one token. While a unit is
 * being stored, the next unit is already being loaded; after a token's last unit this is the
 * first unit of the warp's next token. */
EP_DEVICE void rank_home_send(const EpArgs &a, const RankCall &c, const RankHomeShared &s, uint32_t first, uint32_t end, RankUnit next) {
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

/* Sends this block's run of tokens; all threads of a sending block call it. The last block
 * first counts all tokens and sends the counts, because every rank waits for them. */
EP_DEVICE void rank_home_async(const EpArgs &a, const RankCall &c, RankHomeShared &s) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens), each = (tokens + c.senders - 1) / c.senders;
  uint32_t begin = min(c.block * each, tokens), end = min(begin + each, tokens);
  RankUnit unit = rank_load(a, begin + c.warp, c.lane, begin + c.warp < end);
  if (c.block == c.senders - 1) {
    rank_count_tokens(a, c, 0, tokens, s.tile.all);
    rank_home_tell(a, c, s.tile.all);
    rank_count_tokens(a, c, begin, tokens, s.tile.base);
    if (threadIdx.x < EP_RANKS) s.tile.base[threadIdx.x] = s.tile.all[threadIdx.x] - s.tile.base[threadIdx.x];
  } else {
    rank_count_tokens(a, c, 0, begin, s.tile.base);
  }
  rank_home_ready(a, c, s);
  if (s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  for (uint32_t first = begin; first < end; first += blockDim.x) {
    uint32_t last = min(first + blockDim.x, end);
    if (first != begin) unit = rank_load(a, first + c.warp, c.lane, first + c.warp < last);
    rank_place_tile(a, c, s.tile, first, last);
    rank_home_send(a, c, s, first, last, unit);
  }
}

/* ---- receiving ---- */

/* The words of a message in the registers of a warp: word i * 32 + lane. */
struct RankTailWords {
  uint32_t source, place;
  bool exists;
  uint32_t word[RANK_TAIL_LANE];
};

/* The message of job number `job`, in the order in which senders send their tokens. */
EP_DEVICE RankTailWords rank_tail(const RankCall &c, const RankHomeShared &s, int rank, uint32_t job) {
  RankTailWords m;
  m.source = (static_cast<uint32_t>(rank) + 1 + job % RANK_PEERS) % EP_RANKS;
  m.place = rank_turn(c, job / RANK_PEERS, s.rows[m.source][rank]);
  m.exists = m.place < s.rows[m.source][rank];
  return m;
}

/* Polls messages until all words of all of them have arrived. */
EP_DEVICE bool rank_wait_tails(const EpArgs &a, const RankCall &c, RankTailWords (&m)[RANK_TAILS]) {
  EpSpin spin;
  for (;;) {
    uint32_t missing = 0;
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++) {
      const uint32_t *words = rank_slot_scale(rank_slot(a, a.rank, c.number, m[b].source, m[b].exists ? m[b].place : 0), 0);
#pragma unroll
      for (uint32_t i = 0; i < RANK_TAIL_LANE; i++) {
        m[b].word[i] = 0;
        if (m[b].exists && i * 32 + c.lane < RANK_TAIL) m[b].word[i] = ld_relaxed_sys(words + i * 32 + c.lane);
      }
    }
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++)
#pragma unroll
      for (uint32_t i = 0; i < RANK_TAIL_LANE; i++)
        if (m[b].word[i] == EP_SENTINEL) missing |= 1u << m[b].source;
    missing = __reduce_or_sync(EP_FULL_WARP, missing);
    if (missing == 0) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, __ffs(missing) - 1}, 1, 0)) return false;
  }
}

/* Writes scales and head of a message to its row, and empties the slot with all ones. */
EP_DEVICE void rank_take_tail(const EpArgs &a, const RankCall &c, const RankHomeShared &s, const RankTailWords &m) {
  uint64_t row = s.first[m.source] + static_cast<uint64_t>(m.place);
  uint32_t *words = rank_slot_scale(rank_slot(a, a.rank, c.number, m.source, m.place), 0);
#pragma unroll
  for (uint32_t i = 0; i < RANK_TAIL_LANE; i++) {
    uint32_t w = i * 32 + c.lane;
    if (w >= RANK_TAIL) continue;
    if (w < RANK_SCALES) {
      rank_out_scale(a, row, 0)[w] = m.word[i];
    } else {
      rank_put_head(a, m.source, row, w - RANK_SCALES, m.word[i]);
    }
    st_relaxed_sys(words + w, EP_SENTINEL);
  }
}

EP_DEVICE void rank_home_wait(const EpArgs &a, const RankCall &c, const RankHomeShared &s) {
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
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++)
      if (m[b].exists) rank_take_tail(a, c, s, m[b]);
  }
  fence_acq_rel_sys(); /* pairs with the senders' fences, so that a reader of this call's output sees the stored elements */
}

EP_ENTRY(EP_THREADS, 1) dispatch_rank_home(const __grid_constant__ EpArgs a) {
  __shared__ RankHomeShared s;
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  RankCall c = rank_call(a);
  if (ep_block_leaves(a)) return;
  if (threadIdx.x == 0) s.failed = 0;
  if (threadIdx.x < EP_RANKS) s.tile.base[threadIdx.x] = s.tile.all[threadIdx.x] = 0;
  rank_home_begin(a, c);
  if (rank_sends(c)) rank_home_async(a, c, s);
  if (rank_receives(c) && !(EP_PACKED && rank_sends(c))) rank_home_counts(a, c, s);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  if (!s.failed && c.block == gridDim.x - 1) rank_home_leave_counts(a, s);
  if (!s.failed && rank_receives(c) && EP_RANKS > 1) rank_home_wait(a, c, s);
  ep_span_end(a);
}
