/* The dispatch of layout expert for large batches. Without EP_TEAM, a sender treats its own rank like other ranks
 * (dispatch_final). With EP_TEAM, it stores all rows of its tokens on its own rank itself, and one row of a token on
 * each other rank (dispatch_final_home). */
#ifdef EP_TEAM
#include "final/dispatch_home.cuh"
#else
#include "final/dispatch_once.cuh"
#endif
