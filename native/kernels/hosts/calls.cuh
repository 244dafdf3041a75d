/* The kernels that epcomm launches around calls, for ranks of several hosts. One binary holds all, because each
 * such binary contains NVSHMEM's device library. */
#include "common/align.cuh"
#include "epcomm/calls.cuh"
#include "hosts/transport.cuh"

/* The kernels of common/align.cuh. Their words are in the table of hosts/transport.cuh. */

/* Waits until all ranks have begun the batch, as ep_align does. A rank may begin the next alignment while a signal
 * is still on its way. So a signal adds 1 to the word, and no signal can overwrite a later one. */
EP_ENTRY(32, 1) ep_align_hosts(const __grid_constant__ EpArgs a) {
  if (ep_gave_up(a)) return;
  EpControl *mine = a.control[0];
  const uint32_t tag = mine->epoch + 1;
  for (int32_t peer = static_cast<int32_t>(threadIdx.x); peer < a.ranks; peer += 32) ep_signal(a, peer, ep_aligned_at(a, a.rank), 1, EP_NET_ADD);
  for (int32_t peer = static_cast<int32_t>(threadIdx.x); peer < a.ranks; peer += 32) {
    auto there = [tag](uint64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v) - tag) >= 0; }; /* modulo 2^32 */
    if (!ep_wait_for(a, ep_aligned_at(a, peer), {EP_PHASE_ALIGN, -1, peer}, tag, there)) break;
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

/* Returns the offset of a word in region 0, which has [2, ranks] words: word [n & 1, r] is rank r's description of
 * call n. Then comes the number of calls compared so far. */
EP_DEVICE uint64_t ep_said_at(const EpArgs &a, uint32_t number, int32_t from) {
  return a.region[0] + 8ull * ((number & 1u) * static_cast<uint64_t>(a.ranks) + static_cast<uint64_t>(from));
}

/* Does the work of ep_agree over the network, with one block of 32 threads. */
EP_ENTRY(32, 1) ep_agree_hosts(const __grid_constant__ EpArgs a) {
  if (ep_gave_up(a)) return;
  uint64_t *calls = ep_own_word(a, a.region[0] + 16ull * static_cast<uint64_t>(a.ranks));
  const uint32_t number = ep_number_after(static_cast<uint32_t>(*calls), 1);
  const uint64_t word = static_cast<uint64_t>(number) << 32 | a.about;
  const int32_t first = ep_check_ids(a) ? static_cast<int32_t>(threadIdx.x) : a.ranks;
  for (int32_t peer = first; peer < a.ranks; peer += 32) ep_signal(a, peer, ep_said_at(a, number, a.rank), word);
  for (int32_t peer = first; peer < a.ranks; peer += 32) {
    const EpWait what = {EP_PHASE_AGREE, -1, peer};
    uint64_t seen;
    if (!ep_await_announcement(a, ep_said_at(a, number, peer), what, number, &seen)) break;
    if (seen != word) ep_fault(a, what, word, seen);
  }
  __syncwarp();
  if (threadIdx.x == 0) *calls = number;
}
