/* combine_masked in two kernels, as dispatch_split.cuh splits dispatch_masked. The sender
 * waits until every rank has begun the previous call; in a steady state all have.
 * With EP_DIRECT 0 it also waits for the weights of this call. A rank sends its weights
 * when it begins the call; the sender occupies its SMs until the last rank has sent them.
 */
#define MASKED_HALVES /* do not compile combine_masked itself */
#include "masked/combine.cuh"

EP_ENTRY(EP_THREADS, 1) combine_masked_send(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  RankCall c = rank_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  rank_announce(a, c);
  masked_combine_async(a, c);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  ep_span_end(a);
}

EP_ENTRY(EP_THREADS, 1) combine_masked_recv(const __grid_constant__ EpArgs a) {
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  RankCall c = rank_call(a);
  if (ep_warp_leaves(a, c.number)) return;
  EP_NUMBER_DONE(a, c.number);
  masked_combine_wait(a, c);
  ep_span_end(a);
}
