/* combine_hosts with arrival=data does over hosts what combine_ll with algo direct does. Every row is sent back to
 * its own slot at the token's rank, and the rows are summed there in top-k order. The kernel reads the route that
 * dispatch_hosts with arrival=data wrote. A call may follow another without a dispatch between them. There is one
 * kernel (ll_hosts_combine), or one for each half (ll_hosts_combine_async, ll_hosts_combine_wait). */
#include "hosts/ll_layout.cuh"

static const uint32_t LH_CHUNKS = (LH_ROW + LL_WARP_BYTES - 1) / LL_WARP_BYTES; /* number of chunks of a row */
static const uint32_t LH_TOGETHER = 4; /* number of rows that a sender loads together */
static const uint32_t LH_BATCH = EP_TOPK < 8 ? EP_TOPK : 8; /* number of rows that a receiver polls together */
static const uint32_t LH_FAR_RANKS = EP_RANKS - EP_PER_NODE;

/* Returns the byte offset in a row of this lane's vector of a chunk. */
EP_DEVICE uint32_t lh_column(uint32_t chunk) { return chunk * LL_WARP_BYTES + lane_id() * 16; }
EP_DEVICE bool lh_in_row(uint32_t column) { return LH_ROW % LL_WARP_BYTES == 0 || column < LH_ROW; }

/* ---- sending ---- */

/* Tells every rank that this rank began a call, and so has ended the call before. Then it waits until every rank has
 * begun the previous call. A rank that has begun the previous call has emptied the slots that this call fills.
 * Usually the words arrived long before. */
static __device__ bool lh_begin(const EpArgs &a, const LlCall &c) {
  if (c.block == 0)
    for (int32_t rank = static_cast<int32_t>(threadIdx.x); rank < EP_RANKS; rank += static_cast<int32_t>(blockDim.x))
      ep_signal(a, rank, lh_started(a, c.number, a.rank), c.number);
  const uint32_t before = ep_number_before(c.number);
  bool ok = true;
  uint64_t got;
  for (int32_t rank = static_cast<int32_t>(threadIdx.x); rank < EP_RANKS; rank += static_cast<int32_t>(blockDim.x)) {
    const uint64_t *now = ep_own_word(a, lh_started(a, c.number, rank)); /* the rank's word for this call; a rank that has begun this call began the previous one too */
    ok = ok && ep_wait_for(a, lh_started(a, before, rank), {EP_PHASE_COMBINE_ASYNC, -1, rank}, before, &got, [before, now](uint64_t v) {
           return ep_reached(static_cast<uint32_t>(v), before) || ep_reached(static_cast<uint32_t>(ld_relaxed_sys(now)), before);
         });
  }
  if (__syncthreads_or(!ok)) return false;
  ep_span_stage(a, EP_STAGE_READY);
  return true;
}

/* One unit of sending, for a message of dispatch whose rows are sent back. To another host a unit is all rows of the
 * message; inside the host it is one chunk of each row. Consecutive units go to different ranks, and each rank begins
 * with the rank after itself. */
struct LhReturn {
  uint32_t source, message, chunk;
};
EP_DEVICE LhReturn lh_far_unit(const EpArgs &a, uint32_t unit) {
  const uint32_t ranks = LH_FAR_RANKS > 0 ? LH_FAR_RANKS : 1, place = static_cast<uint32_t>(a.rank % EP_PER_NODE);
  const uint32_t next_host = static_cast<uint32_t>((ep_node_of(a.rank) + 1) * EP_PER_NODE);
  return {(next_host + (place + unit) % ranks) % EP_RANKS, unit / ranks, 0};
}
EP_DEVICE LhReturn lh_near_unit(const EpArgs &a, uint32_t unit) {
  const uint32_t place = (static_cast<uint32_t>(a.rank) + 1 + unit) % EP_PER_NODE;
  return {static_cast<uint32_t>(ep_node_of(a.rank) * EP_PER_NODE) + place, unit / EP_PER_NODE / LH_CHUNKS, unit / EP_PER_NODE % LH_CHUNKS};
}

/* Returns in lane k the row of top-k position k, or LL_NOWHERE if this rank does not have it; in lane EP_TOPK the
 * token. */
EP_DEVICE uint32_t lh_rows_of(const EpArgs &a, const LhReturn &r) {
  return lane_id() < LH_HEAD ? static_cast<uint32_t>(lh_route(a, r.source, r.message)[lane_id()]) : LL_NOWHERE;
}
EP_DEVICE uint32_t lh_here(uint32_t rows) { return __ballot_sync(EP_FULL_WARP, lane_id() < EP_TOPK && rows != LL_NOWHERE); }

EP_DEVICE void lh_put_rows(const EpArgs &a, const LlCall &c, const LhReturn &r) {
  const uint32_t rows = lh_rows_of(a, r), token = __shfl_sync(EP_FULL_WARP, rows, EP_TOPK);
  for (uint32_t left = lh_here(rows); left != 0; left &= left - 1) {
    const uint32_t k = __ffs(left) - 1;
    const uint64_t row = __shfl_sync(EP_FULL_WARP, rows, k);
    net_put(ep_own_heap(a) + lh_return(a, c.number, token, k), a.y + row * EP_HIDDEN, LH_ROW,
            ep_own_word(a, lh_return_flag(a, c.number, token, k)), c.number, EP_NET_SET, static_cast<int32_t>(r.source));
  }
}

/* Sends a chunk of each row of a message inside the host. There is no branch between the loads. */
EP_DEVICE void lh_store_rows(const EpArgs &a, const LlCall &c, const LhReturn &r) {
  const uint32_t rows = lh_rows_of(a, r), token = __shfl_sync(EP_FULL_WARP, rows, EP_TOPK), column = lh_column(r.chunk);
  const bool inside = lh_in_row(column);
  const uint8_t *y = reinterpret_cast<const uint8_t *>(a.y) + (inside ? column : 0);
  uint8_t *peer = ep_peer_heap(a, static_cast<int32_t>(r.source)) + column;
  for (uint32_t left = lh_here(rows); left != 0;) {
    uint4 data[LH_TOGETHER];
    uint32_t k[LH_TOGETHER], some = left;
#pragma unroll
    for (uint32_t i = 0; i < LH_TOGETHER; i++) {
      k[i] = left != 0 ? __ffs(left) - 1 : EP_TOPK;
      const uint64_t row = __shfl_sync(EP_FULL_WARP, rows, __ffs(left != 0 ? left : some) - 1);
      data[i] = ld_readonly(reinterpret_cast<const uint4 *>(y + row * LH_ROW));
      left &= left - 1;
    }
#pragma unroll
    for (uint32_t i = 0; i < LH_TOGETHER; i++)
      if (k[i] < EP_TOPK && inside) st_relaxed_sys(reinterpret_cast<uint4 *>(peer + lh_return(a, c.number, token, k[i])), ep_canonical(data[i]));
  }
}

/* Returns the largest number of messages from one rank: of the ranks of this host, or of other hosts. */
EP_DEVICE uint32_t lh_most_messages(const EpArgs &a, bool near) {
  uint32_t most = 0;
  for (uint32_t s = lane_id(); s < EP_RANKS; s += 32)
    if (ep_is_near(a, static_cast<int32_t>(s)) == near) most = max(most, lh_messages(a)[s]);
  return __reduce_max_sync(EP_FULL_WARP, most);
}

/* Sends all units of this warp, units for other hosts first. */
static __device__ bool lh_combine_send(const EpArgs &a, const LlCall &c) {
  ep_drill_delay(a);
  if (!lh_begin(a, c)) return false;
  const uint32_t far = lh_most_messages(a, false) * LH_FAR_RANKS, near = lh_most_messages(a, true) * LH_CHUNKS * EP_PER_NODE;
  for (uint32_t unit = ll_from_bottom(c); unit < far + near; unit += ll_all_warps(c)) {
    const LhReturn r = unit < far ? lh_far_unit(a, unit) : lh_near_unit(a, unit - far);
    if (r.message >= lh_messages(a)[r.source]) continue;
    if (unit < far) {
      lh_put_rows(a, c, r);
    } else {
      lh_store_rows(a, c, r);
    }
  }
  ep_span_stage(a, EP_STAGE_SENT);
  return true;
}

/* ---- receiving ---- */

/* The slots of a token from top-k position `first` on, at one column. */
struct LhBatch {
  uint8_t *places;           /* address of slot `first` */
  uint32_t first, used, near; /* bit i of used: slot first + i gets a row; bit i of near: the row is sent by stores */
};
EP_DEVICE uint4 *lh_term(const LhBatch &b, uint32_t i) {
  const bool exists = EP_TOPK % LH_BATCH == 0 || b.first + i < EP_TOPK; /* the last batch may be short */
  return reinterpret_cast<uint4 *>(b.places + (exists ? i : 0) * LH_ROW);
}

/* Waits until the rows of other hosts have arrived; one lane waits for each row. */
EP_DEVICE bool lh_await_far(const EpArgs &a, const LlCall &c, uint32_t token, int32_t id) {
  bool ok = true;
  uint64_t got;
  if (id >= 0 && !ep_is_near(a, lh_owner(id)))
    ok = ep_wait_call(a, lh_return_flag(a, c.number, token, c.lane), {EP_PHASE_COMBINE_WAIT, id, lh_owner(id)}, c.number, 0, &got);
  __syncwarp(); /* what one lane has acquired is visible to all */
  return __all_sync(EP_FULL_WARP, ok);
}

/* Polls the slots of a batch together until all rows of near ranks have arrived. It also reads slots that are not
 * used, so that there is no branch between the loads. */
EP_DEVICE bool lh_await_batch(const EpArgs &a, const LhBatch &b, int32_t id, uint4 (&data)[LH_BATCH]) {
  EpSpin spin;
  for (;;) {
    uint32_t lacks = 0;
#pragma unroll
    for (uint32_t i = 0; i < LH_BATCH; i++) data[i] = ld_relaxed_sys(lh_term(b, i));
#pragma unroll
    for (uint32_t i = 0; i < LH_BATCH; i++) lacks |= static_cast<uint32_t>(ep_largest(data[i]) == EP_SENTINEL) << i;
    lacks = __reduce_or_sync(EP_FULL_WARP, lacks & b.near);
    if (lacks == 0) return true;
    const int32_t expert = __shfl_sync(EP_FULL_WARP, id, b.first + __ffs(lacks) - 1);
    if (!ep_again_warp(spin, a, {EP_PHASE_COMBINE_WAIT, expert, lh_owner(expert)}, 0, lacks)) return false;
  }
}

/* Sums one chunk of one token. It waits for the token's rows, adds them in top-k order, and empties all their slots.
 * It also empties the slots of far rows, because in a later call the row may come from a near rank and is then
 * polled. */
EP_DEVICE bool lh_sum_unit(const EpArgs &a, const LlCall &c, uint32_t unit) {
  const uint32_t token = unit / LH_CHUNKS, column = lh_column(unit % LH_CHUNKS), at = token * EP_TOPK + c.lane;
  const int32_t id = c.lane < EP_TOPK ? a.topk_ids[at] : -1;
  const float weight = c.lane < EP_TOPK ? a.weights[at] : 0.0f;
  if (!lh_await_far(a, c, token, id)) return false;
  const uint32_t used = __ballot_sync(EP_FULL_WARP, id >= 0), near = __ballot_sync(EP_FULL_WARP, id >= 0 && ep_is_near(a, lh_owner(id)));
  const bool inside = lh_in_row(column);
  float acc[8] = {};
  for (uint32_t first = 0; first < EP_TOPK; first += LH_BATCH) {
    const LhBatch b = {ep_own_heap(a) + lh_return(a, c.number, token, first) + (inside ? column : 0), first, used >> first, inside ? near >> first : 0};
    uint4 data[LH_BATCH];
    if (!lh_await_batch(a, b, id, data)) return false;
    ep_span_stage(a, EP_STAGE_ARRIVED);
#pragma unroll
    for (uint32_t i = 0; i < LH_BATCH; i++) {
      if (!(b.used >> i & 1u)) continue;
      bf16_accumulate(acc, data[i], __shfl_sync(EP_FULL_WARP, weight, first + i));
      if (inside) st_relaxed_sys(lh_term(b, i), ep_sentinels());
    }
  }
  uint8_t *out = reinterpret_cast<uint8_t *>(a.combined + static_cast<uint64_t>(token) * EP_HIDDEN);
  if (inside) *reinterpret_cast<uint4 *>(out + column) = bf16_pack(acc);
  return true;
}

static __device__ void lh_combine_wait(const EpArgs &a, const LlCall &c) {
  for (uint32_t u = ll_from_top(c); u < static_cast<uint32_t>(a.tokens) * LH_CHUNKS; u += ll_all_warps(c))
    if (!lh_sum_unit(a, c, u)) return;
}

EP_ENTRY(EP_THREADS, 1) ll_hosts_combine_async(const __grid_constant__ EpArgs a) {
  lh_run(a, [&](const LlCall &c) {
    if (lh_combine_send(a, c) && LH_FAR_RANKS > 0) net_quiet();
  });
}

EP_ENTRY(EP_THREADS, 1) ll_hosts_combine_wait(const __grid_constant__ EpArgs a) {
  lh_run(a, [&](const LlCall &c) { lh_combine_wait(a, c); });
}

/* Sends rows back and sums the rows that arrive. The caller may overwrite the rows once the kernel has ended. So the
 * kernel waits for the network, but only after the sums, when most rows have been sent. */
EP_ENTRY(EP_THREADS, 1) ll_hosts_combine(const __grid_constant__ EpArgs a) {
  lh_run(a, [&](const LlCall &c) {
    if (lh_combine_send(a, c)) {
      lh_combine_wait(a, c);
      if (LH_FAR_RANKS > 0) net_quiet();
    }
  });
}
