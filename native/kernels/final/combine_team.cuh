/* Functions of combine_final for own=team. With the other values of `own`, warps on few SMs wait too often: for a fence
 * after each message, and for memory at the start of the next. Here each kind of waiting has its own warps:
 *
 * - Loading warps, one for each team, fill rings in shared memory with the rows of messages and sums. They go on to the
 *   next message while the rows of the last one are being added.
 * - Adding warps, FIN_STEPS for each team, add rows. Each adds the same FIN_STRIDE bytes of every row, and stores
 *   the sums.
 * - One signalling warp sets the flag of each message that has been stored. Only this warp waits for fences.
 *
 * Sums of a token's rows are rounded to BF16, and added in the order of ranks. The result has the same bits as with
 * own=registers.
 *
 * Waits for another warp of the block need no deadline: the waits of a loading warp for other ranks have deadlines,
 * and after them it puts FIN_END into the ring, where the other warps stop. */
#pragma once

#include "common/bulk.cuh"
#include "final/combine_message.cuh"

/* The rings of a block's teams share FIN_TEAMS_BYTES equally. A team has FIN_ROWS rows in shared memory. With more than
 * two ranks, one of them is no stage of the ring: it holds the sum of the rank's own rows until the sums of lower ranks
 * are added. kernels/cuda/declare/final.go has the same limits. */
static const uint32_t FIN_TEAMS_BYTES = 224 << 10, FIN_MOST_TEAMS = 8, FIN_LEAST_ROWS = 4, FIN_MOST_ROWS = 6;
__host__ __device__ constexpr uint32_t fin_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
static const uint32_t FIN_TEAMS = fin_min(fin_min((EP_THREADS / 32 - 1) / (FIN_STEPS + 1), FIN_MOST_TEAMS),
                                          FIN_TEAMS_BYTES / (FIN_LEAST_ROWS * FIN_ROW_BYTES));
static const uint32_t FIN_ROWS = fin_min(FIN_MOST_ROWS, FIN_TEAMS_BYTES / (FIN_TEAMS * FIN_ROW_BYTES));
static const uint32_t FIN_STAGES = FIN_ROWS - (EP_RANKS > 2);
static const uint32_t FIN_REPORTS = 4; /* messages of a team that wait for the signalling warp */

/* Bits of FinRow.kind. */
enum FinRowKind {
  FIN_SUM = 1,       /* the row is for a token of this rank; without this bit, it is for a message */
  FIN_LAST = 2,      /* after this row, store the result */
  FIN_ROUND = 4,     /* after this row, round the sum so far to BF16 */
  FIN_KEEP = 8,      /* after this row, round the sum so far, put it aside, and start again with 0 */
  FIN_ADD_KEPT = 16, /* after this row, add the sum that was put aside */
  FIN_PLAIN = 32,    /* the weight is 1 */
  FIN_NO_ROW = 64,   /* there is no row to add */
  FIN_END = 128      /* nothing follows */
};

/* Says what to do with a row in the ring. `source` is the token's rank. */
struct FinRow {
  uint32_t kind, source, token;
  float weight;
};

/* The barriers of one team, and what they guard. A phase of `full` ends when a row has arrived, of `free` when the
 * adding warps have read it, of `reported` when they have stored a message, and of `signalled` when its flag is set. Then
 * the report may be overwritten. */
struct FinTeam {
  uint64_t full[FIN_STAGES], free[FIN_STAGES], reported[FIN_REPORTS], signalled[FIN_REPORTS];
  FinRow row[FIN_STAGES], report[FIN_REPORTS];
};

/* The position in a ring of `n` stages. `parity` changes with each round. */
template <uint32_t n> struct FinPosition {
  uint32_t stage, parity;
  EP_DEVICE void next() {
    if (++stage != n) return;
    stage = 0;
    parity ^= 1;
  }
};

/* Waits until the phase with this parity has ended. A new barrier counts as if a phase with parity 1 had ended. */
EP_DEVICE void fin_await(uint64_t *bar, uint32_t parity) {
  while (!mbar_try(bar, parity)) {
  }
}

EP_DEVICE uint8_t *fin_team_rows(uint32_t team) {
  EP_DYNAMIC_SHARED(rows);
  return rows + team * FIN_ROWS * FIN_ROW_BYTES;
}

/* Puts a row into the ring of a team, once a stage is free. `from` is null if there are no bytes to load. */
struct FinLoader {
  FinTeam &team;
  uint8_t *rows;
  FinPosition<FIN_STAGES> at;

  EP_DEVICE void put(const EpCall &c, const uint8_t *from, const FinRow &row) {
    if (c.lane == 0) {
      fin_await(&team.free[at.stage], at.parity ^ 1);
      team.row[at.stage] = row;
      mbar_expect(&team.full[at.stage], from != nullptr ? FIN_ROW_BYTES : 0);
      if (from != nullptr) bulk_load(rows + at.stage * FIN_ROW_BYTES, from, FIN_ROW_BYTES, &team.full[at.stage]);
    }
    __syncwarp();
    at.next();
  }
};

/* A message to send, or a token to sum. For a token to sum, `id` is the expert at top-k position `lane`. */
struct FinWork {
  bool sum;
  FinReturn r;
  int32_t id;
};

/* Puts this rank's rows of a message or sum into the ring. `then` is the kind of the last one. */
EP_DEVICE void fin_put_rows(const EpArgs &a, const EpCall &c, FinLoader &to, const FinWork &w, uint32_t kind, uint32_t then) {
  kind |= fin_plain(w.r) ? FIN_PLAIN : 0;
  for (uint32_t left = fin_here(w.r); left != 0; left &= left - 1) {
    const uint64_t route = __shfl_sync(EP_FULL_WARP, w.r.route, __ffs(left) - 1);
    const float weight = __uint_as_float(static_cast<uint32_t>(route >> 32));
    to.put(c, fin_row(a, route), {kind | ((left & (left - 1)) == 0 ? then : 0), w.r.source, w.r.token, weight});
  }
}

/* Puts the rows of a sum into the ring: those of this rank, and then the sums of the other ranks, once they have
 * arrived. Returns false if one did not arrive before the deadline. */
EP_DEVICE bool fin_put_sum(const EpArgs &a, const EpCall &c, FinLoader &to, const FinWork &w) {
  const uint32_t here = fin_here(w.r), token = w.r.token, mine = 1u << a.rank;
  const int32_t id = ep_checked_expert(w.id);
  const uint32_t others = fin_slots_used(c.lane, id) & ~mine, lower = others & (mine - 1);
  const bool keep = __popc(lower) > 1; /* with one lower rank, a + b has the same bits as b + a */
  fin_put_rows(a, c, to, w, FIN_SUM, (keep ? FIN_KEEP : FIN_ROUND) | (others == 0 ? FIN_LAST : 0));
  if (others == 0) {
    if (here == 0) to.put(c, nullptr, {FIN_SUM | FIN_LAST | FIN_NO_ROW, 0, token, 0});
    return true;
  }
  if (!fin_wait_slots(a, c, token, others, id)) return false;
  ep_span_stage(a, EP_STAGE_ARRIVED);
  fence_before_bulk_load();
  for (uint32_t left = others; left != 0; left &= left - 1) {
    const uint32_t rank = __ffs(left) - 1, rest = left & (left - 1);
    const bool kept = here != 0 && keep && rank < static_cast<uint32_t>(a.rank) && (rest & lower) == 0;
    to.put(c, fin_return(a, a.rank, token, rank), {FIN_SUM | FIN_PLAIN | (kept ? FIN_ADD_KEPT : 0u) | (rest == 0 ? FIN_LAST : 0u), 0, token, 1});
  }
  return true;
}

/* The work of a rank, in the order in which its teams take it. A block that only sums has a fixed share of the sums.
 * Other blocks draw tickets. If blocks send and sum, the sum of token t comes after the messages for token t + lag. By
 * then the other ranks have usually sent theirs. The lag only saves waiting. There is no deadlock: tickets rise, so a
 * message waits only behind sums of earlier tokens. */
struct FinSchedule {
  uint32_t *word;
  uint32_t sends; /* the largest number of tokens of another rank */
  uint32_t sums;  /* tokens of this rank */
  uint32_t lag;   /* in tokens */
  uint32_t teams; /* teams that share this work */

  /* Returns the number of pieces of work. */
  EP_DEVICE uint32_t end() const {
    if (sums == 0) return sends * FIN_SOURCES;
    return sends == 0 ? sums : EP_RANKS * max(sends, sums + lag);
  }
  /* Returns, in lane 0, the number of the piece of work after piece `before` of this team. */
  EP_DEVICE uint32_t draw(const EpCall &c, uint32_t before) const {
    if (sends == 0) return before + teams;
    return c.lane == 0 ? add_relaxed_gpu(word, 1u) : 0;
  }
  EP_DEVICE FinWork load(const EpArgs &a, const EpCall &c, uint32_t i) const {
    FinWork w = {sends == 0, {static_cast<uint32_t>(a.rank), i, FIN_NOWHERE}, -1};
    uint32_t message = i;
    if (sends != 0 && sums != 0) {
      const uint32_t token = i / EP_RANKS, place = i % EP_RANKS;
      w.sum = place == FIN_SOURCES;
      message = token * FIN_SOURCES + place;
      w.r.token = token - lag; /* wraps around before the first sum */
    }
    if (!w.sum) {
      w.r = fin_load_return(a, c, message, sends * FIN_SOURCES);
    } else if (w.r.token < sums && c.lane < EP_TOPK) {
      w.r.route = fin_words(a, a.rank, FIN_ROUTE, a.rank, w.r.token)[c.lane];
      w.id = ep_load_id(a, w.r.token * EP_TOPK + c.lane);
    }
    return w;
  }
};

EP_DEVICE FinSchedule fin_schedule(const EpArgs &a, const EpCall &c) {
  const bool sends = c.lane < EP_RANKS && c.lane != static_cast<uint32_t>(a.rank) && ep_sends(c);
  const uint32_t teams = FIN_TEAMS * (ep_sends(c) ? c.senders : c.receivers);
  const uint32_t most = __reduce_max_sync(EP_FULL_WARP, sends ? fin_tokens(a)[c.lane] : 0);
  return {reinterpret_cast<uint32_t *>(a.counters) + FIN_TICKETS + (c.number & 1),
          most, ep_receives(c) ? static_cast<uint32_t>(a.tokens) : 0, min(2 * teams, most), teams};
}

/* Does the work of a loading warp: puts the rows of messages and sums, one after the other, into the ring of team
 * `index`. */
EP_DEVICE void fin_load_rows(const EpArgs &a, const EpCall &c, FinTeam &team, uint32_t index) {
  const FinSchedule tickets = fin_schedule(a, c);
  FinLoader to = {team, fin_team_rows(index), {}};
  bool going = tickets.sends == 0 || fin_wait_started(a, c);
  ep_span_stage(a, EP_STAGE_READY);
  const uint32_t block = c.receivers == 0 || ep_sends(c) ? c.block : c.block - c.senders;
  uint32_t i = index * (tickets.teams / FIN_TEAMS) + block, after = i + tickets.teams;
  if (going && tickets.sends != 0) { /* one add draws the first two tickets, so that a team's tickets rise */
    i = __shfl_sync(EP_FULL_WARP, c.lane == 0 ? add_relaxed_gpu(tickets.word, 2u) : 0, 0);
    after = i + 1;
  }
  FinWork w = tickets.load(a, c, i);
  while (going && i < tickets.end()) {
    const uint32_t drawn = tickets.draw(c, after);
    const FinWork next = tickets.load(a, c, after);
    if (!w.sum)
      fin_put_rows(a, c, to, w, 0, FIN_LAST);
    else if (w.r.token < tickets.sums)
      going = fin_put_sum(a, c, to, w);
    w = next;
    i = after;
    after = __shfl_sync(EP_FULL_WARP, drawn, 0);
  }
  to.put(c, nullptr, {FIN_END, 0, 0, 0});
}

/* Tells the signalling warp that this warp has stored its part of a message. */
EP_DEVICE void fin_report(const EpCall &c, FinTeam &team, FinPosition<FIN_REPORTS> &at, const FinRow &row) {
  fin_await(&team.signalled[at.stage], at.parity ^ 1);
  if (c.lane == 0 && c.warp % FIN_STEPS == 0) team.report[at.stage] = row;
  __syncwarp();
  if (c.lane == 0) mbar_arrive(&team.reported[at.stage]);
  at.next();
}

/* Adds this lane's vectors of a row in shared memory, from byte `first` on. Each branch loads the vectors itself,
 * because all of them, held across the branch, would take too many registers. */
EP_DEVICE void fin_add_part(float (&acc)[FIN_WIDTH][8], const uint8_t *row, uint32_t first, float weight, bool plain) {
  auto load = [&](uint32_t v) { return *reinterpret_cast<const uint4 *>(row + (fin_in_row(first + v * 512) ? first + v * 512 : 0)); };
  if (!plain) {
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) bf16_accumulate(acc[v], load(v), weight);
    return;
  }
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    float x[8];
    bf16_unpack(load(v), x);
#pragma unroll
    for (int i = 0; i < 8; i++) acc[v][i] = __fadd_rn(acc[v][i], x[i]);
  }
}

/* Rounds the sum, puts it aside, or adds the sum that was put aside, as `kind` says. `kept` is the row for that sum,
 * and `first` this lane's first byte in it. */
EP_DEVICE void fin_finish_own(uint32_t kind, float (&acc)[FIN_WIDTH][8], uint8_t *kept, uint32_t first) {
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    const bool holds = EP_RANKS > 2 && fin_in_row(first + v * 512);
    uint4 *mine = reinterpret_cast<uint4 *>(kept + first + v * 512);
    const uint4 sum = holds && (kind & FIN_ADD_KEPT) != 0 ? *mine : bf16_pack(acc[v]);
    if (holds && (kind & FIN_KEEP) != 0) *mine = sum;
    if ((kind & FIN_ADD_KEPT) == 0)
#pragma unroll
      for (int i = 0; i < 8; i++) acc[v][i] = 0;
    if ((kind & FIN_KEEP) == 0) bf16_accumulate(acc[v], sum, 1.0f);
  }
}

/* Does the work of an adding warp: adds its part of all rows in the ring of team `index`, and stores this part of each
 * message and sum. */
EP_DEVICE void fin_add_rows(const EpArgs &a, const EpCall &c, FinTeam &team, uint32_t index) {
  const uint32_t first = c.warp % FIN_STEPS * FIN_STRIDE + c.lane * 16;
  uint8_t *rows = fin_team_rows(index);
  float acc[FIN_WIDTH][8] = {};
  FinPosition<FIN_REPORTS> reports = {};
  for (FinPosition<FIN_STAGES> at = {};; at.next()) {
    fin_await(&team.full[at.stage], at.parity);
    const FinRow row = team.row[at.stage];
    if ((row.kind & FIN_END) != 0) break;
    if ((row.kind & FIN_NO_ROW) == 0) fin_add_part(acc, rows + at.stage * FIN_ROW_BYTES, first, row.weight, (row.kind & FIN_PLAIN) != 0);
    __syncwarp();
    if (c.lane == 0) mbar_arrive(&team.free[at.stage]);
    if ((row.kind & (FIN_ROUND | FIN_KEEP | FIN_ADD_KEPT)) != 0)
      fin_finish_own(row.kind, acc, rows + FIN_STAGES * FIN_ROW_BYTES, first);
    if ((row.kind & FIN_LAST) == 0) continue;
    const bool sum = (row.kind & FIN_SUM) != 0;
    uint8_t *out = sum ? reinterpret_cast<uint8_t *>(a.combined) + static_cast<uint64_t>(row.token) * FIN_ROW_BYTES
                       : fin_return(a, row.source, row.token, a.rank);
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) {
      if (fin_in_row(first + v * 512)) st_relaxed_sys(reinterpret_cast<uint4 *>(out + first + v * 512), bf16_pack(acc[v]));
#pragma unroll
      for (int i = 0; i < 8; i++) acc[v][i] = 0;
    }
    if (sum) continue;
    ep_span_stage(a, EP_STAGE_SENT);
    fin_report(c, team, reports, row);
  }
  fin_report(c, team, reports, {FIN_END, 0, 0, 0});
}

/* Does the work of the signalling warp: sets the flag of each message that has been stored. Lane i serves team i. */
EP_DEVICE void fin_signal(const EpArgs &a, const EpCall &c, FinTeam *teams) {
  bool going = c.lane < FIN_TEAMS;
  FinTeam &team = teams[going ? c.lane : 0];
  FinPosition<FIN_REPORTS> at = {};
  while (__any_sync(EP_FULL_WARP, going)) {
    const bool ready = going && mbar_test(&team.reported[at.stage], at.parity);
    if (!__any_sync(EP_FULL_WARP, ready)) spin_pause();
    if (!ready) continue;
    const FinRow row = team.report[at.stage];
    if ((row.kind & FIN_END) != 0) {
      going = false;
      continue;
    }
    fence_acq_rel_sys();
    st_relaxed_sys(fin_flag(a, row.source, row.token, a.rank), c.number);
    mbar_arrive(&team.signalled[at.stage]);
    at.next();
  }
}

/* Sends and sums. All threads of the block call it. */
EP_DEVICE void fin_run_teams(const EpArgs &a, const EpCall &c) {
  __shared__ FinTeam teams[FIN_TEAMS];
  if (threadIdx.x < FIN_TEAMS) {
    FinTeam &team = teams[threadIdx.x];
    for (uint32_t i = 0; i < FIN_STAGES; i++) {
      mbar_init(&team.full[i], 1);
      mbar_init(&team.free[i], FIN_STEPS);
    }
    for (uint32_t i = 0; i < FIN_REPORTS; i++) {
      mbar_init(&team.reported[i], FIN_STEPS);
      mbar_init(&team.signalled[i], 1);
    }
  }
  __syncthreads();
  const uint32_t loader = c.warp - FIN_TEAMS * FIN_STEPS; /* wraps around for an adding warp */
  if (c.warp < FIN_TEAMS * FIN_STEPS)
    fin_add_rows(a, c, teams[c.warp / FIN_STEPS], c.warp / FIN_STEPS);
  else if (loader < FIN_TEAMS)
    fin_load_rows(a, c, teams[loader], loader);
  else if (loader == FIN_TEAMS)
    fin_signal(a, c, teams);
}
