/* combine_masked is combine_ll for layout masked. This file replaces ll/layout.cuh and ll/route.cuh: it defines
 * functions of the same names, which use the memory of masked/layout.cuh.
 *
 * Each rank sums its rows of a token before it sends the sum, so it needs the weights of the tokens. In layout masked,
 * dispatch does not send the weights. So each rank sends its tokens' weights at the start of combine, while the first
 * rows load.
 *
 * The kernel reads routes from the output of a dispatch in layout masked, where they are stored behind src_info. The
 * caller may pass the output of any such dispatch on this rank. */
#define LL_MEMORY /* leaves out the memory of ll/ */
#include "common/ids.cuh"
#include "ll/call.cuh"
#include "masked/layout.cuh"

static const uint32_t LL_STEP = EP_UNIT_BYTES / LL_WARP_BYTES;

EP_DEVICE uint32_t ll_summing_blocks(const EpArgs &a) { return static_cast<uint32_t>(a.wait_sms); }

EP_DEVICE uint8_t *ll_return(const EpArgs &a, int owner, uint32_t call, uint32_t token, uint32_t slot) {
  uint64_t at = static_cast<uint64_t>(call & 1) * a.max_tokens + token;
  return ep_at(a, owner, RANK_RETURN) + (at * MASKED_RETURN_SLOTS + slot) * (2 * EP_HIDDEN);
}
EP_DEVICE uint32_t ll_places(const EpArgs &a, uint32_t source) {
  if (!ep_alive(a, source)) return 0; /* the rank may have been lost after the dispatch */
  uint32_t messages = static_cast<uint32_t>(masked_messages(a)[source]);
  return messages <= static_cast<uint32_t>(a.max_tokens) ? messages : 0;
}

/* The route of a message. Lane k has in `word` the row of top-k position k, or LL_NOWHERE. ll_route_at only begins the
 * loads. ll_checked_route waits for them, so a sender calls it when it needs the route. */
struct LlRoute {
  uint64_t word;
  uint32_t token;
};
EP_DEVICE LlRoute ll_route_at(const EpArgs &a, const LlCall &c, uint32_t source, uint32_t place, bool exists) {
  const int32_t *route = masked_route(a, source, place);
  LlRoute r = {LL_NOWHERE, 0};
  if (exists) r.token = static_cast<uint32_t>(route[0]);
  if (exists && c.lane < EP_TOPK) r.word = static_cast<uint32_t>(route[1 + c.lane]);
  return r;
}
/* Replaces rows and tokens outside the buffers, which a broken dispatch may write. */
EP_DEVICE LlRoute ll_checked_route(const EpArgs &a, const LlRoute &r) {
  const int32_t row = static_cast<int32_t>(r.word);
  const bool known = r.token < static_cast<uint32_t>(a.max_tokens);
  return {known && row >= 0 && row < a.max_rows ? static_cast<uint32_t>(row) : LL_NOWHERE, known ? r.token : 0};
}
EP_DEVICE uint32_t ll_row(const LlRoute &r) { return static_cast<uint32_t>(r.word); }
EP_DEVICE uint32_t ll_token_of(const LlRoute &r, uint32_t) { return r.token; }

/* Finds the route of one of this rank's tokens. Routes are sorted by token, and tokens without an expert on this rank
 * have none. So the function guesses the place of the route in proportion to the token's index. It reads the 32
 * places around this guess, then the next 32 before or after them. */
EP_DEVICE LlRoute ll_own_route(const EpArgs &a, const LlCall &c, uint32_t token) {
  const uint32_t messages = ll_places(a, a.rank), tokens = static_cast<uint32_t>(a.tokens);
  const uint32_t guess = static_cast<uint32_t>(static_cast<uint64_t>(token) * messages / tokens);
  uint32_t first = guess > 16 ? guess - 16 : 0;
  for (uint32_t tries = 0; tries <= messages / 32 + 1; tries++) {
    uint32_t place = first + c.lane;
    uint32_t at = place < messages ? static_cast<uint32_t>(masked_route(a, a.rank, place)[0]) : ~0u;
    uint32_t found = __ballot_sync(EP_FULL_WARP, at == token), before = __ballot_sync(EP_FULL_WARP, at < token);
    if (found != 0) return ll_checked_route(a, ll_route_at(a, c, a.rank, first + __ffs(found) - 1, true));
    if (before == EP_FULL_WARP) {
      first += 32;
    } else if (before == 0 && first > 0) {
      first = first > 32 ? first - 32 : 0;
    } else {
      break;
    }
  }
  return {LL_NOWHERE, 0};
}

static const bool LL_LATE_WEIGHTS = true;

/* Sends each weight of this rank's tokens to the rank of its expert. With LL_PEERS it sends none to this rank.
 * `senders` warps of each sending block call it. */
EP_DEVICE void ll_send_weights(const EpArgs &a, const LlCall &c, uint32_t senders) {
  uint32_t all = static_cast<uint32_t>(a.tokens) * EP_TOPK, step = c.blocks * senders * 32;
  for (uint32_t j = ll_from_bottom(c) * 32 + c.lane; j < all; j += step) {
    int32_t id = ep_id(a, j);
    if (id < 0 || (LL_PEERS && id / EP_LOCAL_EXPERTS == a.rank)) continue;
    uint64_t word = static_cast<uint64_t>(c.number) << 32 | __float_as_uint(a.weights[j]);
    st_relaxed_sys(masked_weight(a, id / EP_LOCAL_EXPERTS, c.number, a.rank, j / EP_TOPK) + j % EP_TOPK, word);
  }
}

EP_DEVICE bool ll_wait_weight(const EpArgs &a, const LlCall &c, const LlReturn &r, uint64_t *word) {
  const uint64_t *p = masked_weight(a, a.rank, c.number, r.source, r.token) + (c.lane < EP_TOPK ? c.lane : 0);
  const bool none = static_cast<uint32_t>(*word) == LL_NOWHERE;
  EpSpin spin;
  for (;;) {
    uint64_t v = ld_relaxed_sys(p);
    if (__all_sync(EP_FULL_WARP, none || v >> 32 == c.number)) {
      *word |= v << 32;
      return true;
    }
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_ASYNC, -1, static_cast<int32_t>(r.source)}, c.number, v >> 32)) return false;
  }
}

EP_DEVICE void ll_weigh_own(const EpArgs &a, LlRoute &r, uint32_t at) {
  if (ll_row(r) != LL_NOWHERE) r.word |= static_cast<uint64_t>(__float_as_uint(a.weights[at])) << 32;
}

#define combine_ll combine_masked /* the entry's name */
#include "ll/combine.cuh"
