/* The route of a token: the weight and the row of each top-k position. Dispatch writes the routes for combine. Lane k
 * of a warp has the word of position k. This file is for the layout named expert. masked/combine.cuh defines the same
 * names for the layout named masked. */
#pragma once

#include "common/ids.cuh"
#include "ll/call.cuh"

static const uint32_t LL_STEP = 1;

/* Returns the number of blocks that sum rows but send none. With 0, every block sends and then sums. */
EP_DEVICE uint32_t ll_summing_blocks(const EpArgs &) { return 0; }

struct LlRoute {
  uint64_t word;
};

EP_DEVICE uint32_t ll_row(const LlRoute &r) { return static_cast<uint32_t>(r.word); }

#ifndef LL_HOSTS /* hosts/combine_ll.cuh defines these functions for messages between hosts */
EP_DEVICE LlRoute ll_route_at(const EpArgs &a, const LlCall &c, uint32_t source, uint32_t place, bool exists) {
  return {c.lane < EP_TOPK && exists ? ll_route(a, source, place)[c.lane] : LL_NOWHERE};
}

EP_DEVICE LlRoute ll_own_route(const EpArgs &a, const LlCall &c, uint32_t token) { return ll_route_at(a, c, a.rank, token, true); }

EP_DEVICE LlRoute ll_checked_route(const EpArgs &, const LlRoute &r) { return r; }

EP_DEVICE uint32_t ll_token_of(const LlRoute &, uint32_t place) { return place; }

EP_DEVICE uint32_t ll_places(const EpArgs &a, uint32_t source) { return ll_tokens(a)[source]; }
#endif

static const bool LL_LATE_WEIGHTS = false;
EP_DEVICE void ll_send_weights(const EpArgs &, const LlCall &, uint32_t) {}
EP_DEVICE bool ll_wait_weight(const EpArgs &, const LlCall &, const LlReturn &, uint64_t *) { return true; }
EP_DEVICE void ll_weigh_own(const EpArgs &, LlRoute &, uint32_t) {}
