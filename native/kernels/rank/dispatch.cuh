/* The dispatch of layout rank. Elements go to a slot, or with EP_HOME to the peer's output. With EP_STAGED,
 * receivers empty slots while other messages still arrive. */
#if defined(EP_HOME) || defined(EP_STAGED)
#include "rank/dispatch_home.cuh"
#else
#include "rank/dispatch_slots.cuh"
#endif
