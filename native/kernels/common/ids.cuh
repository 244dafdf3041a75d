/* Reads the top-k ids of this rank's tokens. An id has 32 or 64 bits. */
#pragma once

#include "common/ptx.cuh"

/* Returns whether an id is the number of an expert. Other ids must not become indices. */
EP_DEVICE bool ep_is_expert(int32_t id) { return static_cast<uint32_t>(id) < EP_EXPERTS; }

/* Returns the id if it names an expert, else -1. */
EP_DEVICE int32_t ep_checked_expert(int32_t id) { return ep_is_expert(id) ? id : -1; }

/* Returns id j of [tokens, topk]. Of a 64-bit id it returns the lower 32 bits. It does not check the id. A check would
 * wait for the load, so kernels that load several ids at once check them after all loads have begun. */
EP_DEVICE int32_t ep_load_id(const EpArgs &a, uint64_t j) {
  j <<= a.ids_wide;
  return a.topk_ids[j];
}

/* Returns id j, or -1 if it names no expert. */
EP_DEVICE int32_t ep_id(const EpArgs &a, uint64_t j) { return ep_checked_expert(ep_load_id(a, j)); }
