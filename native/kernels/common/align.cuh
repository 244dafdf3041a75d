/* Kernels that a session launches around calls: the start alignment over all ranks, time stamps, the advance of call
 * numbers, and a kernel that does nothing. Each runs as one block of 32 threads. */
#ifndef EP_ALIGN_CUH /* a unit of its own too: gcc warns of #pragma once there */
#define EP_ALIGN_CUH

#include "common/check.cuh"

/* Returns the control words of a rank. They have the same offset in all heaps. */
EP_DEVICE EpControl *ep_control(const EpArgs &a, int rank) {
#ifdef EP_SURVIVORS
  return reinterpret_cast<EpControl *>(ep_heap(a, rank) + (reinterpret_cast<uint8_t *>(a.control[a.rank]) - ep_heap(a, a.rank)));
#else
  return a.control[rank];
#endif
}

/* Signals to all ranks that this rank has reached alignment `tag`, and waits until all ranks have reached it. Each
 * lane signals to one rank and waits for it. */
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

static const uint64_t EP_MOST_FLIGHT_NS = 5000; /* bounds the measured time; on the emulated driver a flag takes longer */

/* Aligns the ranks: waits until all ranks have reached this alignment. Each rank numbers its alignments itself, so
 * that a graph with alignments can be replayed.
 *
 * A flight is the time that a flag takes from one rank to another, about 0.7 us on 2 H100. The rank that comes last
 * finds the flags of the others and could leave at once, a flight before the others see its flag. So every rank stays
 * for at least one flight. Then all ranks leave at the same time, whichever comes last. Without this wait, one
 * process measured 3.4 us for a call and another process 4.2 us.
 *
 * If a.stamp is not 0, the kernel measures the flight: it makes a.stamp further alignments, and takes their mean
 * time. The flight is the smallest of these means since set-up. a.stamp is even, because with two ranks each rank
 * waits for the other in only every second alignment. */
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

/* Writes the global timer to slot a.stamp of this replay. */
EP_ENTRY(32, 1) ep_stamp(const __grid_constant__ EpArgs a) {
  if (threadIdx.x != 0) return;
  uint64_t row = static_cast<uint64_t>(a.control[a.rank]->replay) * static_cast<uint64_t>(a.stamp_slots);
  a.stamps[row + static_cast<uint64_t>(a.stamp)] = globaltimer();
}

/* Initialises a.stamp pairs of span readings: see EpArgs.span. */
EP_ENTRY(32, 1) ep_clear_spans(const __grid_constant__ EpArgs a) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < a.stamp; i += 32) {
    a.span[2 * i] = ~static_cast<uint64_t>(0);
    a.span[2 * i + 1] = 0;
  }
}

/* Counts a.stamp calls as done. */
EP_ENTRY(32, 1) ep_advance(const __grid_constant__ EpArgs a) {
  if (threadIdx.x == 0) *a.round_base = ep_number_after(*a.round_base, static_cast<uint32_t>(a.stamp));
}

/* Ends a round: the next round writes its time stamps into the next row. */
EP_ENTRY(32, 1) ep_next_round(const __grid_constant__ EpArgs a) {
  if (threadIdx.x == 0) a.control[a.rank]->replay++;
}

/* Does nothing. The time that a clock reads for this kernel is included in every time that the clock reads. */
EP_ENTRY(32, 1) ep_empty(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  ep_span_stage(a, EP_STAGE); /* it has passed every stage */
  ep_span_end(a);
}

#endif
