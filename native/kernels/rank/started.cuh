/* Start words of combine, for layouts rank and masked: which ranks have begun a call. */
#ifndef EP_RANK_STARTED_CUH
#define EP_RANK_STARTED_CUH

#include "rank/layout.cuh"

/* Tells all ranks that this rank began call `number`, and so has ended the call before. */
EP_DEVICE void rank_announce(const EpArgs &a, const RankCall &c) {
  if (c.block != 0 || c.warp != c.warps - 1 || c.lane >= EP_RANKS || !ep_alive(a, c.lane)) return;
  st_release_sys(rank_started(a, c.lane) + a.rank, c.number);
}

/* The last call that rank `lane` began, as far as this SM knows. The load has block scope,
 * so that all warps of a block but one find the word in L1. */
EP_LD_PTX(ld_relaxed_cta, "ld.relaxed.cta.global", EP_MO_RELAXED)
EP_DEVICE uint32_t rank_load_began(const EpArgs &a, const RankCall &c) {
  const uint32_t rank = c.lane < EP_RANKS ? c.lane : 0;
  return ep_alive(a, rank) ? ld_relaxed_cta(rank_started(a, a.rank) + rank) : c.number;
}

/* Waits until all ranks have begun the previous call. Return slots have two sets, by call
 * number, and so have the weights of layout masked. The slots and weights of this call were
 * last used two calls ago, and a rank that began the previous call no longer needs them. In
 * a steady state the words have arrived long before. */
EP_DEVICE bool rank_wait_started(const EpArgs &a, const RankCall &c) {
  const uint32_t before = ep_number_before(c.number);
  const uint32_t rank = c.lane < EP_RANKS ? c.lane : 0;
  const uint32_t *p = rank_started(a, a.rank) + rank;
  const bool lost = !ep_alive(a, rank);
  EpSpin spin;
  for (;;) {
    uint32_t began = ld_relaxed_sys(p);
    uint32_t missing = __ballot_sync(EP_FULL_WARP, !lost && !ep_reached(began, before));
    if (missing == 0) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_ASYNC, -1, __ffs(missing) - 1}, before, began)) return false;
  }
}

/* Does the work of rank_wait_started with words that were loaded before. Returns false if a
 * rank never began the previous call. */
EP_DEVICE bool rank_all_began(const EpArgs &a, const RankCall &c, uint32_t began) {
  return !__any_sync(EP_FULL_WARP, !ep_reached(began, ep_number_before(c.number))) || rank_wait_started(a, c);
}

#endif
