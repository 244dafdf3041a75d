/* Which ranks are on which host: N hosts of G ranks, rank r on host r / G. A rank's place
 * is its number on its host. Also the route by which tokens and rows cross hosts.
 */
#ifndef EP_TOPOLOGY_CUH
#define EP_TOPOLOGY_CUH

#include "common/ptx.cuh"

/* EP_ROUTE, of dispatch: every message goes to its expert's rank, or those for another
 * host go there once, to the rank with the sender's place (its rail), which forwards. Of
 * combine: every row goes to its token's rank, or rows for another host are summed by the
 * rank with that rank's place, see combine_rail.cuh. */
#define EP_ROUTE_DIRECT 0
#define EP_ROUTE_RAIL 1
#ifndef EP_ROUTE
#define EP_ROUTE EP_ROUTE_DIRECT
#endif

constexpr int32_t EP_PER_NODE = EP_RANKS / EP_NODES;

EP_DEVICE int32_t ep_node_of(int32_t rank) { return rank / EP_PER_NODE; }

/* The rank on host `node` that has this rank's place. */
EP_DEVICE int32_t ep_rail(const EpArgs &a, int32_t node) { return node * EP_PER_NODE + a.rank % EP_PER_NODE; }

/* Whether a rank is on this rank's host, which holds for this rank too. */
EP_DEVICE bool ep_is_near(const EpArgs &a, int32_t rank) { return ep_node_of(rank) == ep_node_of(a.rank); }

#endif
