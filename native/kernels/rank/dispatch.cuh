/* The dispatch of layout rank. Elements go to a slot, or with EP_HOME to the receiver's output. EP_STAGED shares most
 * code with EP_HOME, but elements go to a slot, and some warps of a block receive while its other warps send. */
#if defined(EP_HOME) || defined(EP_STAGED)
#include "rank/dispatch_home.cuh"
#else
#include "rank/dispatch_slots.cuh"
#endif
