/* dispatch_masked in two kernels: the first ends when everything has been sent, and the
 * second receives. Between the two kernels the call occupies no SM. The protocol is that of
 * dispatch_masked. Both kernels of a call have the same number. The next call's sender
 * starts after this call's receiver has ended.
 */
#define MASKED_HALVES /* do not compile dispatch_masked itself */
#include "masked/dispatch.cuh"

EP_ENTRY(EP_THREADS, 1) dispatch_masked_send(const __grid_constant__ EpArgs a) {
  __shared__ MaskedShared s;
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  ep_drill_delay(a);
  RankCall c = rank_call(a);
  if (ep_block_leaves(a)) return;
  masked_begin(s);
  masked_dispatch_async(a, c, s);
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  masked_clear_heads(a, c);
  ep_span_end(a);
}

EP_ENTRY(EP_THREADS, 1) dispatch_masked_recv(const __grid_constant__ EpArgs a) {
  __shared__ MaskedShared s;
  ep_span_begin(a);
  pdl_wait();
  pdl_launch();
  RankCall c = rank_call(a);
  if (ep_block_leaves(a)) return;
  masked_begin(s);
  EP_NUMBER_DONE(a, c.number);
  masked_dispatch_wait(a, c, s);
  ep_span_end(a);
}
