/* Kernels that send and receive in one launch, or with EP_SPLIT in two launches with the same call number. The
 * first ends when everything has been sent, and the second receives. Between them the call occupies no SM. The
 * next call's sender starts after this call's receiver has ended. */
#pragma once

/* Defines the entries of a kernel. run<sends, receives>(a) does what its template arguments say. */
#ifdef EP_SPLIT
#define EP_ENTRIES_OF(name, run)                                                                  \
  EP_ENTRY(EP_THREADS, 1) name##_send(const __grid_constant__ EpArgs a) { run<true, false>(a); } \
  EP_ENTRY(EP_THREADS, 1) name##_recv(const __grid_constant__ EpArgs a) { run<false, true>(a); }
#else
#define EP_ENTRIES_OF(name, run) \
  EP_ENTRY(EP_THREADS, 1) name(const __grid_constant__ EpArgs a) { run<true, true>(a); }
#endif
#define EP_ENTRIES(name, run) EP_ENTRIES_OF(name, run) /* `name` may be a macro */
