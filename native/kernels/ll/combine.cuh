/* combine_ll. Rows of a rank's own tokens are written to a slot like those of other ranks, or with EP_PARTIAL
 * they are summed in registers. With EP_AFTER_FINAL the call follows a dispatch of the final kernels.
 */
#ifdef EP_AFTER_FINAL
#include "final/polled.cuh"
#endif
#ifdef EP_PARTIAL
#include "ll/combine_partial.cuh"
#else
#include "ll/combine_slots.cuh"
#endif
