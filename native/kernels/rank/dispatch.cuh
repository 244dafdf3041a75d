/* The dispatch of layout rank. Elements go to a slot, or with EP_HOME directly to the output of the peer. */
#ifdef EP_HOME
#include "rank/dispatch_home.cuh"
#else
#include "rank/dispatch_slots.cuh"
#endif
