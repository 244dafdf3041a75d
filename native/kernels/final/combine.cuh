/* combine_final sends the experts' rows back to their tokens' ranks and sums them, for large batches. The first
 * `senders` blocks draw tickets (numbers of messages) and send these messages; the other blocks sum the rows that
 * arrived. If there are no other blocks, every block sends and sums. Messages go to slots in the memory of the token's
 * rank. Without EP_PARTIAL, a rank's own rows go to slots, too (final/combine_slots.cuh). With EP_PARTIAL, it sums its
 * own rows in registers (final/combine_partial.cuh). EP_TEAMS comes with EP_PARTIAL: then some warps of a block load,
 * and others add (final/combine_team.cuh).
 *
 * EP_IN_FLIGHT: vectors that a sending lane has in flight to shared memory; 0: it loads vectors to registers. */
#include "common/ids.cuh"
#ifdef EP_PARTIAL
#define EP_DIRECT 0
#include "common/partial.cuh"
#endif
#if defined(EP_TEAMS)
#include "final/combine_message.cuh"
#elif EP_IN_FLIGHT > 0
#include "final/combine_ring.cuh"
#else
#include "final/combine_registers.cuh"
#endif

static const uint32_t FIN_UNIT = 2048;
static const uint32_t FIN_UNITS = (FIN_ROW_BYTES + FIN_UNIT - 1) / FIN_UNIT;

/* Returns which slots of a token will be filled: bit i is for slot i. Slot i belongs to rank i, or with EP_DIRECT to
 * top-k position i. `id` is the expert at top-k position `lane`, or negative. */
EP_DEVICE uint32_t fin_slots_used(uint32_t lane, int32_t id) {
  if (EP_DIRECT) return __ballot_sync(EP_FULL_WARP, id >= 0);
  return __reduce_or_sync(EP_FULL_WARP, id < 0 ? 0u : 1u << (id / EP_LOCAL_EXPERTS));
}

EP_DEVICE bool fin_wait_slots(const EpArgs &a, const EpCall &c, uint32_t token, uint32_t used, int32_t id) {
  const uint32_t *flag = fin_flag(a, a.rank, token, c.lane < FIN_SLOTS ? c.lane : 0);
  bool mine = (used >> c.lane & 1u) != 0;
  EpSpin spin;
  for (;;) {
    uint32_t seen = mine ? ld_acquire_sys(flag) : c.number;
    uint32_t missing = __ballot_sync(EP_FULL_WARP, seen != c.number);
    __syncwarp();
    if (missing == 0) return true;
    int slot = __ffs(missing) - 1;
    int32_t expert = EP_DIRECT ? __shfl_sync(EP_FULL_WARP, id, slot) : -1;
    int32_t source = EP_DIRECT ? expert / EP_LOCAL_EXPERTS : slot;
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_WAIT, expert, source}, c.number, seen)) return false;
  }
}

/* Waits until all ranks have begun this call. Then no rank reads its slots for the previous call any more, and this
 * call may fill them. Each warp that sends or loads messages calls it first. */
EP_DEVICE bool fin_wait_started(const EpArgs &a, const EpCall &c) {
  const uint32_t *p = ep_started(a, a.rank) + (c.lane < EP_RANKS ? c.lane : 0);
  EpSpin spin;
  for (;;) {
    uint32_t began = ld_acquire_sys(p);
    uint32_t missing = __ballot_sync(EP_FULL_WARP, !ep_reached(began, c.number));
    __syncwarp();
    if (missing == 0) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_ASYNC, -1, __ffs(missing) - 1}, c.number, began)) return false;
  }
}

#if defined(EP_TEAMS)
#include "final/combine_team.cuh"
#elif defined(EP_PARTIAL)
#include "final/combine_partial.cuh"
#else
#include "final/combine_slots.cuh"
#endif

#ifndef EP_TEAMS
/* Draws tickets and sends their messages. With tickets, all warps have work until the end. While a warp sends, it loads
 * the route of its next message and draws another ticket. It does not prefetch the rows of the next message to L2: such
 * a prefetch made calls up to 13 % slower. */
EP_DEVICE void fin_combine_async(const EpArgs &a, const EpCall &c) {
  uint32_t *tickets = reinterpret_cast<uint32_t *>(a.counters) + FIN_TICKETS + (c.number & 1);
  bool sends = c.lane < EP_RANKS && !(FIN_PEERS && c.lane == static_cast<uint32_t>(a.rank));
  uint32_t all = __reduce_max_sync(EP_FULL_WARP, sends ? fin_tokens(a)[c.lane] : 0) * FIN_SOURCES;
  if (!fin_wait_started(a, c)) return;
  ep_span_stage(a, EP_STAGE_READY);
  /* The loop stops at the first ticket past the end, so a warp's tickets must rise. One add draws the first two
   * tickets, so the second is larger than the first. */
  uint32_t drawn = c.lane == 0 ? add_relaxed_gpu(tickets, 2u) : 0;
  uint32_t i = __shfl_sync(EP_FULL_WARP, drawn, 0), after = i + 1;
  FinReturn r = fin_load_return(a, c, i, all);
  while (i < all) {
    drawn = c.lane == 0 ? add_relaxed_gpu(tickets, 1u) : 0;
    FinReturn next = fin_load_return(a, c, after, all);
    uint32_t here = fin_here(r);
    if (here != 0) fin_send_message(a, c, r, here);
    r = next;
    i = after;
    after = __shfl_sync(EP_FULL_WARP, drawn, 0);
  }
  ep_span_stage(a, EP_STAGE_SENT);
}
#endif

EP_DEVICE void fin_announce(const EpArgs &a, const EpCall &c) {
  if (c.block != 0 || c.warp != 0) return;
  if (c.lane < EP_RANKS) st_release_sys(ep_started(a, c.lane) + a.rank, c.number);
  if (c.lane == 0) a.counters[FIN_TICKETS + ((c.number + 1) & 1)] = 0;
}

#ifdef EP_TEAMS
EP_ENTRY(EP_THREADS, 1) combine_final_team(const __grid_constant__ EpArgs a) {
  ep_begin(a);
  ep_drill_delay(a);
  if (ep_block_leaves(a)) return; /* a team's warps wait for each other, so none may leave alone */
  EpCall c = ep_call(a);
  c.number = ep_round(a);
  fin_announce(a, c);
  fin_run_teams(a, c);
  EP_NUMBER_DONE(a, c.number);
  ep_span_end(a);
}
#else
EP_ENTRY(EP_THREADS, 1) combine_final(const __grid_constant__ EpArgs a) {
  ep_begin(a);
  ep_drill_delay(a);
  EpCall c = ep_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  fin_announce(a, c);
  if (ep_sends(c)) fin_combine_async(a, c);
  EP_NUMBER_DONE(a, c.number);
  if (ep_receives(c)) fin_combine_wait(a, c);
  ep_span_end(a);
}
#endif
