/* The dispatch of layout expert for small batches. The senders count the rows of each expert, or with EP_COUNT_IDS
 * the receivers do. */
#ifdef EP_COUNT_IDS
#include "ll/dispatch_ids.cuh"
#else
#include "ll/dispatch_counts.cuh"
#endif
