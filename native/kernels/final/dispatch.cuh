/* The dispatch of layout expert for large batches. A rank stores one row of a token on each rank, or with EP_TEAM
 * also all rows on its own rank. */
#ifdef EP_TEAM
#include "final/dispatch_home.cuh"
#else
#include "final/dispatch_once.cuh"
#endif
