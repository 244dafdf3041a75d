/* Receivers wait until all rows have been counted, or with EP_ARRIVAL_DATA poll each row. */
#ifdef EP_ARRIVAL_DATA
#include "hosts/combine_ll.cuh"
#else
#include "hosts/combine_counts.cuh"
#endif
