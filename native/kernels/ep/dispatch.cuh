/* Dispatch sends every token to the ranks of its experts. It is launched as ep_dispatch_async and then
 * ep_dispatch_wait, or as one kernel. There is no barrier over the grid. Instead, each step waits for words that the
 * step before has written:
 * - monitor blocks wait for counters of the parts that sending blocks have written
 * - the auxiliary block waits for counts from the monitor blocks of all ranks
 * - copying blocks wait for the auxiliary block's ready flag
 * So all blocks of a grid must run at the same time, and both halves must have the same grid.
 *
 * Between two dispatches, all ranks must make a combine or a barrier. */
#include "common/halves.cuh"
#include "ep/dispatch_expand.cuh"

static __device__ void ep_dispatch_receive(const EpArgs &a) {
  const uint32_t copiers = gridDim.x - 1;
  if (blockIdx.x == copiers) {
    ep_offsets_block(a);
    return;
  }
  bool ok = !EP_SHARED || ep_copy_shared(a, blockIdx.x, copiers);
  ok = ok && ep_await_ready(a);
  if (!ok) return;
  if (EP_ALGO == EP_DEDUP) {
    ok = ep_expand_messages(a, blockIdx.x, copiers);
  } else {
    ep_copy_experts(a, blockIdx.x, copiers);
  }
  if (ok) ep_leave_copying(a);
}

EP_HALVES(ep_dispatch, ep_dispatch_send, ep_dispatch_receive)
