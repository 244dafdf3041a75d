/* dispatch_hosts with arrival=data works like dispatch_ll, but over several hosts. ll_layout.cuh describes the
 * protocol. EP_PART_BYTES: message bytes that a receiving or forwarding warp handles at a time (a part). */
#include "hosts/dispatch_ll_send.cuh"
#include "ll/offsets.cuh"

static const uint32_t LH_PART = EP_PART_BYTES / LL_WARP_BYTES;
static const uint32_t LH_PARTS = (EP_VECTORS + 32 * LH_PART - 1) / (32 * LH_PART);

struct LhArrived {
  uint32_t rows[EP_RANKS][EP_LOCAL_EXPERTS];
  uint32_t messages[EP_RANKS];
  uint32_t relayed[EP_RANKS]; /* by source: its messages that a rank of this host forwards */
};

EP_DEVICE uint32_t *lh_arrived(LhArrived &s, uint32_t source, uint32_t word) {
  if (word < EP_LOCAL_EXPERTS) return &s.rows[source][word];
  return word < LL_COUNT_WORDS ? &s.messages[source] : &s.relayed[source];
}

EP_DEVICE bool lh_await_far_counts(const EpArgs &a, const LlCall &c) {
  bool ok = true;
  for (uint32_t source = threadIdx.x; source < EP_RANKS; source += blockDim.x) {
    const int32_t rank = static_cast<int32_t>(source);
    uint64_t got;
    if (ok && !ep_is_near(a, rank)) ok = ep_wait_call(a, lh_count_flag(a, c.number, source), {EP_PHASE_DISPATCH_WAIT, -1, rank}, c.number, 0, &got);
  }
  return __syncthreads_or(!ok) == 0;
}

static __device__ bool lh_await_counts(const EpArgs &a, const LlCall &c, LhArrived &s) {
  if (!lh_await_far_counts(a, c)) return false;
  bool ok = true;
  for (uint32_t i = threadIdx.x; i < EP_RANKS * LH_AWAITED; i += blockDim.x) {
    const uint32_t source = i / LH_AWAITED, word = i % LH_AWAITED;
    const int32_t expert = word < EP_LOCAL_EXPERTS ? static_cast<int32_t>(a.rank * EP_LOCAL_EXPERTS + word) : -1;
    uint32_t count = 0;
    ok = ok && ep_wait_word(a, ep_own_word(a, lh_counts(a, c.number, source)) + word, {EP_PHASE_DISPATCH_WAIT, expert, static_cast<int32_t>(source)}, c.number, &count);
    *lh_arrived(s, source, word) = count;
  }
  if (__syncthreads_or(!ok)) return false;
  if (c.warp == 0) ll_offsets(a, s.rows, c.lane, c.block == 0);
  for (uint32_t source = threadIdx.x; source < EP_RANKS && c.block == 0; source += blockDim.x) lh_messages(a)[source] = s.messages[source];
  __syncthreads();
  ep_span_stage(a, EP_STAGE_READY);
  return true;
}

struct LhPart {
  uint32_t source, message, first;
  uint64_t head;
  uint4 data[LH_PART];
  uint32_t scale[LH_PART];
};

EP_DEVICE LhPart lh_part(uint32_t job, uint32_t sources) {
  LhPart p;
  p.source = job % sources;
  p.message = job / sources / LH_PARTS;
  p.first = job / sources % LH_PARTS * (32 * LH_PART) + lane_id();
  return p;
}

EP_DEVICE int32_t lh_expert(const LlCall &c, const LhPart &p) {
  const uint32_t place = static_cast<uint32_t>(p.head);
  return c.lane < EP_TOPK && place != LL_NOWHERE ? static_cast<int32_t>(place >> LL_PLACE_BITS) : -1;
}

/* Polls header and data together, to wait only once for memory. Then empties the slot. */
EP_DEVICE bool lh_take_polled(const EpArgs &a, const LlCall &c, LhPart &p, uint8_t *slot) {
  const uint64_t *header = ep_own_word(a, lh_header(a, c.number, p.source, p.message)) + c.lane;
  EpSpin spin;
  for (;;) {
    p.head = c.lane < LH_HEAD ? ld_relaxed_sys(header) : 0;
    const uint32_t largest = ep_load_part<LH_PART>(slot, p.first, p.data, p.scale);
    const uint32_t missing = __ballot_sync(EP_FULL_WARP, p.head == ~0ull || largest == EP_SENTINEL);
    if (missing == 0) break;
    if (!ep_again_warp(spin, a, {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(p.source)}, 0, missing)) return false;
  }
  ep_empty_part<LH_PART>(slot, p.first);
  return true;
}

EP_DEVICE bool lh_take_put(const EpArgs &a, const LlCall &c, LhPart &p, uint8_t *slot) {
  bool ok = true;
  uint64_t got;
  if (c.lane == 0)
    ok = ep_wait_call(a, lh_flag(a, c.number, p.source, p.message), {EP_PHASE_DISPATCH_WAIT, -1, static_cast<int32_t>(p.source)}, c.number, 0, &got);
  __syncwarp(); /* all lanes see what lane 0 has acquired */
  if (!__all_sync(EP_FULL_WARP, ok)) return false;
  const uint64_t *header = reinterpret_cast<const uint64_t *>(slot + LH_HEAD_AT);
  p.head = c.lane < LH_HEAD ? ld_relaxed_sys(header + c.lane) : 0;
  ep_load_part<LH_PART>(slot, p.first, p.data, p.scale);
  return true;
}

/* Copies a part to the row of each of the token's experts on this rank. With a message's first part it also
 * records each row's token, and the route for combine. */
EP_DEVICE void lh_copy_part(const EpArgs &a, const LlCall &c, const LhArrived &s, const LhPart &p) {
  const uint32_t place = static_cast<uint32_t>(p.head);
  const int32_t expert = lh_expert(c, p);
  const bool mine = lh_owner(expert) == a.rank;
  const uint32_t row = mine ? s.rows[p.source][expert % EP_LOCAL_EXPERTS] + (place & ((1u << LL_PLACE_BITS) - 1)) : LL_NOWHERE;
  for (uint32_t left = __ballot_sync(EP_FULL_WARP, mine); left != 0; left &= left - 1) {
    const uint64_t to = __shfl_sync(EP_FULL_WARP, row, __ffs(left) - 1);
    ep_write_part(a.out + to * EP_PAYLOAD, reinterpret_cast<uint32_t *>(a.out_scales) + to, a.max_rows, p.first, p.data, p.scale);
  }
  const uint32_t token = __shfl_sync(EP_FULL_WARP, place, EP_TOPK);
  if (p.first != c.lane || c.lane >= LH_HEAD) return;
  lh_route(a, p.source, p.message)[c.lane] = c.lane < EP_TOPK ? p.head >> 32 << 32 | row : p.head;
  if (!mine) return;
  a.src_info[2 * static_cast<uint64_t>(row)] = static_cast<int32_t>(token);
  a.src_info[2 * static_cast<uint64_t>(row) + 1] = static_cast<int32_t>(c.lane);
}

static const uint32_t LH_FAR_HOSTS = EP_NODES > 1 ? EP_NODES - 1 : 1;

/* Returns the rank that has the same number on another host as this rank has on its host. `n` is 0 for the next host.
 * Host 0 follows the last host. */
EP_DEVICE uint32_t lh_behind(const EpArgs &a, uint32_t n) {
  return static_cast<uint32_t>(ep_rail(a, (ep_node_of(a.rank) + 1 + static_cast<int32_t>(n)) % EP_NODES));
}

/* Stores a part on each rank of this host that has any of the token's experts. Receivers poll for words that are not
 * all ones. The sender has made sure that the part has no word of all ones. */
EP_DEVICE void lh_store_part(const EpArgs &a, const LlCall &c, const LhPart &p, uint8_t *relayed) {
  const uint32_t number = c.lane < EP_TOPK ? ld_relaxed_sys(reinterpret_cast<const uint32_t *>(relayed + LH_NUMBERS_AT) + c.lane) : 0;
  const int32_t owner = lh_owner(lh_expert(c, p));
  const bool begins = lh_first(owner) && owner >= 0 && ep_is_near(a, owner);
  EpVector part[LH_PART];
#pragma unroll
  for (uint32_t v = 0; v < LH_PART; v++) part[v] = {p.data[v], p.scale[v]};
  for (uint32_t todo = __ballot_sync(EP_FULL_WARP, begins); todo != 0; todo &= todo - 1) {
    const uint32_t k = __ffs(todo) - 1, message = __shfl_sync(EP_FULL_WARP, number, k);
    const int32_t rank = __shfl_sync(EP_FULL_WARP, owner, k);
    if (p.first == c.lane) lh_store_header(a, c, rank, p.source, message, p.head);
    ep_send_part(ep_peer_heap(a, rank) + lh_forwarded(a, c.number, p.source, message), p.first, part);
  }
}

/* Forwards the messages that other hosts put to this rank. A warp forwards before it receives. While it forwards,
 * it waits only for senders. Senders wait for no rank, so nothing can wait in a circle. With few messages no warp
 * both forwards and receives: messages to forward go to the first warps, and messages to receive to the last ones. */
EP_DEVICE bool lh_forward(const EpArgs &a, const LlCall &c, const LhArrived &s) {
  uint32_t most = 0;
  for (uint32_t n = 0; n < LH_FAR_HOSTS; n++) most = max(most, s.relayed[lh_behind(a, n)]);
  for (uint32_t job = ll_from_bottom(c); job < most * LH_FAR_HOSTS * LH_PARTS; job += ll_all_warps(c)) {
    LhPart p = lh_part(job, LH_FAR_HOSTS);
    p.source = lh_behind(a, p.source);
    if (p.message >= s.relayed[p.source]) continue;
    uint8_t *relayed = ep_own_heap(a) + lh_slot(a, c.number, p.source, p.message);
    if (!lh_take_put(a, c, p, relayed)) return false;
    lh_store_part(a, c, p, relayed);
  }
  return true;
}

EP_DEVICE bool lh_take(const EpArgs &a, const LlCall &c, LhPart &p) {
  uint8_t *slot = ep_own_heap(a) + lh_slot(a, c.number, p.source, p.message);
  if (ep_is_near(a, static_cast<int32_t>(p.source))) return lh_take_polled(a, c, p, slot);
  if (EP_ROUTE == EP_ROUTE_DIRECT) return lh_take_put(a, c, p, slot);
  return lh_take_polled(a, c, p, ep_own_heap(a) + lh_forwarded(a, c.number, p.source, p.message));
}

static __device__ void lh_dispatch_wait(const EpArgs &a, const LlCall &c) {
  __shared__ LhArrived s;
  if (!lh_await_counts(a, c, s)) return;
  if (EP_ROUTE == EP_ROUTE_RAIL && !lh_forward(a, c, s)) return;
  uint32_t most = 0;
  for (int r = 0; r < EP_RANKS; r++) most = max(most, s.messages[r]);
  for (uint32_t job = ll_from_top(c); job < most * EP_RANKS * LH_PARTS; job += ll_all_warps(c)) {
    LhPart p = lh_part(job, EP_RANKS);
    if (p.message >= s.messages[p.source]) continue;
    if (!lh_take(a, c, p)) return;
    ep_span_stage(a, EP_STAGE_ARRIVED);
    lh_copy_part(a, c, s, p);
  }
}

template <bool sends, bool receives>
static __device__ void lh_dispatch(const EpArgs &a) {
  lh_run(a, [&](const LlCall &c) {
    if (sends) lh_dispatch_send(a, c);
    if (receives) lh_dispatch_wait(a, c);
  });
}
LH_ENTRIES(ll_hosts_dispatch, lh_dispatch)
