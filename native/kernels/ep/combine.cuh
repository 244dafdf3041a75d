/* Combine sends experts' rows back to the ranks of their tokens, and sums them there with the router weights. It
 * is launched as ep_combine_async and then ep_combine_wait, or as one kernel. All blocks of a grid must run at the
 * same time. A dispatch with the same memory (state) and algorithm must run before the combine.
 *
 * Every row has its own slot. Rows are added in top-k order (under dedup in rank order), so the sum has the same
 * bits in every run. */
#include "common/halves.cuh"
#include "ep/combine_wait.cuh"

static __device__ void ep_combine_receive(const EpArgs &a) {
  if (blockIdx.x < static_cast<uint32_t>(a.wait_sms)) {
    wait_for_all_arrivals(a);
  } else {
    reduce_and_copy_to_output(a);
  }
}

EP_HALVES(ep_combine, send_tokens_back, ep_combine_receive)

EP_ENTRY(EP_THREADS, 1) ep_copy_shared_outputs(const __grid_constant__ EpArgs a) {
  pdl_wait();
  copy_shared_expert_outputs(a);
  pdl_launch();
}
