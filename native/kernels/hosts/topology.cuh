/* Assigns ranks to hosts: there are N hosts of G ranks, and rank r is on host r / G. A rank's place is its number on
 * its host. The file also defines the routes by which tokens and rows cross hosts. */
#pragma once

#include "common/ptx.cuh"

/* Values of EP_ROUTE.
 * DIRECT: in dispatch every message goes to the rank of its expert; in combine every row goes to the rank of its
 * token.
 * RAIL: in dispatch a token is sent to another host once. It goes to the rank there that has the sender's place, and
 * that rank forwards it. In combine the rows of a token of another host are first summed on their host, by the rank
 * that has the place of the token's rank, see combine_rail.cuh. A rank's rail is the set of ranks with its place on
 * all hosts. */
#define EP_ROUTE_DIRECT 0
#define EP_ROUTE_RAIL 1
#ifndef EP_ROUTE
#define EP_ROUTE EP_ROUTE_DIRECT
#endif

constexpr int32_t EP_PER_NODE = EP_RANKS / EP_NODES;

EP_DEVICE int32_t ep_node_of(int32_t rank) { return rank / EP_PER_NODE; }

/* Returns the rank on host `node` that has this rank's place. */
EP_DEVICE int32_t ep_rail(const EpArgs &a, int32_t node) { return node * EP_PER_NODE + a.rank % EP_PER_NODE; }

/* Returns whether a rank is on this rank's host; true for this rank itself. */
EP_DEVICE bool ep_is_near(const EpArgs &a, int32_t rank) { return ep_node_of(rank) == ep_node_of(a.rank); }
