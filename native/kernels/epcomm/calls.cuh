/* Kernels that epcomm launches before calls. One narrows top-k ids to 32 bits. In debug
 * mode another checks the ids and compares the calls that the ranks are about to make. */
#ifndef EP_EPCOMM_CALLS_CUH
#define EP_EPCOMM_CALLS_CUH

#include "common/check.cuh"
#include "epcomm/normal.cuh"
#include "epcomm_args.h"

/* Any grid, any block. */
EP_ENTRY(1024, 1) ep_narrow_ids(const __grid_constant__ EpIdsArgs a) {
  pdl_wait();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count; i += step) {
    const int64_t id = a.wide[i];
    const int32_t other = id == -1 ? -1 : -1 - a.refused;
    a.narrow[i] = id >= 0 && id < a.experts ? static_cast<int32_t>(id) : other;
  }
}

/* Region 0 of ep_agree on each rank, one for each slot: calls of different slots may be made
 * in any order, and on streams that run together. There are two sets of words, by call
 * number. A rank that writes the words of call n + 2 has seen this rank's word of call n +
 * 1, so this rank has read the words of call n. */
struct EpAgree {
  uint64_t said[2][EP_MAX_RANKS]; /* by rank: number << 32 | description of the call that the rank is about to make */
  uint32_t calls;                 /* number of the last comparison, 0 for none */
};

/* Checks that every id of a call is -1 or an expert, because any other id would be used as an
 * address. The fault keeps the call's kernels from using it. If `distinct` is not 0, a token has
 * `distinct` ids, which must differ: an expert that a token names twice gets two rows, for which
 * its block may have no room. */
EP_DEVICE bool ep_check_ids(const EpArgs &a) {
  uint32_t bad = 0;
  int32_t twice = -1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.ids; i += 32) {
    const int32_t id = a.topk_ids[i];
    bad |= id < -1 || id >= a.experts;
    for (int32_t j = a.distinct > 0 ? i - i % a.distinct : i; j < i; j++)
      if (id >= 0 && a.topk_ids[j] == id) twice = id;
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

/* One block of 32 threads. `about` describes the call that this rank is about to make. If
 * another rank's description differs, the kernel records a fault that names that rank. It
 * checks `ids` ids against `experts` experts. */
EP_ENTRY(32, 1) ep_agree(const __grid_constant__ EpArgs a) {
  if (ep_gave_up(a)) return;
  EpAgree *mine = reinterpret_cast<EpAgree *>(a.heap[a.rank] + a.region[0]);
  const uint32_t number = ep_number_after(mine->calls, 1);
  const int32_t peer = static_cast<int32_t>(threadIdx.x);
  const bool fine = ep_check_ids(a);
  if (fine && peer < a.ranks) {
    const uint64_t word = static_cast<uint64_t>(number) << 32 | a.about;
    EpAgree *theirs = reinterpret_cast<EpAgree *>(a.heap[peer] + a.region[0]);
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
