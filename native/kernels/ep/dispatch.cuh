/* Dispatch sends every token to the ranks of its experts. It is launched either split, as ep_dispatch_async and then
 * ep_dispatch_wait, or fused in one grid whose blocks first send and then receive. There is no barrier over the grid
 * between the two halves. Instead, each step waits for a word that the step before it writes. The monitors wait for
 * the counters of written parts, and write the count words. The auxiliary block waits for the count words, and writes
 * the ready flag. The copying blocks wait for the ready flag. So all blocks of a grid must be resident, and both
 * halves of a split call must have the same grid.
 *
 * The buffers may be used again after a combine on all ranks. Dispatches without a combine between them need a
 * barrier over ranks between calls. */
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
