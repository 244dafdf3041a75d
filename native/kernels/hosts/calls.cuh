/* The kernels that epcomm launches around calls, for ranks of several hosts. One binary holds all, because each
 * such binary contains NVSHMEM's device library. */
#include "epcomm/calls.cuh"
#include "hosts/align.cuh"

/* Returns the offset of the word with rank `from`'s description of call `number`. Region 0 has one such word for each
 * rank and for even and odd numbers. After them it has the number of calls compared so far. */
EP_DEVICE uint64_t ep_said_at(const EpArgs &a, uint32_t number, int32_t from) {
  return a.region[0] + 8ull * ((number & 1u) * static_cast<uint64_t>(a.ranks) + static_cast<uint64_t>(from));
}

/* Checks this rank's ids and compares the calls of all ranks, as ep_agree does, but over the network. Needs one block
 * of 32 threads. */
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
    if (!ep_wait_call(a, ep_said_at(a, number, peer), what, number, 32, &seen)) break;
    if (seen != word) ep_fault(a, what, word, seen);
  }
  __syncwarp();
  if (threadIdx.x == 0) *calls = number;
}
