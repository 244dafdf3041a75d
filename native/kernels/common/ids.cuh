/* Top-k ids of this rank's tokens, of 32 or 64 bits. */
#ifndef EP_IDS_CUH
#define EP_IDS_CUH

#include "common/ptx.cuh"
#include "ep_args.h"

/* Returns id j of [tokens, topk], and -1 where it is no expert: any other id would be used as
 * an address. Of 64 bits the lower 32 count. */
EP_DEVICE int32_t ep_id(const EpArgs &a, uint64_t j) {
  const int32_t id = a.topk_ids[j << a.ids_wide];
  return static_cast<uint32_t>(id) < EP_EXPERTS ? id : -1;
}

#endif
