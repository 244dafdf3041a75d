/* dispatch_rank_bulk does the work of dispatch_rank with bulk copies, for many tokens on few SMs.
 * Some warps of a block send while the others receive.
 *
 * A sender copies the elements of a token to a slot of each rank, or with EP_HOME to the row of that
 * rank's output. On its own rank it copies them directly to the output. When the copies are written,
 * it sends scales and head (tails.cuh). A receiver waits for these. Then it copies the elements
 * from the slot to the output, and fills the slot with ones, because calls with copy=vector poll
 * it. Meanwhile other rows arrive. No thread polls elements, so that they may be any bits.
 *
 * A token that has to be cast goes to the ring through registers. Other tokens go there by bulk
 * copies.
 *
 * Compile-time: EP_UNIT_BYTES and EP_STAGES, see ring.cuh; EP_PACKED, see layout.cuh; EP_RAW, see
 * common/message.cuh; EP_HOME.
 */
#define RANK_MOVED RANK_PAYLOAD
#include "rank/ring.cuh"
#include "rank/tails.cuh"

#ifdef EP_HOME
static const bool RANK_AT_HOME = true;
#else
static const bool RANK_AT_HOME = false;
#endif
static const bool RANK_CASTS = EP_DTYPE == EP_FP8 && !EP_RAW;
static const uint32_t RANK_WARPS = EP_THREADS / 32;

/* Returns how many warps of a sending block send. If the block also receives, half of its warps
 * receive. With EP_HOME a quarter is enough, because they copy no elements. */
EP_DEVICE uint32_t rank_sending_warps(const RankCall &c) {
  if (c.receivers > 0) return RANK_WARPS;
  return RANK_AT_HOME ? RANK_WARPS - (RANK_WARPS + 3) / 4 : RANK_WARPS / 2;
}

/* ---- sending ---- */

/* Starts to copy piece k of token `i` of the tile from the ring to the token's rows. */
EP_DEVICE void rank_bulk_store(const EpArgs &a, const RankCall &c, const RankHomeShared &s, uint32_t i, uint32_t k, const uint8_t *data) {
  for (uint32_t j = 1; j <= EP_RANKS; j++) {
    int to = static_cast<int>((static_cast<uint32_t>(a.rank) + j) % EP_RANKS);
    if (!rank_goes(s.tile, i, to)) continue;
    uint64_t at = rank_row_on(s, i, to) * RANK_PAYLOAD;
    uint8_t *row = a.out + at;
    if (to != a.rank) row = RANK_AT_HOME ? ep_heap(a, to) + (a.out - ep_heap(a, a.rank)) + at : rank_slot(a, to, c.number, a.rank, rank_place(s.tile, i, to));
    bulk_store(row + rank_piece_at(k), data, rank_piece_bytes(k));
  }
}

/* Returns the scales of a token that the caller has cast. */
EP_DEVICE RankScales rank_given_scales(const EpArgs &a, const RankCall &c, uint32_t token) {
  RankScales kept = {};
  const uint32_t *scales = reinterpret_cast<const uint32_t *>(a.input_scales) + static_cast<uint64_t>(token) * RANK_SCALES;
#pragma unroll
  for (uint32_t w = 0; w < RANK_SCALE_LANE; w++)
    if (w * 32 + c.lane < RANK_SCALES) {
      uint32_t scale = scales[w * 32 + c.lane];
      kept.word[w] = scale == EP_SENTINEL ? 0x7fffffffu : scale; /* both are a NaN */
    }
  return kept;
}

/* Sends tokens [first, end), which are the tile; one warp sends one token. The scales and the head of a
 * token are sent after the copies of the next token have begun, so that the warp does not wait for
 * each token alone. */
EP_DEVICE void rank_bulk_copy(const EpArgs &a, const RankCall &c, const RankHomeShared &s, RankRing &ring, uint32_t first, uint32_t end) {
  uint32_t mine = first + c.warp < end ? (end - first - c.warp + c.warps - 1) / c.warps : 0;
  const uint8_t *x = reinterpret_cast<const uint8_t *>(a.x);
  auto index = [&](uint32_t k) { return c.warp + k / RANK_PIECES * c.warps; };
  auto finish = [&](uint32_t k) {
    RankScales kept = {};
    if (RANK_SCALES > 0) kept = rank_given_scales(a, c, first + index(k));
    rank_home_end(a, c, s, first + index(k), index(k), kept);
  };
  rank_pump(
      ring, c.lane, mine * RANK_PIECES,
      [&](uint32_t k) { return x + static_cast<uint64_t>(first + index(k)) * RANK_PAYLOAD + rank_piece_at(k); },
      [&](uint32_t k, const uint8_t *data, uint32_t) { rank_bulk_store(a, c, s, index(k), k, data); },
      [&](uint32_t k) {
        if ((k + 1) % RANK_PIECES != 0 || k < RANK_PIECES) return;
        if (c.lane == 0) bulk_wait_written<RANK_PIECES>();
        finish(k - RANK_PIECES);
      });
  if (mine == 0) return;
  if (c.lane == 0) bulk_wait_written<0>();
  finish((mine - 1) * RANK_PIECES);
}

/* Casts a unit, whose vectors are in registers, and writes it to the next stage of the ring. */
EP_DEVICE void rank_cast_unit(const EpArgs &a, const RankCall &c, RankRing &ring, uint32_t unit, const RankUnit &u, RankScales &kept) {
  uint4 *stage = reinterpret_cast<uint4 *>(ring.at + ring.used % EP_STAGES * EP_UNIT_BYTES);
  ring.used++;
  if (c.lane == 0) bulk_wait_read<EP_STAGES - 1>();
  __syncwarp();
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    EpVector out = ep_message(u.in[v]);
    rank_keep_scales(c.lane, unit * RANK_STEP + v, out.scale, kept);
    stage[32 * v + c.lane] = out.data;
  }
  fence_shared_to_bulk();
  __syncwarp();
}

/* Does the work of rank_bulk_copy for tokens that have to be cast. */
EP_DEVICE void rank_bulk_cast(const EpArgs &a, const RankCall &c, const RankHomeShared &s, RankRing &ring, uint32_t first, uint32_t end) {
  RankUnit next = rank_load(a, first + c.warp, c.lane, first + c.warp < end);
  RankScales before = {};
  for (uint32_t token = first + c.warp; token < end; token += c.warps) {
    RankScales kept = {};
    for (uint32_t unit = 0; unit < RANK_UNITS; unit++) {
      RankUnit u = next;
      bool last = unit + 1 == RANK_UNITS;
      uint32_t after = last ? token + c.warps : token;
      next = rank_load(a, after, last ? c.lane : (unit + 1) * (32 * RANK_STEP) + c.lane, after < end);
      const uint8_t *stage = ring.at + ring.used % EP_STAGES * EP_UNIT_BYTES;
      rank_cast_unit(a, c, ring, unit, u, kept);
      if (c.lane == 0) {
        rank_bulk_store(a, c, s, token - first, unit, stage);
        bulk_commit();
      }
    }
    if (token >= first + c.warps) {
      if (c.lane == 0) bulk_wait_written<RANK_PIECES>();
      rank_home_end(a, c, s, token - c.warps, token - c.warps - first, before);
    }
    before = kept;
  }
  if (first + c.warp >= end) return;
  uint32_t last = (end - 1 - first - c.warp) / c.warps * c.warps + c.warp;
  if (c.lane == 0) bulk_wait_written<0>();
  rank_home_end(a, c, s, first + last, last, before);
}

/* Sends tokens [begin, end) of this block. The sending warps call it. */
EP_DEVICE void rank_bulk_send(const EpArgs &a, const RankCall &c, RankHomeShared &s, RankRing &ring, uint32_t begin, uint32_t end) {
  for (uint32_t first = begin; first < end; first += c.warps * 32) {
    uint32_t last = min(first + c.warps * 32, end);
    rank_place_tile(a, c, s.tile, first, last);
    if constexpr (RANK_CASTS) {
      rank_bulk_cast(a, c, s, ring, first, last);
    } else {
      rank_bulk_copy(a, c, s, ring, first, last);
    }
  }
}

/* ---- receiving ---- */

/* The slot and the row of a message that lane 0 copies. */
struct RankCopy {
  uint8_t *slot, *row;
};

/* Copies the rows of messages that have arrived from their slots to the output, and empties the
 * slots. `rows` is this warp's list in shared memory. */
EP_DEVICE void rank_bulk_take(const EpArgs &a, const RankCall &c, const RankHomeShared &s, RankRing &ring, const RankTailWords (&m)[RANK_TAILS],
                              RankCopy (&rows)[RANK_TAILS]) {
  uint32_t n = 0;
  fence_acq_rel_sys(); /* pairs with the senders' fences */
  __syncwarp();
#pragma unroll
  for (uint32_t b = 0; b < RANK_TAILS; b++) {
    if (!m[b].exists) continue;
    if (c.lane == 0) rows[n] = {rank_slot(a, a.rank, c.number, m[b].source, m[b].place), a.out + (s.first[m[b].source] + static_cast<uint64_t>(m[b].place)) * RANK_PAYLOAD};
    n++;
  }
  if (c.lane == 0) fence_bulk();
  rank_pump(
      ring, c.lane, n * RANK_PIECES, [&](uint32_t k) { return rows[k / RANK_PIECES].slot + rank_piece_at(k); },
      [&](uint32_t k, const uint8_t *data, uint32_t bytes) {
        RankCopy row = rows[k / RANK_PIECES];
        bulk_store(row.row + rank_piece_at(k), data, bytes);
        bulk_store(row.slot + rank_piece_at(k), rank_ones(), bytes);
      },
      [](uint32_t) {});
}

/* Receives; the receiving warps call it. */
EP_DEVICE void rank_bulk_wait(const EpArgs &a, const RankCall &c, const RankHomeShared &s, RankRing &ring, RankCopy (&rows)[RANK_TAILS]) {
  uint32_t most = 0, step = rank_receiving_warps(c);
  for (uint32_t i = 1; i < EP_RANKS; i++) most = max(most, rank_turns(c, s.rows[(a.rank + i) % EP_RANKS][a.rank]));
  for (uint32_t job = rank_receiver(c); job < most * RANK_PEERS; job += RANK_TAILS * step) {
    RankTailWords m[RANK_TAILS];
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++) {
      m[b] = rank_tail(c, s, a.rank, job + b * step);
      m[b].exists &= job + b * step < most * RANK_PEERS;
    }
    if (!rank_wait_tails(a, c, m)) break;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    if (!RANK_AT_HOME) rank_bulk_take(a, c, s, ring, m, rows);
#pragma unroll
    for (uint32_t b = 0; b < RANK_TAILS; b++)
      if (m[b].exists) rank_take_tail(a, c, s, m[b]);
  }
  fence_acq_rel_sys(); /* with EP_HOME it pairs with the senders' fences, so that a reader of this call's output sees the stored elements */
  if (c.lane == 0) bulk_wait_written<0>();
}

EP_ENTRY(EP_THREADS, 1) dispatch_rank_bulk(const __grid_constant__ EpArgs a) {
  __shared__ RankHomeShared s;
  __shared__ RankCopy rows[RANK_WARPS][RANK_TAILS];
  __shared__ uint64_t full[RANK_WARPS][EP_STAGES];
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  RankCall c = rank_call(a);
  if (ep_block_leaves(a)) return;
  if (threadIdx.x == 0) s.failed = 0;
  if (threadIdx.x < EP_RANKS) s.tile.base[threadIdx.x] = s.tile.all[threadIdx.x] = 0;
  RankRing ring = rank_ring(full);
  rank_home_begin(a, c);
  uint32_t tokens = static_cast<uint32_t>(a.tokens), each = (tokens + c.senders - 1) / c.senders;
  uint32_t begin = min(c.block * each, tokens), end = min(begin + each, tokens);
  if (rank_sends(c)) rank_home_prepare(a, c, s, begin);
  if (rank_receives(c) && !(EP_PACKED && rank_sends(c))) rank_home_counts(a, c, s);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_READY);
  if (!s.failed && c.block == gridDim.x - 1) rank_home_leave_counts(a, s);
  if (!s.failed) {
    uint32_t senders = rank_sends(c) ? rank_sending_warps(c) : 0;
    RankCall role = c;
    role.warps = c.warp < senders ? senders : RANK_WARPS - senders;
    role.warp = c.warp < senders ? c.warp : c.warp - senders;
    if (c.warp < senders) {
      rank_bulk_send(a, role, s, ring, begin, end);
      ep_span_stage(a, EP_STAGE_SENT);
    } else if (EP_RANKS > 1) {
      rank_bulk_wait(a, role, s, ring, rows[c.warp]);
    }
  }
  ep_span_end(a);
}
