/* dispatch_final_home: dispatch_final where a sender stores all rows that its token has
 * on this rank itself. Receivers copy rows of other ranks' tokens only, so that a token
 * of this rank is not read again, and has no header to wait for. On 2 ranks that is
 * half of what arrives.
 */
#define EP_DIRECT 0
#include "final/dispatch.cuh"

static const uint32_t FIN_PEERS = EP_RANKS > 1 ? EP_RANKS - 1 : 1;
static const uint32_t FIN_THREAD_EXPERTS = (EP_EXPERTS + EP_THREADS - 1) / EP_THREADS;

struct FinHomeShared {
  FinShared s;
  uint8_t *to[EP_THREADS / 32][EP_TOPK]; /* where a warp's token goes */
};

/* ---- sending ---- */

/* The last sending block counts all ids of this rank at once and sends the counts. Only
 * then it counts its own, which all others do first. */
EP_DEVICE void fin_count_all(const EpArgs &a, const FinCall &c, FinShared &s) {
  uint32_t end = static_cast<uint32_t>(a.tokens) * EP_TOPK, rows[FIN_THREAD_EXPERTS];
  for (uint32_t e = threadIdx.x; e < EP_EXPERTS; e += blockDim.x) s.base[e] = s.start[e] = 0;
  __syncthreads();
  for (uint32_t j = threadIdx.x; j < end; j += blockDim.x * EP_IDS) {
    EpIds ids = ep_load_ids(a, j, blockDim.x, end);
#pragma unroll
    for (uint32_t i = 0; i < EP_IDS; i++)
      if (ids.id[i] >= 0) atomicAdd(&s.base[ids.id[i]], 1u);
  }
  __syncthreads();
  fin_signal(a, c, s);
#pragma unroll
  for (uint32_t i = 0; i < FIN_THREAD_EXPERTS; i++) {
    uint32_t e = threadIdx.x + i * blockDim.x;
    rows[i] = e < EP_EXPERTS ? s.base[e] : 0;
  }
  __syncthreads();
  fin_count(a, c, s);
  __syncthreads();
#pragma unroll
  for (uint32_t i = 0; i < FIN_THREAD_EXPERTS; i++) {
    uint32_t e = threadIdx.x + i * blockDim.x;
    if (e < EP_EXPERTS) s.base[e] = rows[i] - s.start[e];
  }
  __syncthreads();
}

/* What fin_complete does for a message that came: scales, origin and source of each row
 * here, and the token's route. */
EP_DEVICE void fin_complete_home(const EpArgs &a, const FinCall &c, uint32_t token, uint64_t word, uint32_t here, uint4 scales) {
  uint32_t row = static_cast<uint32_t>(word), self = static_cast<uint32_t>(a.rank);
  bool mine = (here >> c.lane & 1u) != 0, carries = FIN_GROUPS > 0 && c.lane < FIN_SCALE_BYTES / 16;
  if (FIN_TILES && mine) fin_note_origin(a, {self, token, true}, row);
  if (FIN_TILES && carries && here != 0) reinterpret_cast<uint4 *>(fin_scales(a, a.rank, a.rank, token))[c.lane] = scales;
  const uint32_t bits[4] = {scales.x, scales.y, scales.z, scales.w};
  for (uint32_t left = FIN_TILES || FIN_GROUPS == 0 ? 0 : here; left != 0; left &= left - 1) {
    uint32_t *out = reinterpret_cast<uint32_t *>(a.out_scales) + __shfl_sync(EP_FULL_WARP, row, __ffs(left) - 1);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
      if (carries && 4 * c.lane + i < FIN_GROUPS) out[(4 * c.lane + i) * a.max_rows] = bits[i];
  }
  if (mine) {
    a.src_info[2 * static_cast<uint64_t>(row)] = static_cast<int32_t>(token);
    a.src_info[2 * static_cast<uint64_t>(row) + 1] = static_cast<int32_t>(c.lane);
  }
  if (c.lane < EP_TOPK) fin_words(a, a.rank, FIN_ROUTE, a.rank, token)[c.lane] = word;
}

/* One token by one warp: payload to all its rows here and to one on each other rank,
 * scales beside, then one fence and the headers of the other ranks. */
EP_DEVICE void fin_send_home(const EpArgs &a, const FinCall &c, FinHomeShared &h, uint32_t token) {
  uint32_t at = token * EP_TOPK + c.lane, row = 0;
  int32_t id = c.lane < EP_TOPK ? a.topk_ids[at] : -1;
  uint64_t weight = c.lane < EP_TOPK ? __float_as_uint(a.weights[at]) : 0;
  int32_t owner = id < 0 ? -1 : id / EP_LOCAL_EXPERTS;
  if (id >= 0) row = h.s.base[id] + fin_places(a)[at];
  uint32_t below = (1u << c.lane) - 1, here = __ballot_sync(EP_FULL_WARP, owner == a.rank);
  bool first = (__match_any_sync(EP_FULL_WARP, owner) & below) == 0;
  uint32_t sent = __ballot_sync(EP_FULL_WARP, id >= 0 && (owner == a.rank || first));
  uint32_t others = __reduce_or_sync(EP_FULL_WARP, id < 0 || owner == a.rank ? 0u : 1u << owner);
  uint8_t **to = h.to[c.warp];
  if (sent >> c.lane & 1u)
    to[__popc(sent & below)] = a.heap[owner] + (a.out - a.heap[a.rank]) + static_cast<uint64_t>(row) * FIN_PAYLOAD;
  __syncwarp();
  uint4 scales = fin_send_payload(a, c, token, to, __popc(sent));
  for (int r = 0; r < EP_RANKS; r++)
    if (FIN_GROUPS > 0 && (others >> r & 1u) && c.lane < FIN_SCALE_BYTES / 16)
      st_relaxed_sys(reinterpret_cast<uint4 *>(fin_scales(a, r, a.rank, token)) + c.lane, scales);
  __syncwarp();
  fence_acq_rel_sys();
  for (int r = 0; r < EP_RANKS; r++)
    if (r != a.rank && c.lane < EP_TOPK)
      st_relaxed_sys(fin_words(a, r, FIN_HEADERS, a.rank, token) + c.lane, weight << 32 | (owner == r ? row : FIN_NOWHERE));
  fin_complete_home(a, c, token, weight << 32 | (owner == a.rank ? row : FIN_NOWHERE), here, scales);
}

EP_DEVICE void fin_home_async(const EpArgs &a, const FinCall &c, FinHomeShared &h) {
  if (c.block == c.senders - 1) {
    fin_count_all(a, c, h.s);
  } else {
    fin_count(a, c, h.s);
    fin_count_before(a, c, h.s);
  }
  fin_place(a, c, h.s);
  fin_wait_counts(a, c, h.s);
  if (h.s.failed) return;
  ep_span_stage(a, EP_STAGE_READY);
  FinRun run = fin_block_tokens(a, c);
  for (uint32_t t = run.begin + c.warp; t < run.end; t += c.warps) fin_send_home(a, c, h, t);
  ep_span_stage(a, EP_STAGE_SENT);
}

/* ---- receiving ---- */

/* Message i of other ranks, in the order of fin_message. */
EP_DEVICE FinMessage fin_peer_message(const EpArgs &a, const FinCall &c, const FinShared &s, uint32_t i) {
  FinMessage m;
  m.source = (static_cast<uint32_t>(a.rank) + 1 + i % FIN_PEERS) % EP_RANKS;
  uint32_t turn = i / FIN_PEERS / c.senders, block = i / FIN_PEERS % c.senders;
  uint32_t each = ceil_div(s.tokens[m.source], c.senders);
  m.token = block * each + turn;
  m.exists = turn < each && m.token < s.tokens[m.source];
  return m;
}

/* Each lane polls the header of another message, as in fin_dispatch_wait. */
EP_DEVICE void fin_home_wait(const EpArgs &a, const FinCall &c, const FinShared &s) {
  uint32_t step = fin_receiving_warps(c), all = EP_RANKS > 1 ? fin_messages(c, s) / EP_RANKS * FIN_PEERS : 0;
  uint32_t i = fin_receiver(c) + c.lane * step;
  EpSpin spin;
  for (;;) {
    FinMessage m = fin_peer_message(a, c, s, i);
    while (i < all && !m.exists) m = fin_peer_message(a, c, s, i += 32 * step);
    bool pending = i < all, there = false;
    if (pending) there = ld_acquire_sys(fin_words(a, a.rank, FIN_HEADERS, m.source, m.token)) != FIN_EMPTY;
    uint32_t ready = __ballot_sync(EP_FULL_WARP, there), waiting = __ballot_sync(EP_FULL_WARP, pending);
    if (waiting == 0) return;
    if (ready == 0) {
      int32_t source = static_cast<int32_t>(__shfl_sync(EP_FULL_WARP, m.source, __ffs(waiting) - 1));
      if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, source}, waiting, 0)) return;
      continue;
    }
    __syncwarp(); /* what one lane acquired, all may read */
    spin = EpSpin();
    for (uint32_t left = ready; left != 0; left &= left - 1) {
      int lane = __ffs(left) - 1;
      FinMessage one = {__shfl_sync(EP_FULL_WARP, m.source, lane), __shfl_sync(EP_FULL_WARP, m.token, lane), true};
      if (!fin_complete(a, c, one)) return;
    }
    if (there) i += 32 * step;
  }
}

/* Waits until all blocks have placed their rows. A block that only sends says so and
 * does not wait. */
EP_DEVICE void fin_home_meet(const EpArgs &a, const FinCall &c, FinShared &s) {
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t blocks = c.senders + c.receivers, seen;
    EpSpin spin;
    fence_acq_rel_gpu();
    add_relaxed_gpu(fin_met(a, c.number), 1u);
    while (fin_receives(c) && (seen = ld_relaxed_gpu(fin_met(a, c.number))) != blocks)
      if (!spin.again(a, {EP_PHASE_DISPATCH_WAIT, -1, -1}, blocks, seen)) {
        s.failed = 1;
        break;
      }
    fence_acq_rel_gpu();
  }
  __syncthreads();
}

EP_ENTRY(EP_THREADS, 1) dispatch_final_home(const __grid_constant__ EpArgs a) {
  __shared__ FinHomeShared h;
  FinShared &s = h.s;
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  FinCall c = fin_call(a);
  if (threadIdx.x == 0) {
    s.failed = s.rows = 0;
    if (c.block == 0) *fin_met(a, c.number + 1) = 0;
  }
  __syncthreads();
  if (fin_sends(c)) {
    fin_home_async(a, c, h);
  } else {
    fin_wait_tokens(a, c, s);
  }
  EP_NUMBER_DONE(a, c.number);
  if (fin_receives(c) && !s.failed) fin_home_wait(a, c, s);
  if (FIN_TILES && !s.failed) {
    fin_home_meet(a, c, s);
    if (fin_receives(c) && !s.failed) fin_place_tiles(a, c, s);
  }
  ep_span_end(a);
}
