/* First half of dispatch: blocks send tokens, and monitor blocks signal to each destination when all its tokens
 * have been written. */
#pragma once

#include "ep/signal.cuh"

EP_DEVICE uint32_t ep_message_parts(const EpArgs &a) {
  return EP_COPY == EP_VECTOR && a.chunk_bytes > 0 ? ceil_div(EP_MSG_BYTES, static_cast<uint32_t>(a.chunk_bytes)) : 1;
}

/* Takes the next slot at a destination. If all max_tokens slots are taken, records a fault and returns false. */
EP_DEVICE bool ep_take_slot(const EpArgs &a, int32_t *reserved, int32_t expert, int32_t *slot) {
  *slot = add_relaxed_gpu(reserved, 1);
  if (*slot < a.max_tokens) return true;
  ep_fault(a, {EP_PHASE_DISPATCH_ASYNC, expert, a.rank}, static_cast<uint64_t>(a.max_tokens), static_cast<uint64_t>(*slot) + 1);
  return false;
}

#ifdef EP_HOSTS
EP_DEVICE EpDestination ep_reserve(const EpArgs &a, int64_t token); /* hosts/dispatch_send.cuh has both */
EP_DEVICE void ep_send_copies(const EpArgs &a, const uint8_t *message, const EpDestination *to);
#else
struct EpDestination {
  uint8_t *slot;
  int32_t *finished;
};

/* Takes a slot on an expert's rank: a slot for the expert, or under dedup a slot for the rank. */
EP_DEVICE EpDestination ep_destination(const EpArgs &a, int32_t expert) {
  const bool dedup = EP_ALGO == EP_DEDUP;
  const int32_t rank = expert / EP_LOCAL_EXPERTS, index = dedup ? rank : expert;
  int32_t *reserved = ep_counter(a, (dedup ? EP_RANK_RESERVED : EP_RESERVED) + index);
  int32_t slot;
  if (!ep_take_slot(a, reserved, expert, &slot)) return {nullptr, nullptr};
  const uint64_t at = recv_buf_layout(expert % EP_LOCAL_EXPERTS, a.rank, slot, a.max_tokens);
  return {ep_region(a, rank, EP_D_RECV) + at, ep_counter(a, (dedup ? EP_RANK_FINISHED : EP_FINISHED) + index)};
}

/* Reserves a token's slots. Lane k of warp 0 has top-k position k. Under dedup, a rank gets the token only once, at the
 * first position whose expert is on that rank. */
EP_DEVICE EpDestination ep_reserve(const EpArgs &a, int64_t token) {
  const uint32_t k = lane_id();
  const int32_t expert = k < EP_TOPK ? ep_id(a, token * EP_TOPK + k) : -1;
  bool sends = ep_sends_to(a, expert);
  if (EP_ALGO == EP_DEDUP) {
    const uint32_t same = __match_any_sync(EP_FULL_WARP, sends ? expert / EP_LOCAL_EXPERTS : -1);
    sends = sends && static_cast<uint32_t>(__ffs(same)) == k + 1;
  }
  if (!sends) return {nullptr, nullptr};
  return ep_destination(a, expert);
}

EP_DEVICE void ep_send_copies(const EpArgs &a, const uint8_t *message, const EpDestination *to) {
  const uint32_t parts = ep_message_parts(a);
  const uint32_t part_bytes = parts > 1 ? static_cast<uint32_t>(a.chunk_bytes) : EP_MSG_BYTES;
  for (uint32_t u = warp_id(); u < EP_TOPK * parts; u += warps_in_block()) {
    const EpDestination d = to[u % EP_TOPK];
    if (d.slot == nullptr) continue;
    const uint32_t at = u / EP_TOPK * part_bytes;
    warp_memcpy<EP_IN_FLIGHT>(d.slot + at, message + at, min(part_bytes, EP_MSG_BYTES - at));
    __syncwarp();
    if (lane_id() == 0) red_add_release_gpu(d.finished, 1);
  }
}
#endif

EP_DEVICE void ep_stage_token(const EpArgs &a, int64_t token, uint8_t *message) {
  const float global = a.input_scales != nullptr ? a.input_scales[0] : 1.0f;
  ep_quantize_token<EP_DTYPE, EP_HIDDEN>(a.x + token * EP_HIDDEN, message, global);
  const uint32_t k = threadIdx.x;
  if (k == 0) *reinterpret_cast<int32_t *>(message + EP_TOKEN_BYTES) = static_cast<int32_t>(token);
  if (k >= EP_TOPK) return;
  const int32_t expert = ep_id(a, token * EP_TOPK + k);
  reinterpret_cast<uint16_t *>(message + EP_IDS_AT)[k] =
      static_cast<uint16_t>(expert < 0 ? static_cast<int32_t>(EP_NO_EXPERT) : expert);
  if (EP_ALGO == EP_DEDUP)
    reinterpret_cast<float *>(message + EP_WEIGHTS_AT)[k] = a.weights != nullptr ? a.weights[token * EP_TOPK + k] : 1.0f;
}

/* Sends every token of this rank whose number modulo `blocks` is `block`, with one barrier for each token. There are
 * two sets of destinations, because a warp that has nothing to copy begins the next token early. */
static __device__ void ep_send_vectors(const EpArgs &a, uint32_t block, uint32_t blocks) {
  __shared__ EpDestination to[2][EP_TOPK];
  uint8_t *send = ep_region(a, a.rank, EP_D_SEND);
  uint32_t turn = 0;
  for (int64_t t = block; t < a.tokens; t += blocks, turn ^= 1) {
    uint8_t *message = send + send_buf_layout(t);
    if (warp_id() == 0) {
      const EpDestination d = ep_reserve(a, t);
      if (lane_id() < EP_TOPK) to[turn][lane_id()] = d;
    }
    ep_stage_token(a, t, message);
    __syncthreads();
    ep_send_copies(a, message, to[turn]);
  }
}

#if EP_COPY == EP_BULK
EP_DEVICE void ep_note_written(EpDestination d) {
  if (d.slot != nullptr) red_add_release_gpu(d.finished, 1);
}

/* Does the work of ep_send_vectors with bulk copies. Messages are written to stages in shared memory, and lane k
 * of warp 0 copies them to the destination of top-k position k. There are three stages, because copies may read
 * two of them while the third is filled. */
static __device__ void ep_send_bulk(const EpArgs &a, uint32_t block, uint32_t blocks) {
  EP_DYNAMIC_SHARED(stages);
  uint8_t *send = ep_region(a, a.rank, EP_D_SEND);
  EpDestination before = {nullptr, nullptr};
  uint32_t turn = 0;
  for (int64_t t = block; t < a.tokens; t += blocks, turn = (turn + 1) % 3) {
    uint8_t *message = stages + turn * EP_MSG_BYTES;
    EpDestination d = {nullptr, nullptr};
    if (warp_id() == 0) d = ep_reserve(a, t);
    ep_stage_token(a, t, message);
    fence_shared_to_bulk();
    __syncthreads();
    if (warp_id() != 0) continue;
    if (d.slot != nullptr) bulk_store(d.slot, message, EP_MSG_BYTES);
    if (EP_SHARED && lane_id() == 0) bulk_store(send + send_buf_layout(t), message, EP_MSG_BYTES);
    bulk_commit();
    bulk_wait_written<1>();
    ep_note_written(before);
    before = d;
  }
  bulk_wait_written<0>();
  ep_note_written(before);
}
#endif

static __device__ void ep_send_tokens(const EpArgs &a, uint32_t block, uint32_t blocks) {
#if EP_COPY == EP_BULK
  ep_send_bulk(a, block, blocks);
#else
  ep_send_vectors(a, block, blocks);
#endif
  if (EP_SHARED) {
    __syncthreads();
    if (threadIdx.x == 0) red_add_release_gpu(ep_counter(a, EP_SHARED_READY), 1);
  }
}

template <class Wanted>
EP_DEVICE uint32_t ep_count_ids(const EpArgs &a, Wanted wanted) {
  uint32_t count = 0;
  const int64_t n = static_cast<int64_t>(a.tokens) * EP_TOPK;
  for (int64_t i = lane_id(); i < n; i += 32) count += wanted(ep_load_id(a, i));
  return __reduce_add_sync(EP_FULL_WARP, count);
}

template <class Wanted>
EP_DEVICE uint32_t ep_count_tokens(const EpArgs &a, Wanted wanted) {
  uint32_t count = 0;
  for (int64_t t = lane_id(); t < a.tokens; t += 32) {
    bool any = false;
    for (uint32_t k = 0; k < EP_TOPK; k++) {
      const int32_t e = ep_load_id(a, t * EP_TOPK + k);
      any |= e >= 0 && e < EP_EXPERTS && wanted(e);
    }
    count += any;
  }
  return __reduce_add_sync(EP_FULL_WARP, count);
}

/* Waits until `parts` parts have been written, writes value to the destination's word, and zeroes both counters.
 * Lane 0 calls it. */
EP_DEVICE void ep_finish(const EpArgs &a, int32_t *reserved, int32_t *finished, int32_t parts, EpWait what,
                         uint64_t *word, uint64_t value) {
  if (!ep_await_counter(a, finished, what, parts)) return;
  if (!ep_drill_drops(a, what.expert)) ep_signal_completion(word, value);
  st_relaxed_gpu(reserved, 0);
  st_relaxed_gpu(finished, 0);
}

/* Direct: sends the number of tokens for an expert, when all have been written. */
EP_DEVICE void ep_monitor_expert(const EpArgs &a, int32_t expert) {
  const uint32_t count = ep_count_ids(a, [expert](int32_t id) { return id == expert; });
  if (lane_id() != 0) return;
  uint64_t *word = ep_word(a, expert / EP_LOCAL_EXPERTS, EP_D_COUNT, recv_count_layout(expert % EP_LOCAL_EXPERTS, a.rank));
  ep_finish(a, ep_counter(a, EP_RESERVED + expert), ep_counter(a, EP_FINISHED + expert),
            static_cast<int32_t>(count * ep_message_parts(a)), {EP_PHASE_DISPATCH_ASYNC, expert, a.rank}, word, count);
}

/* Dedup: sends the number of tokens for an expert at once, so that the receiver can assign rows early. */
EP_DEVICE void ep_announce_expert(const EpArgs &a, int32_t expert) {
  const uint32_t count = ep_count_ids(a, [expert](int32_t id) { return id == expert; });
  if (lane_id() != 0 || ep_drill_drops(a, expert)) return;
  st_relaxed_sys(ep_word(a, expert / EP_LOCAL_EXPERTS, EP_D_COUNT, recv_count_layout(expert % EP_LOCAL_EXPERTS, a.rank)),
                 static_cast<uint64_t>(count));
}

EP_DEVICE void ep_monitor_rank(const EpArgs &a, int32_t rank) {
  const uint32_t count = ep_count_tokens(a, [rank](int32_t e) { return e / EP_LOCAL_EXPERTS == rank; });
  if (lane_id() != 0) return;
  st_relaxed_sys(ep_word(a, rank, EP_D_RANK, a.rank), static_cast<uint64_t>(count));
  ep_finish(a, ep_counter(a, EP_RANK_RESERVED + rank), ep_counter(a, EP_RANK_FINISHED + rank),
            static_cast<int32_t>(count * ep_message_parts(a)), {EP_PHASE_DISPATCH_ASYNC, -1, a.rank},
            ep_word(a, rank, EP_D_RANK, EP_RANKS + a.rank), ep_round(a));
}

static __device__ void ep_monitor(const EpArgs &a, uint32_t block, uint32_t blocks) {
  const uint32_t warps = blocks * warps_in_block();
  const uint32_t experts = EP_SKIP_A2A ? EP_LOCAL_EXPERTS : EP_EXPERTS;
  const uint32_t items = experts + (EP_ALGO == EP_DEDUP ? EP_RANKS : 0);
  for (uint32_t i = block * warps_in_block() + warp_id(); i < items; i += warps) {
    const int32_t expert = static_cast<int32_t>(EP_SKIP_A2A ? a.rank * EP_LOCAL_EXPERTS + i : i);
    if (EP_ALGO == EP_DIRECT) {
      ep_monitor_expert(a, expert);
    } else if (i < experts) {
      ep_announce_expert(a, expert);
    } else {
      ep_monitor_rank(a, static_cast<int32_t>(i - experts));
    }
  }
}

static __device__ void ep_dispatch_send(const EpArgs &a) {
  const uint32_t monitors = static_cast<uint32_t>(a.count_sms);
  ep_drill_delay(a);
  if (blockIdx.x < monitors) {
    ep_monitor(a, blockIdx.x, monitors);
  } else {
    ep_send_tokens(a, blockIdx.x - monitors, gridDim.x - monitors);
  }
  ep_span_stage(a, EP_STAGE_SENT);
}
