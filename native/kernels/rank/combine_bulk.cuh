/* combine_rank_bulk does the work of combine_rank with bulk copies, for many tokens on few SMs. Some
 * warps of a block send while the others receive.
 *
 * A sender copies a row to a return slot of the rank that has the token, waits until the copy is
 * written, and then sets the flag of the row. A receiver waits for the flags of a token, loads the
 * token's rows into its ring, and adds them up from there. It then fills the slots with ones,
 * because calls with copy=vector poll them.
 *
 * A token has a return slot for each rank. The slot for the rank itself is free, because a rank does
 * not send the rows of its own tokens. It holds the flags, one word for each sending rank. A flag is
 * all ones until the row has arrived.
 *
 * Compile-time: EP_UNIT_BYTES and EP_STAGES, see ring.cuh; EP_PACKED, see layout.cuh.
 */
#include "rank/return.cuh"
#define RANK_MOVED RANK_ROW
#include "rank/ring.cuh"

static const uint32_t RANK_WARPS = EP_THREADS / 32;
static const uint32_t RANK_STEP = EP_UNIT_BYTES / 512; /* vectors of a lane in a piece */
static const uint32_t RANK_PEERS = EP_RANKS > 1 ? EP_RANKS - 1 : 1;
static const uint32_t RANK_EACH = 8;               /* lanes that wait for the flags of one token */
static const uint32_t RANK_BATCH = 32 / RANK_EACH; /* tokens that a warp waits for together */

/* Returns how many warps of a sending block send. If the block also receives, two thirds of its warps
 * receive, because a receiver moves twice as many bytes as a sender. */
EP_DEVICE uint32_t rank_sending_warps(const RankCall &c) { return c.receivers > 0 ? RANK_WARPS : (RANK_WARPS + 2) / 3; }

/* Returns the address of the flag that rank `from` sets when it has sent its row of a token. */
EP_DEVICE uint32_t *rank_flag(const EpArgs &a, int owner, uint32_t call, uint32_t token, uint32_t from) {
  return reinterpret_cast<uint32_t *>(rank_return(a, owner, call, token, owner)) + from;
}

/* ---- sending ---- */

/* A row that lane 0 sends. */
struct RankSent {
  uint32_t row, token, source;
};

/* Lists the rows of 32 units, of which lane i has unit + i * step, and returns their number. Unit u is
 * row u / RANK_PEERS of the ranks in turn, so that consecutive units go to different ranks. A unit
 * without a row is left out. */
EP_DEVICE uint32_t rank_list(const EpArgs &a, const RankCall &c, RankRows of, uint32_t unit, uint32_t step, RankSent (&list)[32]) {
  uint32_t mine = unit + c.lane * step, place = mine / RANK_PEERS;
  uint32_t source = (static_cast<uint32_t>(a.rank) + 1 + mine % RANK_PEERS) % EP_RANKS;
  uint32_t rows = __shfl_sync(EP_FULL_WARP, of.rows, source), row = __shfl_sync(EP_FULL_WARP, of.first, source) + place;
  uint32_t token = place < rows ? static_cast<uint32_t>(a.src_info[2 * static_cast<uint64_t>(row)]) : 0;
  /* A wrong token number of a broken dispatch must not lead out of the peer's buffer. */
  bool exists = place < rows && token < static_cast<uint32_t>(a.max_tokens);
  uint32_t all = __ballot_sync(EP_FULL_WARP, exists);
  __syncwarp();
  if (exists) list[__popc(all & ((1u << c.lane) - 1))] = {row, token, source};
  __syncwarp();
  return __popc(all);
}

/* Sets the flag of a row. Lane 0 calls it when its bulk stores of the row are written. */
EP_DEVICE void rank_raise_flag(const EpArgs &a, const RankCall &c, RankSent sent) {
  fence_acq_rel_sys();
  st_relaxed_sys(rank_flag(a, sent.source, c.number, sent.token, a.rank), 1u);
}

/* Sends the rows of this warp. The flag of a row is set after the copies of the next row have begun, so
 * that the warp does not wait for each row alone. */
EP_DEVICE void rank_bulk_send(const EpArgs &a, const RankCall &c, RankRing &ring, RankSent (&list)[32]) {
  uint32_t step = c.warps * c.senders;
  RankRows of = rank_rows(a, c.lane);
  uint32_t units = __reduce_max_sync(EP_FULL_WARP, c.lane == static_cast<uint32_t>(a.rank) ? 0 : of.rows) * RANK_PEERS;
  if (!ep_wait_started(a, c)) return;
  for (uint32_t unit = c.warp * c.senders + c.block; unit < units; unit += 32 * step) {
    uint32_t n = rank_list(a, c, of, unit, step, list);
    rank_pump(
        ring, c.lane, n * RANK_PIECES,
        [&](uint32_t k) { return reinterpret_cast<const uint8_t *>(rank_y(a, list[k / RANK_PIECES].row, rank_piece_at(k))); },
        [&](uint32_t k, const uint8_t *data, uint32_t bytes) {
          RankSent sent = list[k / RANK_PIECES];
          bulk_store(rank_return(a, sent.source, c.number, sent.token, a.rank) + rank_piece_at(k), data, bytes);
        },
        [&](uint32_t k) {
          if (c.lane != 0 || (k + 1) % RANK_PIECES != 0 || k < RANK_PIECES) return;
          bulk_wait_written<RANK_PIECES>();
          rank_raise_flag(a, c, list[k / RANK_PIECES - 1]);
        });
    if (c.lane == 0 && n > 0) {
      bulk_wait_written<0>();
      rank_raise_flag(a, c, list[n - 1]);
    }
  }
}

/* ---- receiving ---- */

/* A batch of tokens that a warp receives together. The RANK_EACH lanes from b * RANK_EACH on hold token b. */
struct RankTokens {
  uint32_t token;
  uint32_t used; /* bit r: rank r has a row of the token */
  uint32_t row;  /* row of y, if this rank has one */
};

EP_DEVICE RankTokens rank_tokens(const EpArgs &a, const RankCall &c, uint32_t first, uint32_t token) {
  RankTokens t = {token, 0, 0};
  bool exists = token < static_cast<uint32_t>(a.tokens);
  for (uint32_t k = c.lane % RANK_EACH; k < EP_TOPK; k += RANK_EACH) {
    int32_t id = exists ? ep_id(a, token * EP_TOPK + k) : -1;
    if (id >= 0) t.used |= 1u << (id / EP_LOCAL_EXPERTS);
  }
  for (uint32_t d = 1; d < RANK_EACH; d *= 2) t.used |= __shfl_xor_sync(EP_FULL_WARP, t.used, d);
  if (t.used >> a.rank & 1u) t.row = first + static_cast<uint32_t>(rank_places(a)[token]);
  return t;
}

/* Waits until the rows of all tokens of the batch have arrived, and resets their flags. */
EP_DEVICE bool rank_wait_flags(const EpArgs &a, const RankCall &c, const RankTokens &t) {
  uint32_t from = c.lane % RANK_EACH;
  bool waits = from != static_cast<uint32_t>(a.rank) && (t.used >> from & 1u) != 0;
  uint32_t *flag = rank_flag(a, a.rank, c.number, waits ? t.token : 0, from);
  EpSpin spin;
  for (;;) {
    uint32_t missing = __ballot_sync(EP_FULL_WARP, waits && ld_relaxed_sys(flag) == EP_SENTINEL);
    if (missing == 0) break;
    int32_t source = (__ffs(missing) - 1) % static_cast<int32_t>(RANK_EACH);
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_WAIT, -1, source}, 1, 0)) return false;
  }
  if (waits) st_relaxed_sys(flag, EP_SENTINEL);
  fence_acq_rel_sys(); /* pairs with the senders' fences */
  __syncwarp();
  if (c.lane == 0) fence_bulk();
  return true;
}

/* A term of the sums: one piece of one rank's row of token b. The rank is the lowest in `left`, which
 * has a bit for this rank and for each rank that follows. All ranks come for one piece, then all
 * ranks for the next piece. */
struct RankTerm {
  uint32_t b, piece, left;
};
EP_DEVICE uint32_t rank_used(const RankTokens &t, uint32_t b) { return __shfl_sync(EP_FULL_WARP, t.used, b * RANK_EACH); }
/* Returns the first term from token b on. If there is none, its b is RANK_BATCH. */
EP_DEVICE RankTerm rank_first_term(const RankTokens &t, uint32_t b) {
  for (; b < RANK_BATCH; b++) {
    uint32_t used = rank_used(t, b);
    if (used != 0) return {b, 0, used};
  }
  return {RANK_BATCH, 0, 0};
}
EP_DEVICE RankTerm rank_next_term(const RankTokens &t, RankTerm i) {
  i.left &= i.left - 1;
  if (i.left != 0) return i;
  if (i.piece + 1 < RANK_PIECES) return {i.b, i.piece + 1, rank_used(t, i.b)};
  return rank_first_term(t, i.b + 1);
}

/* Returns the address of a term's piece. All lanes call it. */
EP_DEVICE uint8_t *rank_term_at(const EpArgs &a, const RankCall &c, const RankTokens &t, RankTerm i) {
  uint32_t from = __ffs(i.left) - 1, b = i.b * RANK_EACH;
  uint32_t token = __shfl_sync(EP_FULL_WARP, t.token, b), row = __shfl_sync(EP_FULL_WARP, t.row, b);
  if (from != static_cast<uint32_t>(a.rank)) return rank_return(a, a.rank, c.number, token, from) + rank_piece_at(i.piece);
  return reinterpret_cast<uint8_t *>(const_cast<uint4 *>(rank_y(a, row, rank_piece_at(i.piece))));
}

/* Starts to load term i and advances i, if there is such a term. */
EP_DEVICE void rank_fetch_term(const EpArgs &a, const RankCall &c, const RankTokens &t, RankRing &ring, RankTerm &i) {
  if (i.b == RANK_BATCH) return;
  const uint8_t *from = rank_term_at(a, c, t, i);
  if (c.lane == 0) rank_fetch(ring, from, rank_piece_bytes(i.piece));
  i = rank_next_term(t, i);
}

EP_DEVICE void rank_put(const EpArgs &a, const RankCall &c, uint32_t token, uint32_t piece, float (&acc)[RANK_STEP][8]) {
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(token) * RANK_ROW + rank_piece_at(piece);
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    uint32_t vector = 32 * v + c.lane;
    if (vector < rank_piece_bytes(piece) / 16) reinterpret_cast<uint4 *>(out)[vector] = bf16_pack(acc[v]);
#pragma unroll
    for (int e = 0; e < 8; e++) acc[v][e] = 0;
  }
}

/* Adds up the rows of the tokens of a batch, in the order of ranks. */
EP_DEVICE void rank_bulk_sum(const EpArgs &a, const RankCall &c, const RankTokens &t, RankRing &ring) {
  float acc[RANK_STEP][8] = {};
  for (uint32_t b = 0; b < RANK_BATCH; b++) {
    uint32_t token = __shfl_sync(EP_FULL_WARP, t.token, b * RANK_EACH);
    if (rank_used(t, b) != 0 || token >= static_cast<uint32_t>(a.tokens)) continue;
    for (uint32_t piece = 0; piece < RANK_PIECES; piece++) rank_put(a, c, token, piece, acc); /* zeros */
  }
  RankTerm ahead = rank_first_term(t, 0), i = ahead;
  for (uint32_t n = 0; n < EP_STAGES; n++) rank_fetch_term(a, c, t, ring, ahead);
  for (; i.b < RANK_BATCH; i = rank_next_term(t, i)) {
    const uint4 *data = reinterpret_cast<const uint4 *>(rank_fetched(ring));
#pragma unroll
    for (uint32_t v = 0; v < RANK_STEP; v++) bf16_accumulate(acc[v], data[32 * v + c.lane], 1.0f);
    __syncwarp();
    uint8_t *slot = rank_term_at(a, c, t, i);
    if (c.lane == 0 && __ffs(i.left) - 1 != a.rank) {
      bulk_store(slot, rank_ones(), rank_piece_bytes(i.piece));
      bulk_commit();
    }
    rank_fetch_term(a, c, t, ring, ahead);
    if ((i.left & (i.left - 1)) == 0) rank_put(a, c, __shfl_sync(EP_FULL_WARP, t.token, i.b * RANK_EACH), i.piece, acc);
  }
}

EP_DEVICE void rank_bulk_receive(const EpArgs &a, const RankCall &c, RankRing &ring) {
  uint32_t step = rank_receiving_warps(c), first = __shfl_sync(EP_FULL_WARP, rank_rows(a, c.lane).first, a.rank);
  for (uint32_t job = rank_receiver(c); job < static_cast<uint32_t>(a.tokens); job += RANK_BATCH * step) {
    RankTokens t = rank_tokens(a, c, first, job + c.lane / RANK_EACH * step);
    if (!rank_wait_flags(a, c, t)) break;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    rank_bulk_sum(a, c, t, ring);
  }
  if (c.lane == 0) bulk_wait_written<0>();
}

EP_ENTRY(EP_THREADS, 1) combine_rank_bulk(const __grid_constant__ EpArgs a) {
  __shared__ RankSent list[RANK_WARPS][32];
  __shared__ uint64_t full[RANK_WARPS][EP_STAGES];
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  RankCall c = rank_call(a);
  RankRing ring = rank_ring(full);
  if (ep_warp_leaves(a, c.number)) return;
  ep_announce(a, c, 0);
  EP_NUMBER_DONE(a, c.number);
  uint32_t senders = rank_sends(c) ? rank_sending_warps(c) : 0;
  RankCall role = c;
  role.warps = c.warp < senders ? senders : RANK_WARPS - senders;
  role.warp = c.warp < senders ? c.warp : c.warp - senders;
  if (c.warp < senders) {
    if (EP_RANKS > 1) rank_bulk_send(a, role, ring, list[c.warp]);
    ep_span_stage(a, EP_STAGE_SENT);
  } else {
    rank_bulk_receive(a, role, ring);
  }
  ep_span_end(a);
}
