/* Kernels that epcomm launches before calls. In debug mode, ep_agree checks ids and compares the calls of the
 * ranks. */
#ifndef EP_EPCOMM_CALLS_CUH /* gcc warns of #pragma once in a main file */
#define EP_EPCOMM_CALLS_CUH

#include "common/check.cuh"
#include "epcomm/expand.cuh"
#include "epcomm/normal.cuh"
#include "epcomm_args.h"

#ifdef EP_SURVIVORS
/* Returns the id, or -1 if its expert is on a lost rank. Counts such ids. With a.lost_refused, they are also faults. */
EP_DEVICE int32_t ep_living(const EpIdsArgs &a, int32_t id) {
  if (a.peers[id / a.local_experts] != nullptr) return id;
  if (a.lost != nullptr) atomicAdd(reinterpret_cast<unsigned long long *>(&a.lost->dropped), 1ull);
  if (!a.lost_refused) return -1;
  EpArgs call = {};
  call.rank = a.rank;
  call.fault = a.fault;
  call.counters = a.counters;
  call.given_up = a.given_up;
  ep_fault(call, {EP_PHASE_LOST, id, id / a.local_experts}, 0, 0);
  return -1;
}

/* Copies the top-k ids of a call for its kernels, which then do not see ids of lost ranks. */
EP_ENTRY(1024, 1) ep_living_ids(const __grid_constant__ EpIdsArgs a) {
  pdl_wait();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += step) {
    const int64_t id = a.wide != nullptr ? a.wide[i] : a.ids[i];
    const int32_t other = id == -1 ? -1 : -1 - a.refused;
    a.copy[i] = id >= 0 && id < a.experts ? ep_living(a, static_cast<int32_t>(id)) : other;
  }
}

/* Lets the ranks of a set wait for each other, although other ranks are gone. It is one block, and each of its threads
 * talks with one rank of the set, the peer. A token identifies a rank's attempt to meet. Each attempt has a new token,
 * so answers to earlier attempts do not count. In stage 1 the thread writes a.token (hello), answers the peer's token,
 * and waits for the peer's answer. In stage 2 it answers again, marked with stage 2, and waits for such an answer,
 * which shows that the peer has passed stage 1 with all ranks. */
EP_ENTRY(32, 1) ep_meet(const __grid_constant__ EpMeetArgs a) {
  const int32_t peer = static_cast<int32_t>(threadIdx.x);
  if (peer >= EP_MAX_RANKS || peer == a.rank || !(a.set >> peer & 1u)) return;
  EpSurvival *mine = reinterpret_cast<EpSurvival *>(a.heap[a.rank] + a.at);
  EpSurvival *theirs = reinterpret_cast<EpSurvival *>(a.heap[peer] + a.at);
  const uint64_t hello = static_cast<uint64_t>(a.token) << 32 | a.set;
  if (a.stage == 1) st_release_sys(&theirs->hello[a.rank], hello);
  const uint64_t start = globaltimer();
  uint64_t answered = 0, differs = 0;
  bool met = false;
  while (!met && globaltimer() - start < a.deadline_ns) {
    const uint64_t answer = ld_acquire_sys(&mine->answer[peer]);
    const bool there = answer >> 32 == a.token && static_cast<int32_t>(answer & 0xffffffffu) >= a.stage;
    const uint64_t said = a.stage == 1 ? ld_acquire_sys(&mine->hello[peer]) : a.lost->met[peer];
    const bool same = static_cast<uint32_t>(said) == a.set;
    if (said != 0 && said != answered && same) {
      st_release_sys(&theirs->answer[a.rank], said >> 32 << 32 | static_cast<uint32_t>(a.stage));
      answered = said;
    }
    if (said != 0 && !same) differs = said;
    met = there && said != 0 && said == answered;
    if (!met) spin_pause();
  }
  a.lost->met[peer] = met ? answered : 0;
  a.lost->differs[peer] = met ? 0 : differs;
  fence_acq_rel_sys();
}
#endif

/* Region 0 of ep_agree. Each slot (the memory of a call in flight) has its own EpAgree. Calls with even numbers use one
 * set of words, calls with odd numbers the other. Two sets are enough. Every rank reads the words of call 6 before it
 * sends its words of call 7. A rank sends its words of call 8, which overwrite those of call 6, only after it has
 * received the words of call 7 from all ranks. */
struct EpAgree {
  uint64_t said[2][EP_MAX_RANKS]; /* by rank: number << 32 | description of its call */
  uint32_t calls;                 /* number of the last comparison, 0 for none */
};

/* Returns id i of a call, or -2 if this id needs more than 32 bits. */
EP_DEVICE int32_t ep_checked_id(const EpArgs &a, int32_t i) {
  if (a.ids_wide == 0) return a.topk_ids[i];
  const int64_t id = reinterpret_cast<const int64_t *>(a.topk_ids)[i];
  return id == static_cast<int32_t>(id) ? static_cast<int32_t>(id) : -2;
}

/* Checks that every id of a call is -1 or an expert, because kernels compute addresses from ids. After a wrong id it
 * records a fault, so that no kernel uses the id. If a.distinct is not 0, each token has a.distinct ids, and no two of
 * them may be equal, because an expert's memory has room for only one row of each token. */
EP_DEVICE bool ep_check_ids(const EpArgs &a) {
  uint32_t bad = 0;
  int32_t twice = -1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.ids; i += 32) {
    const int32_t id = ep_checked_id(a, i);
    bad |= id < -1 || id >= a.experts;
    for (int32_t j = a.distinct > 0 ? i - i % a.distinct : i; j < i; j++)
      if (id >= 0 && ep_checked_id(a, j) == id) twice = id;
  }
  if (__any_sync(EP_FULL_WARP, bad)) {
    if (threadIdx.x == 0) ep_fault(a, {EP_PHASE_AGREE, -1, a.rank}, static_cast<uint64_t>(a.experts), ~0ull);
    return false;
  }
  const uint32_t lanes = __ballot_sync(EP_FULL_WARP, twice >= 0);
  if (lanes == 0) return true;
  const int32_t expert = __shfl_sync(EP_FULL_WARP, twice, __ffs(lanes) - 1);
  if (threadIdx.x == 0) ep_fault(a, {EP_PHASE_AGREE, expert, a.rank}, static_cast<uint64_t>(a.experts), ~0ull);
  return false;
}

/* Compares the calls of the ranks, with one block of 32 threads, and checks the a.ids ids of topk_ids. a.about
 * describes this rank's call. If another rank's description differs, the fault names that rank. */
EP_ENTRY(32, 1) ep_agree(const __grid_constant__ EpArgs a) {
  if (ep_gave_up(a)) return;
  EpAgree *mine = reinterpret_cast<EpAgree *>(ep_heap(a, a.rank) + a.region[0]);
  const uint32_t number = ep_number_after(mine->calls, 1);
  const int32_t peer = static_cast<int32_t>(threadIdx.x);
  const bool fine = ep_check_ids(a);
  if (fine && peer < a.ranks && ep_alive(a, peer)) {
    const uint64_t word = static_cast<uint64_t>(number) << 32 | a.about;
    EpAgree *theirs = reinterpret_cast<EpAgree *>(ep_heap(a, peer) + a.region[0]);
    st_relaxed_sys(&theirs->said[number & 1][a.rank], word);
    const EpWait what = {EP_PHASE_AGREE, -1, peer};
    EpSpin spin;
    uint64_t seen = 0;
    for (;;) {
      seen = ld_relaxed_sys(&mine->said[number & 1][peer]);
      if (seen >> 32 == number) {
        if (seen != word) ep_fault(a, what, word, seen);
        break;
      }
      if (!spin.again(a, what, word, seen)) break;
    }
  }
  __syncwarp();
  if (threadIdx.x == 0) mine->calls = number;
}

#endif
