/* The dispatch of layout rank. With EP_BULK rows are moved by bulk copies. With EP_HOME elements go
 * directly to the output of the peer, otherwise to a slot. */
#if defined(EP_BULK)
#include "rank/dispatch_bulk.cuh"
#elif defined(EP_HOME)
#include "rank/dispatch_home.cuh"
#else
#include "rank/dispatch_slots.cuh"
#endif
