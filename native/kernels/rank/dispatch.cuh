/* The dispatch of layout rank. Elements go to a slot; with EP_HOME directly to the output of the peer; with EP_STAGED
 * to a slot that is emptied while other messages still arrive. */
#if defined(EP_HOME) || defined(EP_STAGED)
#include "rank/dispatch_home.cuh"
#else
#include "rank/dispatch_slots.cuh"
#endif
