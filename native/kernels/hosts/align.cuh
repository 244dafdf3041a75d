/* The kernels of common/align.cuh for ranks of several hosts. They use the table of hosts/transport.cuh. */
#include "common/align.cuh"
#include "hosts/transport.cuh"

/* Waits until all ranks have reached this alignment. A rank may send the signal of the next alignment while this one is
 * still on its way, and signals may overtake each other. So a signal adds 1 to a word and does not set the word. */
EP_ENTRY(32, 1) ep_align_hosts(const __grid_constant__ EpArgs a) {
  if (ep_gave_up(a)) return;
  EpControl *mine = a.control[0];
  const uint32_t tag = mine->epoch + 1;
  for (int32_t peer = static_cast<int32_t>(threadIdx.x); peer < a.ranks; peer += 32) ep_signal(a, peer, ep_aligned_at(a, a.rank), 1, EP_NET_ADD);
  for (int32_t peer = static_cast<int32_t>(threadIdx.x); peer < a.ranks; peer += 32) {
    if (!ep_wait_counted(a, ep_aligned_at(a, peer), {EP_PHASE_ALIGN, -1, peer}, tag)) break;
  }
  __syncwarp();
  if (threadIdx.x == 0) mine->epoch = tag;
}

EP_ENTRY(32, 1) ep_stamp_hosts(const __grid_constant__ EpArgs a) {
  if (threadIdx.x != 0) return;
  const uint64_t row = static_cast<uint64_t>(a.control[0]->replay) * static_cast<uint64_t>(a.stamp_slots);
  a.stamps[row + static_cast<uint64_t>(a.stamp)] = globaltimer();
}

EP_ENTRY(32, 1) ep_next_round_hosts(const __grid_constant__ EpArgs a) {
  if (threadIdx.x == 0) a.control[0]->replay++;
}
