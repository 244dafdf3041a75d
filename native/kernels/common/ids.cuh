/* Top-k ids of this rank's tokens, of 32 or 64 bits. */
#ifndef EP_IDS_CUH
#define EP_IDS_CUH

#include "common/ptx.cuh"
#include "ep_args.h"

/* Returns id j of [tokens, topk], or -1 if it is not the number of an expert, because kernels use ids as
 * indices into memory. Of a 64-bit id, only the lower 32 bits are read. */
EP_DEVICE int32_t ep_id(const EpArgs &a, uint64_t j) {
  const int32_t id = a.topk_ids[j << a.ids_wide];
  return static_cast<uint32_t>(id) < EP_EXPERTS ? id : -1;
}

#endif
