/* Start words of combine: which ranks have begun a call. ep_started(a, owner) of the kernels' layout has the
 * words of a rank.
 */
#ifndef EP_STARTED_CUH
#define EP_STARTED_CUH

#include "common/check.cuh"

EP_DEVICE uint32_t *ep_started(const EpArgs &a, int owner);

/* Tells all ranks that this rank began call `number`, and so has ended the call before. The last warp of the
 * announcing block does it. */
template <class Call> EP_DEVICE void ep_announce(const EpArgs &a, const Call &c, uint32_t block) {
  if (c.block != block || c.warp != c.warps - 1 || c.lane >= EP_RANKS || !ep_alive(a, c.lane)) return;
  st_release_sys(ep_started(a, c.lane) + a.rank, c.number);
}

/* The last call that rank `lane` began, as far as this SM knows. The load has block scope, so that all warps
 * of a block but one find the word in L1. */
EP_LD_PTX(ld_relaxed_cta, "ld.relaxed.cta.global", EP_MO_RELAXED)
template <class Call> EP_DEVICE uint32_t ep_load_began(const EpArgs &a, const Call &c) {
  if (!ep_alive(a, c.lane < EP_RANKS ? c.lane : 0)) return c.number;
  return ld_relaxed_cta(ep_started(a, a.rank) + (c.lane < EP_RANKS ? c.lane : 0));
}

/* Waits until all ranks have begun the previous call. Return slots have two sets, by call number, and so have
 * the weights of layout masked. Those of this call were last used two calls ago, and a rank that began the
 * previous call no longer needs them. In a steady state the words have arrived long before, so that waiting
 * costs a warp one more load, and saves a barrier between calls. */
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

/* Does the work of ep_wait_started with words that were loaded before. Returns false if a rank never began
 * the previous call. The loads of ep_wait_started bypass L1: 2,000 warps would ask L2 for one line at once. */
template <class Call> EP_DEVICE bool ep_all_began(const EpArgs &a, const Call &c, uint32_t began) {
  return !__any_sync(EP_FULL_WARP, !ep_reached(began, ep_number_before(c.number))) || ep_wait_started(a, c);
}

#endif
