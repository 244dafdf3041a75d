/* Assigns ranks to hosts: of N hosts with G ranks each, rank r is on host r / G. A rank's place is its number on
 * its host. */
#pragma once

#include "common/ptx.cuh"

/* Values of EP_ROUTE. DIRECT: dispatch sends a message straight to the rank of its expert, and combine sends a row
 * straight to the rank of its token. RAIL: dispatch sends a token to another host once, to the rank with the sender's
 * place, which forwards the token on its host. In combine that rank sums its host's rows of the token and sends the sum
 * back, see combine_rail.cuh. */
#define EP_ROUTE_DIRECT 0
#define EP_ROUTE_RAIL 1
#ifndef EP_ROUTE
#define EP_ROUTE EP_ROUTE_DIRECT
#endif

constexpr int32_t EP_PER_NODE = EP_RANKS / EP_NODES;

EP_DEVICE int32_t ep_node_of(int32_t rank) { return rank / EP_PER_NODE; }

EP_DEVICE int32_t ep_rail(const EpArgs &a, int32_t node) { return node * EP_PER_NODE + a.rank % EP_PER_NODE; }

EP_DEVICE bool ep_is_near(const EpArgs &a, int32_t rank) { return ep_node_of(rank) == ep_node_of(a.rank); }
