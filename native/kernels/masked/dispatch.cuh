/* The dispatch of layout masked. The senders count the rows of each expert, or with EP_COUNT_IDS the receivers do. */
#ifdef EP_COUNT_IDS
#include "masked/dispatch_ids.cuh"
#else
#include "masked/dispatch_counts.cuh"
#endif
