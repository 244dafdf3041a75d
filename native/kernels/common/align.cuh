/* Kernels that a session launches around calls, as one block of 32 threads. */
#ifndef EP_ALIGN_CUH /* gcc warns of #pragma once in a main file */
#define EP_ALIGN_CUH

#include "common/check.cuh"

EP_DEVICE EpControl *ep_control(const EpArgs &a, int rank) {
#ifdef EP_SURVIVORS
  return reinterpret_cast<EpControl *>(ep_heap(a, rank) + (reinterpret_cast<uint8_t *>(a.control[a.rank]) - ep_heap(a, a.rank)));
#else
  return a.control[rank];
#endif
}

/* Waits until all ranks have reached alignment `tag`. Each lane signals to one rank and waits for it. */
EP_DEVICE void ep_meet_ranks(const EpArgs &a, EpControl *mine, uint32_t tag) {
  int32_t peer = static_cast<int32_t>(threadIdx.x);
  if (peer < a.ranks && ep_alive(a, peer)) {
    st_release_sys(&ep_control(a, peer)->arrived[a.rank], tag);
    EpSpin spin;
    EpWait what = {EP_PHASE_ALIGN, -1, peer};
    for (;;) {
      uint32_t seen = ld_relaxed_sys(&mine->arrived[peer]);
      if (static_cast<int32_t>(seen - tag) >= 0) break;
      if (!spin.again_without_outputs(a, what, tag, seen)) break;
    }
    fence_acq_rel_sys();
  }
  __syncwarp();
}

static const uint64_t EP_MOST_FLIGHT_NS = 5000; /* largest value of flight_ns */

/* Aligns the ranks: waits until all ranks have reached this alignment. Each rank numbers its alignments itself, so that
 * graphs can be replayed.
 *
 * A flight is the time that a flag takes from one rank to another. The last rank finds the flags of the other ranks at
 * once, but the other ranks see its flag one flight later. So every rank stays for at least one flight, and all ranks
 * leave at the same time.
 *
 * If a.stamp is not 0, the kernel measures the flight. It makes a.stamp more alignments and takes their mean time.
 * flight_ns keeps the smallest mean since set-up.
 *
 * a.stamp must be even. With two ranks, a rank that did not wait sends its next flag early, so the other rank does not
 * wait in the next alignment. Each rank waits in every second alignment. With an odd number, one rank would wait once
 * more than the other, and their means would differ. */
EP_ENTRY(32, 1) ep_align(const __grid_constant__ EpArgs a) {
  if (ep_gave_up(a)) return;
  EpControl *mine = a.control[a.rank];
  uint32_t tag = mine->epoch + 1;
  const uint64_t flight = mine->flight_ns;
  uint64_t began = globaltimer();
  ep_meet_ranks(a, mine, tag);
  if (a.stamp > 0) {
    began = globaltimer();
    for (int32_t i = 0; i < a.stamp; i++) ep_meet_ranks(a, mine, ++tag);
    const uint64_t mean = min((globaltimer() - began) / a.stamp, EP_MOST_FLIGHT_NS);
    if (threadIdx.x == 0) mine->flight_ns = static_cast<uint32_t>(flight == 0 ? mean : min(flight, mean));
  } else {
    while (globaltimer() - began < flight) spin_pause();
  }
  if (threadIdx.x == 0) mine->epoch = tag;
}

EP_ENTRY(32, 1) ep_stamp(const __grid_constant__ EpArgs a) {
  if (threadIdx.x != 0) return;
  uint64_t row = static_cast<uint64_t>(a.control[a.rank]->replay) * static_cast<uint64_t>(a.stamp_slots);
  a.stamps[row + static_cast<uint64_t>(a.stamp)] = globaltimer();
}

EP_ENTRY(32, 1) ep_clear_spans(const __grid_constant__ EpArgs a) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.stamp; i += 32) {
    a.span[2 * i] = ~static_cast<uint64_t>(0);
    a.span[2 * i + 1] = 0;
  }
}

EP_ENTRY(32, 1) ep_advance(const __grid_constant__ EpArgs a) {
  if (threadIdx.x == 0) *a.round_base = ep_number_after(*a.round_base, static_cast<uint32_t>(a.stamp));
}

/* Ends a round: the next round's time stamps go into the next row. */
EP_ENTRY(32, 1) ep_next_round(const __grid_constant__ EpArgs a) {
  if (threadIdx.x == 0) a.control[a.rank]->replay++;
}

/* Does nothing, in place of a call. Its measured time shows how much launch and clock add to the measured time of
 * a call. */
EP_ENTRY(32, 1) ep_empty(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  ep_span_stage(a, EP_STAGE);
  ep_span_end(a);
}

#endif
