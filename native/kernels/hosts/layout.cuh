/* The memory of the hosts kernels. Messages and output rows are the same as in the ep kernels, but memory that
 * other ranks write differs. kernels/cuda/declare/hosts.go computes the same sizes.
 *
 * N is the number of hosts, R of ranks, E of all experts, L of the experts of a rank. T is the largest number of
 * tokens of a rank, and K top-k. */
#pragma once

/* Includes ep/layout.cuh, but replaces its ep_region and ep_word by functions that return addresses in this rank's own
 * memory. The receiving halves (ep/dispatch_wait.cuh, ep/combine_wait.cuh) read only this memory, so they work over
 * hosts too. */
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

/* Indices into EpArgs.region. An arrival word counts all parts that have ever arrived from a rank. An announcement has
 * a call number and a count, see transport.cuh. "From each host" means: from the rank of that host that has the same
 * place as this rank (topology.cuh). */
enum EpHostRegion {
  EP_H_SEND = EP_D_SEND,     /* [T, message] */
  EP_H_RECV = EP_D_RECV,     /* [L, R, T, message] */
  EP_H_COUNT = EP_D_COUNT,   /* [L, R] announcements: a source's tokens for a local expert */
  EP_H_ARRIVED = EP_D_RANK,  /* [R] arrival words of dispatch */
  EP_H_SEEN = EP_D_ROWS,     /* [R] value of EP_H_ARRIVED after the last call; only this rank uses it */
  EP_H_RETURN = EP_C_RECV,   /* [T, K, row] */
  EP_H_RETURNED = EP_C_COUNT, /* [R] arrival words of combine */
  EP_H_RETURN_COUNT = EP_C_RANK, /* [R] announcements: rows that a rank returns */
  EP_H_RETURN_SEEN = 8,      /* [R] value of EP_H_RETURNED after the last call; only this rank uses it */
  EP_H_RELAY,                /* [N, T, message] from each host */
  EP_H_RELAY_FLAG,           /* [N, T] call whose message has arrived in EP_H_RELAY */
  EP_H_RELAY_COUNT,          /* [N] announcements: messages in EP_H_RELAY */
  EP_H_GATHER,               /* [N, T, K, row] rows for tokens from each host; later their sums */
  EP_H_SUMS,                 /* [N, T, 2, row] a host's sum of a token's rows. An f32 sum has the size of two rows. */
  EP_H_RECIPE,               /* [N, T, K] ids and weights from each host */
  EP_H_RAIL_WORDS,           /* see combine_rail.cuh */
};

/* Words of EpArgs.counters after those of ep/layout.cuh. A call zeroes the next call's set. */
enum EpHostCounter {
  EP_SLOTS = EP_COUNTERS,                /* [2, E] slots at an expert that senders have taken */
  EP_RAIL_SLOTS = EP_SLOTS + 2 * EP_EXPERTS, /* [2, N] slots at a host that senders have taken */
  EP_RELAYED = EP_RAIL_SLOTS + 2 * EP_NODES, /* [2, N, E / N] by source host and this host's expert: slots taken by
                                                forwarded messages */
};

EP_DEVICE uint64_t ep_host_at(const EpArgs &a, EpHostRegion region, uint64_t index) { return a.region[region] + 8 * index; }

EP_DEVICE void ep_clear_next(const EpArgs &a, uint32_t call) {
  const uint32_t next = (call + 1) & 1u;
  for (uint32_t i = threadIdx.x; i < EP_EXPERTS; i += blockDim.x) {
    st_relaxed_gpu(ep_counter(a, EP_SLOTS + next * EP_EXPERTS + i), 0);
    st_relaxed_gpu(ep_counter(a, EP_RELAYED + next * EP_EXPERTS + i), 0);
  }
  for (uint32_t i = threadIdx.x; i < EP_NODES; i += blockDim.x) st_relaxed_gpu(ep_counter(a, EP_RAIL_SLOTS + next * EP_NODES + i), 0);
}
