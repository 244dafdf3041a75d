/* Start words tell which combine call each rank has begun: word r on a rank holds the number of the last call that rank
 * r has begun. ep_started(a, owner) returns the address of the words on rank `owner`. The layout file of each kernel
 * family defines ep_started. */
#pragma once

#include "common/check.cuh"

EP_DEVICE uint32_t *ep_started(const EpArgs &a, int owner);

/* Tells all ranks that this rank began call `number`, and so has ended the call before. Only the last warp of
 * block `block` stores the words. */
template <class Call> EP_DEVICE void ep_announce(const EpArgs &a, const Call &c, uint32_t block) {
  if (c.block != block || c.warp != c.warps - 1 || c.lane >= EP_RANKS || !ep_alive(a, c.lane)) return;
  st_release_sys(ep_started(a, c.lane) + a.rank, c.number);
}

/* Loads the number of the last call that rank `lane` began. The load has block scope, so most warps of a block find the
 * word in L1. The number may be old. ep_all_began then loads it again from L2. */
EP_LD_PTX(ld_relaxed_cta, "ld.relaxed.cta.global", RELAXED)
template <class Call> EP_DEVICE uint32_t ep_load_began(const EpArgs &a, const Call &c) {
  if (!ep_alive(a, c.lane < EP_RANKS ? c.lane : 0)) return c.number;
  return ld_relaxed_cta(ep_started(a, a.rank) + (c.lane < EP_RANKS ? c.lane : 0));
}

/* Waits until all ranks have begun the previous call. There are two sets of return slots, and in layout masked two
 * sets of weights. Calls with even numbers use one set, calls with odd numbers the other. When a rank has begun call 7,
 * it has ended call 6, so the other ranks may overwrite the set of call 6 in call 8. No barrier between calls is
 * needed. */
template <class Call> EP_DEVICE bool ep_wait_started(const EpArgs &a, const Call &c) {
  const uint32_t before = ep_number_before(c.number);
  const uint32_t *p = ep_started(a, a.rank) + (c.lane < EP_RANKS ? c.lane : 0);
  const bool lost = !ep_alive(a, c.lane < EP_RANKS ? c.lane : 0);
  EpSpin spin;
  for (;;) {
    uint32_t began = ld_relaxed_sys(p);
    uint32_t missing = __ballot_sync(EP_FULL_WARP, !lost && !ep_reached(began, before));
    if (missing == 0) return true;
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_ASYNC, -1, __ffs(missing) - 1}, before, began)) return false;
  }
}

/* Does the work of ep_wait_started, with the number from ep_load_began. Returns false if a rank did not begin the
 * previous call before the deadline. */
template <class Call> EP_DEVICE bool ep_all_began(const EpArgs &a, const Call &c, uint32_t began) {
  return !__any_sync(EP_FULL_WARP, !ep_reached(began, ep_number_before(c.number))) || ep_wait_started(a, c);
}
