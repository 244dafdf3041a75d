/* combine_hosts with arrival=data sends every row back to its own slot on the token's rank, which sums the rows in
 * top-k order. It works over hosts like combine_ll with algo=direct on one host. It reads the route that dispatch_hosts
 * with arrival=data wrote. Combines may follow each other without a dispatch between them. */
#define LL_HOSTS
#define EP_DIRECT 1
#include "hosts/ll_layout.cuh"
#include "ll/route.cuh"
#include "ll/column.cuh" /* after route.cuh, whose names it uses */

/* Names that ll/combine_slots.cuh uses. */
EP_DEVICE uint32_t ll_token_of(const LlRoute &r, uint32_t) { return __shfl_sync(EP_FULL_WARP, ll_row(r), EP_TOPK); }
EP_DEVICE uint8_t *ll_return(const EpArgs &a, int owner, uint32_t call, uint32_t token, uint32_t k) {
  return ep_peer_heap(a, owner) + lh_return(a, call, token, k);
}
EP_DEVICE uint32_t ll_polled(const EpArgs &a, int32_t id, uint32_t) {
  return __ballot_sync(EP_FULL_WARP, id >= 0 && ep_is_near(a, lh_owner(id)));
}

#include "ll/combine_slots.cuh"

static const uint32_t LH_FAR_RANKS = EP_RANKS - EP_PER_NODE;

/* Tells every rank that this rank began call n. Then waits until every rank has begun call n - 1. There are two sets of
 * slots, so calls n - 2 and n fill the same slots. A rank that has begun call n - 1 has ended call n - 2, in which it
 * emptied these slots. */
static __device__ bool lh_begin(const EpArgs &a, const LlCall &c) {
  if (c.block == 0)
    for (int32_t rank = static_cast<int32_t>(threadIdx.x); rank < EP_RANKS; rank += static_cast<int32_t>(blockDim.x))
      ep_signal(a, rank, lh_started(a, c.number, a.rank), c.number);
  const uint32_t before = ep_number_before(c.number);
  bool ok = true;
  uint64_t got;
  for (int32_t rank = static_cast<int32_t>(threadIdx.x); rank < EP_RANKS; rank += static_cast<int32_t>(blockDim.x)) {
    /* A rank's signal of call n may arrive before its signal of call n - 1, and also shows that it began call n - 1. */
    const uint64_t *now = ep_own_word(a, lh_started(a, c.number, rank));
    ok = ok && ep_wait_for(a, lh_started(a, before, rank), {EP_PHASE_COMBINE_ASYNC, -1, rank}, before, &got, [before, now](uint64_t v) {
           return ep_reached(static_cast<uint32_t>(v), before) || ep_reached(static_cast<uint32_t>(ld_relaxed_sys(now)), before);
         });
  }
  if (__syncthreads_or(!ok)) return false;
  ep_span_stage(a, EP_STAGE_READY);
  return true;
}

/* lh_far_unit and lh_near_unit return unit number `unit`, which sends the rows of one message back. In the LlReturn,
 * `source` is the rank that sent the message in dispatch, and `token` is the message's number. A unit for another host
 * has whole rows. A unit inside the host has chunk number `chunk` of each row. Consecutive units go to different
 * ranks. */
EP_DEVICE LlReturn lh_far_unit(const EpArgs &a, uint32_t unit) {
  const uint32_t ranks = LH_FAR_RANKS > 0 ? LH_FAR_RANKS : 1, place = static_cast<uint32_t>(a.rank % EP_PER_NODE);
  const uint32_t next_host = static_cast<uint32_t>((ep_node_of(a.rank) + 1) * EP_PER_NODE);
  return {(next_host + (place + unit) % ranks) % EP_RANKS, unit / ranks, 0};
}
EP_DEVICE LlReturn lh_near_unit(const EpArgs &a, uint32_t unit) {
  const uint32_t place = (static_cast<uint32_t>(a.rank) + 1 + unit) % EP_PER_NODE;
  return {static_cast<uint32_t>(ep_node_of(a.rank) * EP_PER_NODE) + place, unit / EP_PER_NODE / LL_CHUNKS, unit / EP_PER_NODE % LL_CHUNKS};
}

EP_DEVICE void lh_send_unit(const EpArgs &a, const LlCall &c, LlReturn r, bool far) {
  const LlRoute route = {c.lane < LH_HEAD ? lh_route(a, r.source, r.token)[c.lane] : LL_NOWHERE};
  uint32_t here = __ballot_sync(EP_FULL_WARP, c.lane < EP_TOPK && ll_row(route) != LL_NOWHERE);
  if (!far) {
    ll_send_back(a, c, r, route, here);
    return;
  }
  r.token = ll_token_of(route, r.token);
  for (; here != 0; here &= here - 1) {
    const uint32_t k = __ffs(here) - 1;
    const uint64_t row = __shfl_sync(EP_FULL_WARP, ll_row(route), k);
    net_put(ep_own_heap(a) + lh_return(a, c.number, r.token, k), a.y + row * EP_HIDDEN, LH_ROW,
            ep_own_word(a, lh_return_flag(a, c.number, r.token, k)), c.number, EP_NET_SET, static_cast<int32_t>(r.source));
  }
}

EP_DEVICE uint32_t lh_most_messages(const EpArgs &a, bool near) {
  uint32_t most = 0;
  for (uint32_t s = lane_id(); s < EP_RANKS; s += 32)
    if (ep_is_near(a, static_cast<int32_t>(s)) == near) most = max(most, lh_messages(a)[s]);
  return __reduce_max_sync(EP_FULL_WARP, most);
}

static __device__ bool lh_combine_send(const EpArgs &a, const LlCall &c) {
  ep_drill_delay(a);
  if (!lh_begin(a, c)) return false;
  const uint32_t far = lh_most_messages(a, false) * LH_FAR_RANKS, near = lh_most_messages(a, true) * LL_CHUNKS * EP_PER_NODE;
  for (uint32_t unit = ll_from_bottom(c); unit < far + near; unit += ll_all_warps(c)) {
    const LlReturn r = unit < far ? lh_far_unit(a, unit) : lh_near_unit(a, unit - far);
    if (r.token < lh_messages(a)[r.source]) lh_send_unit(a, c, r, unit < far);
  }
  ep_span_stage(a, EP_STAGE_SENT);
  return true;
}

EP_DEVICE bool lh_await_far(const EpArgs &a, const LlCall &c, uint32_t token, int32_t id) {
  bool ok = true;
  uint64_t got;
  if (id >= 0 && !ep_is_near(a, lh_owner(id)))
    ok = ep_wait_call(a, lh_return_flag(a, c.number, token, c.lane), {EP_PHASE_COMBINE_WAIT, id, lh_owner(id)}, c.number, 0, &got);
  __syncwarp(); /* all lanes see what one lane has acquired */
  return __all_sync(EP_FULL_WARP, ok);
}

/* Sums tokens. It also empties the slots of rows from other hosts, because a later call may poll these slots for rows
 * from this host. */
static __device__ void lh_combine_wait(const EpArgs &a, const LlCall &c) {
  for (uint32_t u = ll_from_top(c); u < static_cast<uint32_t>(a.tokens) * LL_CHUNKS; u += ll_all_warps(c)) {
    const uint32_t token = u / LL_CHUNKS, at = token * EP_TOPK + c.lane;
    const int32_t id = c.lane < EP_TOPK ? ep_id(a, at) : -1;
    const float weight = c.lane < EP_TOPK ? a.weights[at] : 0.0f;
    if (!lh_await_far(a, c, token, id) || !ll_reduce(a, c, token, id, weight, ll_column(u % LL_CHUNKS, c.lane))) return;
  }
}

/* Sends rows back and sums the rows that arrive. It waits for the network last, because the caller may overwrite
 * the rows once the kernel has ended. */
template <bool sends, bool receives>
static __device__ void lh_combine(const EpArgs &a) {
  lh_run(a, [&](const LlCall &c) {
    if (sends && !lh_combine_send(a, c)) return;
    if (receives) lh_combine_wait(a, c);
    if (sends && LH_FAR_RANKS > 0) net_quiet();
  });
}
LH_ENTRIES(ll_hosts_combine, lh_combine)
