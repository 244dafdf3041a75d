/* The combine of layout rank. With EP_BULK rows are moved by bulk copies. */
#ifdef EP_BULK
#include "rank/combine_bulk.cuh"
#else
#include "rank/combine_vector.cuh"
#endif
