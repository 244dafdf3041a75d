/* dispatch_ll in two kernels: the first ends when everything has been sent, and the second,
 * a short one, receives. Between the two kernels the call occupies no SM. The protocol is
 * that of dispatch_ll, see layout.cuh. Both kernels of a call have the same number. The
 * next call's sender starts after this call's receiver has ended.
 */
#include "ll/dispatch.cuh"

EP_ENTRY(EP_THREADS, 1) dispatch_ll_send(const __grid_constant__ EpArgs a) {
  __shared__ LlShared s; /* used by the counting block only */
  ep_span_begin(a);
  pdl_wait();
  ep_drill_delay(a);
  LlCall c = ll_call(a);
  if (ep_block_leaves(a)) return;
  ll_dispatch_async(a, c, s, ll_senders(a, c));
  EP_NUMBER_DONE(a, c.number);
  ep_span_stage(a, EP_STAGE_SENT);
  if (c.warp == 0) ll_clear_headers(a, c);
  ep_span_end(a);
}

EP_ENTRY(EP_THREADS, 1) dispatch_ll_recv(const __grid_constant__ EpArgs a) {
  __shared__ LlShared s;
  ep_span_begin(a);
  pdl_wait();
  LlCall c = ll_call(a);
  if (threadIdx.x == 0) s.failed = s.ready = 0;
  if (ep_block_leaves(a)) return;
  EP_NUMBER_DONE(a, c.number);
  ll_dispatch_wait(a, c, s, 0);
  ep_span_end(a);
}
