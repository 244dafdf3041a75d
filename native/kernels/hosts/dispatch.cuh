/* Dispatch over hosts. Receivers wait until all announced messages have arrived, or with EP_ARRIVAL_DATA poll each
 * message. */
#ifdef EP_ARRIVAL_DATA
#include "hosts/dispatch_ll.cuh"
#else
#include "hosts/dispatch_counts.cuh"
#endif
