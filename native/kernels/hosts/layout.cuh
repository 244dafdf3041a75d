/* The memory of the hosts kernels. Messages, output rows and the functions that copy them are the same as in the ep
 * kernels. The memory that other ranks write is different. kernels/cuda/declare/hosts.go computes the same sizes.
 *
 * The letters mean the same as in ep/layout.cuh, and N is the number of hosts. */
#pragma once

/* In the ep kernels ep_region and ep_word return addresses in any rank's memory, from EpArgs.heap. Here they return
 * addresses in this rank's own memory. So the second halves of dispatch and combine, which only read data that has
 * arrived, are included from ep/. The first halves, which write to other ranks, are in this folder. */
#define EP_HOSTS /* leaves out what is only for one host */
#define ep_region ep_region_of_one_host
#define ep_word ep_word_of_one_host
#include "ep/layout.cuh"
#undef ep_region
#undef ep_word
#include "hosts/topology.cuh"
#include "hosts/transport.cuh"

EP_DEVICE uint8_t *ep_region(const EpArgs &a, int, EpRegion region) { return ep_own_heap(a) + a.region[region]; }

EP_DEVICE uint64_t *ep_word(const EpArgs &a, int rank, EpRegion region, uint32_t index) {
  return reinterpret_cast<uint64_t *>(ep_region(a, rank, region)) + index;
}

/* Indices into EpArgs.region. The regions with the numbers of EP_D_SEND, EP_D_RECV and EP_C_RECV are the same as in
 * ep/layout.cuh. An arrival word counts the parts that have arrived from a rank since set-up. An announcement is a
 * word with a call number and a count, see transport.cuh. "From the same place of each host" means: from the rank of
 * each host that has this rank's place. */
enum EpHostRegion {
  EP_H_SEND = EP_D_SEND,     /* [T, message] */
  EP_H_RECV = EP_D_RECV,     /* [L, R, T, message] */
  EP_H_COUNT = EP_D_COUNT,   /* [L, R] announcements: number of tokens from a source for a local expert */
  EP_H_ARRIVED = EP_D_RANK,  /* [R] arrival words of dispatch */
  EP_H_SEEN = EP_D_ROWS,     /* [R] parts of earlier calls that EP_H_ARRIVED counts; own rank only */
  EP_H_RETURN = EP_C_RECV,   /* [T, K, row] */
  EP_H_RETURNED = EP_C_COUNT, /* [R] arrival words of combine */
  EP_H_RETURN_COUNT = EP_C_RANK, /* [R] announcements: number of rows that a rank returns */
  EP_H_RETURN_SEEN = 8,      /* [R] rows of earlier calls that EP_H_RETURNED counts; own rank only */
  EP_H_RELAY,                /* [N, T, message] from the same place of each host */
  EP_H_RELAY_FLAG,           /* [N, T] the number of the call after a message of EP_H_RELAY has arrived */
  EP_H_RELAY_COUNT,          /* [N] announcements: number of messages in EP_H_RELAY */
  EP_H_GATHER,               /* [N, T, K, row] rows for tokens of the same place of each host; later their sums */
  EP_H_SUMS,                 /* [N, T, 2 rows] a host's sum of a token's rows */
  EP_H_RECIPE,               /* [N, T, K] ids and weights of the same place of each host */
  EP_H_RAIL_WORDS,           /* see combine_rail.cuh */
};

/* Words of EpArgs.counters that follow the words of ep/layout.cuh. There are two sets, for calls of even and of odd
 * number. A call zeroes the other set, which no block uses at that time. */
enum EpHostCounter {
  EP_SLOTS = EP_COUNTERS,                /* [2, E] number of slots at an expert that senders have taken */
  EP_RAIL_SLOTS = EP_SLOTS + 2 * EP_EXPERTS, /* [2, N] number of slots at a host that senders have taken */
  EP_RELAYED = EP_RAIL_SLOTS + 2 * EP_NODES, /* [2, E]: for each host of sources and each expert of this host, the number of slots that forwarded messages have taken */
};

EP_DEVICE uint64_t ep_host_at(const EpArgs &a, EpHostRegion region, uint64_t index) { return a.region[region] + 8 * index; }

/* Sets the counters of the next call to zero. Block 0 calls it. */
EP_DEVICE void ep_clear_next(const EpArgs &a, uint32_t call) {
  const uint32_t next = (call + 1) & 1u;
  for (uint32_t i = threadIdx.x; i < EP_EXPERTS; i += blockDim.x) {
    st_relaxed_gpu(ep_counter(a, EP_SLOTS + next * EP_EXPERTS + i), 0);
    st_relaxed_gpu(ep_counter(a, EP_RELAYED + next * EP_EXPERTS + i), 0);
  }
  for (uint32_t i = threadIdx.x; i < EP_NODES; i += blockDim.x) st_relaxed_gpu(ep_counter(a, EP_RAIL_SLOTS + next * EP_NODES + i), 0);
}
