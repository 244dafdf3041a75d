/* Waits with a deadline. The first thread of a rank whose wait passes the deadline writes a fault record to host
 * memory. The record says what the thread waited for. The thread also sets two words:
 * - the abort word of its state (the memory of one kernel family and dtype): all other waits in this state then end
 * - EpArgs.given_up: all later launches of the rank then end at once
 *
 * Threads that give up overwrite the outputs of their call. Threads of later launches and replays do not start their
 * work, but also overwrite the outputs of their call. So old outputs are never taken for new ones. */
#pragma once

#include "common/ptx.cuh"

/* The index of the abort word in `counters`, for every kernel family. After a fault, the host zeroes all counters
 * before the rank makes more calls. */
#define EP_COUNTER_ABORT 0

struct EpWait {
  uint32_t phase;
  int32_t expert; /* global expert, -1 if none */
  int32_t source; /* rank, -1 for other blocks of this rank */
};

EP_DEVICE uint32_t *ep_abort_word(const EpArgs &a) { return reinterpret_cast<uint32_t *>(a.counters) + EP_COUNTER_ABORT; }

EP_DEVICE bool ep_aborted(const EpArgs &a) { return ld_relaxed_gpu(ep_abort_word(a)) != 0; }

/* With EP_SURVIVORS the addresses of heaps are in device memory, so that graphs stay valid when a rank is lost or comes
 * back. In topk_ids, epcomm has replaced the ids of experts on lost ranks by -1. */
#ifdef EP_SURVIVORS
EP_DEVICE uint8_t *ep_heap(const EpArgs &a, int rank) { return a.peers[rank]; }
EP_DEVICE bool ep_alive(const EpArgs &a, int rank) { return a.peers[rank] != nullptr; }
#else
EP_DEVICE uint8_t *ep_heap(const EpArgs &a, int rank) { return a.heap[rank]; }
EP_DEVICE bool ep_alive(const EpArgs &, int) { return true; }
#endif

/* Returns the address of a region of the state on a rank. */
template <class T = uint8_t>
EP_DEVICE T *ep_at(const EpArgs &a, int rank, int region) {
  return reinterpret_cast<T *>(ep_heap(a, rank) + a.region[region]);
}

static const uint32_t EP_SPOIL_WORDS = 256;

/* Overwrites one chunk of the outputs. `chunk` is its number, counted through all areas. Returns false if there are
 * fewer chunks. The loops are not unrolled, because the waits around this code need the registers. */
EP_DEVICE bool ep_spoil_chunk(const EpArgs &a, uint32_t chunk) {
#pragma unroll 1
  for (int i = 0; i < EP_SPOIL_AREAS; i++) {
    const EpArea &area = a.spoil[i];
    const uint32_t chunks = (area.words + EP_SPOIL_WORDS - 1) / EP_SPOIL_WORDS;
    if (chunk >= chunks) {
      chunk -= chunks;
      continue;
    }
    uint32_t *to = area.at + static_cast<uint64_t>(chunk) * EP_SPOIL_WORDS;
    uint32_t words = min(area.words - chunk * EP_SPOIL_WORDS, EP_SPOIL_WORDS);
#pragma unroll 1
    do *to++ = area.fill;
    while (--words != 0);
    return true;
  }
  return false;
}

EP_DEVICE void ep_spoil(const EpArgs &a) {
  uint32_t chunk = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  while (ep_spoil_chunk(a, chunk)) chunk += gridDim.x * blockDim.x;
}

EP_DEVICE bool ep_gave_up(const EpArgs &a) { return a.given_up != nullptr && *a.given_up != 0; }

/* Returns true if this rank has given up a wait. The block must then leave. All threads of the block call this function
 * and get the same answer, because a warp that stays alone would wait forever in the next barrier. */
EP_DEVICE bool ep_block_leaves(const EpArgs &a) {
  if (!__syncthreads_or(ep_gave_up(a))) return false;
  ep_spoil(a);
  return true;
}

/* Does the work of ep_block_leaves for one warp, in kernels whose warps do not wait for each other. `number` is from
 * ep_number. */
EP_DEVICE bool ep_warp_leaves(const EpArgs &a, uint32_t number) {
  if (!__any_sync(EP_FULL_WARP, number == 0)) return false;
  ep_spoil(a);
  return true;
}

/* Ends all waits of the rank. The first caller of the rank writes the fault record. */
EP_DEVICE void ep_record_fault(const EpArgs &a, EpWait w, uint64_t want, uint64_t got) {
  bool first = cas_relaxed_gpu(ep_abort_word(a), 0, 1) == 0;
  if (a.given_up != nullptr) first = cas_relaxed_gpu(a.given_up, 0, 1) == 0;
  if (!first || a.fault == nullptr) return;
  EpFault *f = a.fault;
  f->rank = static_cast<uint32_t>(a.rank);
  f->phase = w.phase;
  f->expert = w.expert;
  f->source = w.source;
  f->block = blockIdx.x;
  f->want = want;
  f->got = got;
  fence_acq_rel_sys();
  st_relaxed_sys(&f->set, 1u);
}

static __device__ __noinline__ void ep_time_out(const EpArgs &a, EpWait w, uint64_t want, uint64_t got) {
  ep_record_fault(a, w, want, got);
}

/* Gives up a wait. Each thread that leaves a wait calls it, with `late` if its own deadline has passed. The first
 * late thread of a rank writes the fault record and sets the abort word to 1. Then the threads overwrite the outputs of
 * their call. To take a chunk, a thread adds 1 to the abort word. The word's old value, minus 1, is the number of the
 * chunk. */
static __device__ __noinline__ void ep_give_up(const EpArgs &a, EpWait w, uint64_t want, uint64_t got, bool late) {
  if (late) ep_record_fault(a, w, want, got);
#pragma unroll 1
  while (ep_spoil_chunk(a, add_relaxed_gpu(ep_abort_word(a), 1u) - 1)) continue;
}

EP_DEVICE void ep_fault(const EpArgs &a, EpWait w, uint64_t want, uint64_t got) { ep_give_up(a, w, want, got, true); }

struct EpSpin {
  uint64_t start = 0;
  uint32_t polls = 0;

  /* Counts one poll that found nothing. Returns false once the deadline has passed or another spin of this rank
   * has given up; the caller must then leave the kernel. Reading the clock takes as long as a poll, so only every
   * 64th poll reads it. */
  EP_DEVICE bool again(const EpArgs &a, EpWait w, uint64_t want, uint64_t got) {
    spin_pause();
    if ((++polls & 63u) != 0) return true;
    const bool late = passed(a, w);
    if (!late && !ep_aborted(a)) return true;
    ep_give_up(a, w, want, got, late);
    return false;
  }

  /* Does the work of `again`, but overwrites no outputs. Only ep_align calls it. `again` would delay the end of
   * ep_align, and with it the start of the measured call. */
  EP_DEVICE bool again_without_outputs(const EpArgs &a, EpWait w, uint64_t want, uint64_t got) {
    spin_pause();
    if ((++polls & 63u) != 0) return true;
    if (passed(a, w)) {
      ep_time_out(a, w, want, got);
      return false;
    }
    return !ep_aborted(a);
  }

  /* Returns whether the deadline has passed. A block that waits for blocks of its own rank waits twice as long. So
   * a block that waits for another rank gives up first, and the record names that rank. */
  EP_DEVICE bool passed(const EpArgs &a, EpWait w) {
    uint64_t now = globaltimer();
    if (start == 0) start = now;
    return now - start > (w.source < 0 ? 2 : 1) * a.deadline_ns;
  }
};

/* Calls spin.again in a whole warp, and returns false in all lanes if one call returned false. Lanes read the
 * clock at different moments, but lanes with warp collectives must leave together. */
EP_DEVICE bool ep_again_warp(EpSpin &spin, const EpArgs &a, EpWait w, uint64_t want, uint64_t got) {
  return !__any_sync(EP_FULL_WARP, !spin.again(a, w, want, got));
}

/* Waits until the upper half of a word is `number`, and stores the lower half in *value. Returns false if it gave
 * up. */
EP_DEVICE bool ep_wait_word(const EpArgs &a, const uint64_t *word, EpWait what, uint32_t number, uint32_t *value) {
  EpSpin spin;
  for (;;) {
    uint64_t v = ld_relaxed_sys(word);
    *value = static_cast<uint32_t>(v);
    if (v >> 32 == number) return true;
    if (!spin.again(a, what, number, v >> 32)) return false;
  }
}

EP_DEVICE void ep_drill_delay(const EpArgs &a) {
  if (a.delay_ns <= 0) return;
  uint64_t start = globaltimer();
  while (globaltimer() - start < static_cast<uint64_t>(a.delay_ns)) sleep_ns(200);
}

EP_DEVICE bool ep_drill_drops(const EpArgs &a, int32_t expert) { return a.drop_signal > 0 && a.drop_signal == expert + 1; }

/* EP_STAGE says when the measured span ends: at the end of the kernel, or when the last warp passes a stage. */
#define EP_STAGE_END 0
#define EP_STAGE_READY 1   /* dispatch: all counts have arrived; combine: all ranks have begun this call */
#define EP_STAGE_SENT 2
#define EP_STAGE_ARRIVED 3
#ifndef EP_STAGE
#define EP_STAGE EP_STAGE_END
#endif

/* The largest number of a call. The next call has number 1. Kernels use two or three sets of memory in turn: the set is
 * the number modulo 2 or 3. The largest number is a multiple of 6, so number 1 after it gets the set that is next in
 * turn. No call has number 0, because words that hold numbers are 0 at first. */
#define EP_LAST_NUMBER 0xfffffffcu

EP_DEVICE uint32_t ep_number_after(uint32_t number, uint32_t calls) {
  const uint64_t sum = static_cast<uint64_t>(number) + calls;
  return static_cast<uint32_t>(sum > EP_LAST_NUMBER ? sum - EP_LAST_NUMBER : sum);
}
EP_DEVICE uint32_t ep_number_before(uint32_t number) { return number == 1 ? EP_LAST_NUMBER : number - 1; }

/* Returns whether a rank whose last call is `last` (0: none) has reached call `number`. */
EP_DEVICE bool ep_reached(uint32_t last, uint32_t number) { return static_cast<int32_t>(last - number) >= 0; }

/* Returns the number of this call. With EP_OWN_ROUNDS the device counts calls, because the host cannot: graphs are
 * replayed in any order. round_base then points to 32 words for each of EP_OWN_ROUNDS blocks, one word for each
 * warp. Only one warp reads a word, so this warp may advance it without a barrier.
 *
 * The load is ordinary, so most warps find the word in L1. An ordinary load is enough, because an earlier kernel wrote
 * the word. */
EP_DEVICE uint32_t ep_round(const EpArgs &a) {
#ifdef EP_OWN_ROUNDS
  return ep_number_after(a.round_base[32 * blockIdx.x + warp_id()], a.round);
#else
  return ep_number_after(a.round_base != nullptr ? *a.round_base : 0, a.round);
#endif
}

/* Returns ep_round, or 0 if this rank has given up a wait. */
EP_DEVICE uint32_t ep_number(const EpArgs &a) {
  const bool gave_up = ep_gave_up(a);
  const uint32_t number = ep_round(a);
  return gave_up ? 0 : number;
}

/* EP_NUMBER_DONE advances the call number. Every warp executes it after its lanes have read the number. With
 * EP_OWN_ROUNDS, only the last launch of a call (stamp 1) advances the words. A later launch may have more blocks and
 * warps than this one. So this launch advances all words, even those of blocks and warps that it does not have. */
#ifdef EP_OWN_ROUNDS
#define EP_NUMBER_DONE(a, number) ep_number_done(a, number)
EP_DEVICE void ep_number_done(const EpArgs &a, uint32_t number) {
  if (a.stamp == 0) return;
  uint32_t warp = warp_id(), warps = warps_in_block(), lane = lane_id();
  uint32_t word = warp + lane * warps;
  __syncwarp();
  if (word < 32) st_relaxed_gpu(a.round_base + 32 * blockIdx.x + word, number);
  for (uint32_t b = blockIdx.x + (1 + warp) * gridDim.x; b < EP_OWN_ROUNDS; b += warps * gridDim.x)
    st_relaxed_gpu(a.round_base + 32 * b + lane, number);
}
#else
#define EP_NUMBER_DONE(a, number)
#endif

/* Notes the start of a block. The span is from the earliest start to the latest end of all blocks. The host first
 * sets it to {~0, 0}. */
EP_DEVICE void ep_span_begin(const EpArgs &a) {
  if (a.span != nullptr && threadIdx.x == 0)
    atomicMin(reinterpret_cast<unsigned long long *>(a.span), static_cast<unsigned long long>(globaltimer()));
}

EP_DEVICE void ep_begin(const EpArgs &a) {
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
}

EP_DEVICE void ep_span_stage(const EpArgs &a, int stage) {
  if (EP_STAGE != stage || a.span == nullptr || lane_id() != 0) return;
  atomicMax(reinterpret_cast<unsigned long long *>(a.span) + 1, static_cast<unsigned long long>(globaltimer()));
}

EP_DEVICE void ep_span_end(const EpArgs &a) {
  if (EP_STAGE != EP_STAGE_END || a.span == nullptr) return;
  __syncthreads();
  if (threadIdx.x == 0)
    atomicMax(reinterpret_cast<unsigned long long *>(a.span) + 1, static_cast<unsigned long long>(globaltimer()));
}

/* Does `work` in a kernel whose blocks must all run at the same time. The next kernel can start only when every block
 * has ended `work`. */
template <class Work>
EP_DEVICE void ep_run(const EpArgs &a, Work work) {
  pdl_wait();
  ep_span_begin(a);
  if (ep_block_leaves(a)) return;
  work();
  pdl_launch();
  EP_NUMBER_DONE(a, ep_round(a));
  ep_span_end(a);
}
