/* Which ranks are on which host: N hosts of G ranks, rank r on host r / G. A rank's place
 * is its number on its host.
 */
#ifndef EP_TOPOLOGY_CUH
#define EP_TOPOLOGY_CUH

#include "common/ptx.cuh"

constexpr int32_t EP_PER_NODE = EP_RANKS / EP_NODES;

EP_DEVICE int32_t ep_node_of(int32_t rank) { return rank / EP_PER_NODE; }

/* The rank on host `node` that has this rank's place. */
EP_DEVICE int32_t ep_rail(const EpArgs &a, int32_t node) { return node * EP_PER_NODE + a.rank % EP_PER_NODE; }

/* Whether a rank is on this rank's host, which holds for this rank too. */
EP_DEVICE bool ep_is_near(const EpArgs &a, int32_t rank) { return ep_node_of(rank) == ep_node_of(a.rank); }

#endif
