/* combine_ll in two kernels, as dispatch_split.cuh splits dispatch_ll. The sender waits
 * until all ranks have begun the previous call; in a steady state they have.
 */
#include "ll/combine.cuh"

EP_ENTRY(EP_THREADS, 1) combine_ll_send(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  ep_drill_delay(a);
  LlCall c = {0, warp_id(), lane_id(), warps_in_block(), blockIdx.x, gridDim.x};
  LlReturnAhead ahead = ll_return_ahead(a, c);
  c.number = ep_number(a);
  if (ep_warp_leaves(a, c.number)) return;
  ll_announce(a, c);
  ll_combine_async(a, c, ahead);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  ep_span_end(a);
}

EP_ENTRY(EP_THREADS, 1) combine_ll_recv(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  LlCall c = ll_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  EP_NUMBER_DONE(a, c.number);
  ll_combine_wait(a, c);
  ep_span_end(a);
}
