/* The combine of layout expert for small batches. Rows of a rank's own tokens are written to a slot like those
 * of other ranks, or with EP_PARTIAL they are summed in registers.
 */
#ifdef EP_PARTIAL
#include "ll/combine_partial.cuh"
#else
#include "ll/combine_slots.cuh"
#endif
