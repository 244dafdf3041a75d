/* Functions by which dispatch_ll_ids sends data, and headers with ids and weights. */
#pragma once

#include "ll/dispatch_counts.cuh"

static const uint32_t LL_HEADS_TOKEN = EP_RANKS * EP_TOPK;

/* Sends every rank the number of this rank's tokens. A test may set a.drop_signal to an expert's number plus 1. Then
 * that expert's rank receives no number. */
EP_DEVICE void ll_send_tokens(const EpArgs &a, const LlCall &c) {
  if (c.block != c.blocks - 1 || c.warp != c.warps - 1 || c.lane >= EP_RANKS) return;
  if (!ep_alive(a, c.lane)) return;
  if (a.drop_signal > 0 && (a.drop_signal - 1) / EP_LOCAL_EXPERTS == static_cast<int32_t>(c.lane)) return;
  st_relaxed_sys(ll_counts(a, c.lane, c.number, a.rank) + EP_LOCAL_EXPERTS,
                 static_cast<uint64_t>(c.number) << 32 | static_cast<uint32_t>(a.tokens));
}

/* Sends a token's header to all ranks. `first` holds the id and weight of header word `c.lane`. */
EP_DEVICE void ll_send_ids(const EpArgs &a, const LlCall &c, uint32_t token, LlHead first) {
  for (uint32_t i = c.lane; i < LL_HEADS_TOKEN; i += 32) {
    LlHead h = i == c.lane ? first : ll_load_head(a, token, i);
    int32_t to = static_cast<int32_t>((static_cast<uint32_t>(a.rank) + 1 + i / EP_TOPK) % EP_RANKS);
    if (!ep_alive(a, to)) continue;
    uint32_t place = static_cast<uint32_t>(h.id % EP_LOCAL_EXPERTS) << LL_PLACE_BITS;
    bool there = ep_is_expert(h.id) && h.id / EP_LOCAL_EXPERTS == to;
    uint64_t word = static_cast<uint64_t>(h.weight) << 32 | (there ? place : LL_NOWHERE);
    st_relaxed_sys(ll_header(a, to, c.number, a.rank, token) + i % EP_TOPK, word);
  }
}

/* Sends headers (the last warps of a block) and data (the first warps). */
EP_DEVICE void ll_ids_async(const EpArgs &a, const LlCall &c, uint32_t senders, LlAhead ahead) {
  uint32_t tokens = static_cast<uint32_t>(a.tokens), units = tokens * LL_UNITS, step = senders * c.blocks;
  ll_send_tokens(a, c);
  for (uint32_t t = ll_from_top(c); t < tokens; t += ll_all_warps(c)) {
    if (t != ll_from_top(c)) ahead.head = ll_load_head(a, t, c.lane);
    ll_send_ids(a, c, t, ahead.head);
  }
  if (c.warp >= senders) return;
  for (uint32_t u = ll_from_bottom(c); u < units; u += step) {
    LlUnit unit = ahead.unit;
    if (u + step < units) ahead.unit = ll_load_unit(a, c, u + step);
    ll_send_unit(a, c, u, unit);
  }
}
