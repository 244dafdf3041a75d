/* The entries of kernels that send and receive. Without EP_SPLIT, one launch does both. With EP_SPLIT, a call has two
 * launches. The first ends when everything has been sent, and the second receives. Between the launches the call
 * occupies no SM. The next call's first launch starts after this call's second launch has ended. */
#pragma once

/* EP_ENTRIES(name, call) defines the entries. The first launch runs call<true>(a), and with EP_FUSED also
 * receives. The second launch runs call<false>(a). */
#define EP_LAUNCH(name, call, first) \
  EP_ENTRY(EP_THREADS, 1) name(const __grid_constant__ EpArgs a) { call<first>(a); }
#ifdef EP_SPLIT
#define EP_LAUNCHES(name, call) EP_LAUNCH(name##_send, call, true) EP_LAUNCH(name##_recv, call, false)
static const bool EP_FUSED = false;
#else
#define EP_LAUNCHES(name, call) EP_LAUNCH(name, call, true)
static const bool EP_FUSED = true;
#endif
#define EP_ENTRIES(name, call) EP_LAUNCHES(name, call) /* expands a name that is a macro */
