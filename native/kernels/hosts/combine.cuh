/* Combine over hosts. Receivers wait until all announced rows have arrived, or with EP_ARRIVAL_DATA poll each row. */
#ifdef EP_ARRIVAL_DATA
#include "hosts/combine_ll.cuh"
#else
#include "hosts/combine_counts.cuh"
#endif
