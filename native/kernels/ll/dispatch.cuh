/* Dispatch for small batches, with the output in the layout named expert. The senders count the rows of each expert, or
 * with EP_COUNT_IDS the receivers do. */
#ifdef EP_COUNT_IDS
#include "ll/dispatch_ids.cuh"
#else
#include "ll/dispatch_counts.cuh"
#endif
