/* Which ranks are on which host: N hosts of G ranks, rank r on host r / G. A rank's place
 * is its number on its host. Also the route by which tokens and rows cross hosts.
 */
#ifndef EP_TOPOLOGY_CUH
#define EP_TOPOLOGY_CUH

#include "common/ptx.cuh"

/* EP_ROUTE. In dispatch, DIRECT: every message goes to its expert's rank; RAIL: a token
 * goes to another host once, to the rank with the sender's place (the sender's rail), which
 * forwards it. In combine, DIRECT: every row goes to its token's rank; RAIL: rows for
 * another host are first summed by the rank with the place of the token's rank, see
 * combine_rail.cuh. */
#define EP_ROUTE_DIRECT 0
#define EP_ROUTE_RAIL 1
#ifndef EP_ROUTE
#define EP_ROUTE EP_ROUTE_DIRECT
#endif

constexpr int32_t EP_PER_NODE = EP_RANKS / EP_NODES;

EP_DEVICE int32_t ep_node_of(int32_t rank) { return rank / EP_PER_NODE; }

/* The rank on host `node` that has this rank's place. */
EP_DEVICE int32_t ep_rail(const EpArgs &a, int32_t node) { return node * EP_PER_NODE + a.rank % EP_PER_NODE; }

/* Whether a rank is on this rank's host; true for this rank itself. */
EP_DEVICE bool ep_is_near(const EpArgs &a, int32_t rank) { return ep_node_of(rank) == ep_node_of(a.rank); }

#endif
