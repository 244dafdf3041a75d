/* combine_ll sends the experts' rows back to the ranks of the tokens. The receiving rank polls the slots where rows
 * arrive, and sums the rows of a token. Rows for a rank's own tokens also go to slots (ll/combine_slots.cuh). With
 * EP_PARTIAL they are summed in registers instead (ll/combine_partial.cuh).
 *
 * combine_ll reads the route that dispatch_ll wrote, or that dispatch_final wrote if EP_AFTER_FINAL is defined. */
#ifdef EP_AFTER_FINAL
#include "final/polled.cuh"
#endif
#ifdef EP_PARTIAL
#define EP_DIRECT 0
#include "common/partial.cuh"
#endif
#include "common/split.cuh"
#include "common/started.cuh"
#ifndef LL_MEMORY
#include "ll/layout.cuh"
#include "ll/route.cuh"
#endif
#include "ll/column.cuh"

static const uint32_t LL_SOURCES = EP_RANKS - LL_PEERS;

EP_DEVICE LlReturn ll_return_unit(const EpArgs &a, uint32_t unit) {
  LlReturn r;
  r.source = (unit + static_cast<uint32_t>(a.rank) + 1) % EP_RANKS;
  if (LL_PEERS) r.source = (static_cast<uint32_t>(a.rank) + 1 + unit % LL_SOURCES) % EP_RANKS;
  r.chunk = unit / LL_SOURCES % LL_CHUNKS;
  r.token = unit / LL_SOURCES / LL_CHUNKS;
  return r;
}
EP_DEVICE uint32_t ll_units(uint32_t tokens) { return tokens * LL_CHUNKS * LL_SOURCES; }

/* Loads the route of a unit. A warp without a further unit (unit >= units) loads nothing. */
EP_DEVICE LlRoute ll_load_route(const EpArgs &a, const LlCall &c, uint32_t unit, uint32_t units) {
  LlReturn r = ll_return_unit(a, unit);
  return ll_route_at(a, c, r.source, r.token, unit < units);
}

/* Returns whether this block sends. In a sending kernel c.blocks counts only sending blocks. */
EP_DEVICE bool ll_sends(const EpArgs &a, const LlCall &c) { return ll_summing_blocks(a) == 0 || c.block < c.blocks; }

EP_DEVICE uint32_t ll_returners(const EpArgs &a, const LlCall &c) {
  return LL_PEERS ? c.warps - min(static_cast<uint32_t>(a.receivers), c.warps - 1) : c.warps;
}

#ifdef EP_PARTIAL
#include "ll/combine_partial.cuh"
#else
#include "ll/combine_slots.cuh"
#endif

/* The values that a warp loads first. It issues these loads together with the load of the call's number, so that it
 * waits for memory only once. No branch stands before a load, because the warp would wait for the number there. */
struct LlReturnAhead {
  LlRoute route;
  uint32_t tokens; /* lane r: tokens of rank r; 0 in a warp that sends nothing; with LL_PEERS also 0 for this rank */
  uint32_t began;  /* lane r: a call that rank r has begun, perhaps not its latest */
};
EP_DEVICE LlReturnAhead ll_return_ahead(const EpArgs &a, const LlCall &c) {
  const bool sends = ll_sends(a, c) && (!LL_PEERS || c.warp < ll_returners(a, c));
  const bool counts = sends && c.lane < EP_RANKS && !(LL_PEERS && c.lane == static_cast<uint32_t>(a.rank));
  LlReturnAhead ahead;
  ahead.began = ep_load_began(a, c);
  ahead.route = ll_load_route(a, c, ll_from_bottom(c), sends ? ll_units(static_cast<uint32_t>(a.max_tokens)) : 0);
  ahead.tokens = counts ? ll_places(a, c.lane) : 0;
  return ahead;
}

/* Sends all units of this warp. */
EP_DEVICE void ll_combine_async(const EpArgs &a, const LlCall &c, LlReturnAhead ahead) {
  uint32_t senders = ll_returners(a, c), unit = ll_from_bottom(c), step = senders * c.blocks, tokens = ahead.tokens;
  if (LL_PEERS && c.warp >= senders) return;
  if (!ep_all_began(a, c, ahead.began)) return;
  if (!EP_DIRECT) ll_send_weights(a, c, senders);
  ep_span_stage(a, EP_STAGE_READY);
  LlRoute next = ahead.route;
  const uint32_t units = ll_units(__reduce_max_sync(EP_FULL_WARP, tokens));
  for (; unit < units; unit += step) {
    const LlRoute route = ll_checked_route(a, next);
    next = ll_load_route(a, c, unit + step, units);
    LlReturn r = ll_return_unit(a, unit);
    uint32_t here = __ballot_sync(EP_FULL_WARP, ll_row(route) != LL_NOWHERE);
    if (here == 0 || r.token >= __shfl_sync(EP_FULL_WARP, tokens, r.source)) continue;
    if (!ll_send_back(a, c, r, route, here)) return;
  }
}

/* Returns `c` for a block that sums. If some blocks only sum, they are numbered from 0. */
EP_DEVICE LlCall ll_summing(const EpArgs &a, LlCall c) {
  const uint32_t only = ll_summing_blocks(a);
  if (only > 0) {
    c.block -= c.blocks;
    c.blocks = only;
  }
  return c;
}

template <bool first>
EP_DEVICE void ll_combine(const EpArgs &a) {
  ep_span_begin(a);
  if (!first || EP_FUSED) ll_begin_sums();
  pdl_wait();
  pdl_launch();
  if (first) ep_drill_delay(a);
  LlCall c = {first ? 0 : ep_number(a), warp_id(),  lane_id(),
              warps_in_block(),         blockIdx.x, gridDim.x - (first ? ll_summing_blocks(a) : 0)};
  LlReturnAhead ahead;
  if (first) {
    ahead = ll_return_ahead(a, c);
    c.number = ep_number(a);
  }
  if (ep_warp_leaves(a, c.number)) return;
  if (first) ep_announce(a, c, c.blocks - 1);
  if (first && ll_sends(a, c)) ll_combine_async(a, c, ahead);
  EP_NUMBER_DONE(a, c.number);
  if (first) ep_span_stage(a, EP_STAGE_SENT);
  if (!first) ll_combine_wait(a, c);
  if (first && EP_FUSED && (ll_summing_blocks(a) == 0 || !ll_sends(a, c))) ll_combine_wait(a, ll_summing(a, c));
  ep_span_end(a);
}

EP_ENTRIES(combine_ll, ll_combine)
