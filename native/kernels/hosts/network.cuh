/* Operations between hosts: a put with a signal, a signal, and waiting for them. This header
 * declares them. hosts/nvshmem.cuh implements them with NVSHMEM; it is compiled once for an
 * architecture and linked to every kernel. So kernels include no header of NVSHMEM, which
 * would take seconds to compile and has types of the same names as ours.
 *
 * Addresses are in this rank's own symmetric heap, and stand for the same offset in the
 * heap of `rank`. A function for a warp is called by all lanes of the warp with equal
 * arguments.
 */
#ifndef EP_NETWORK_CUH
#define EP_NETWORK_CUH

#include "common/ptx.cuh"

#ifdef EP_EMULATE
/* Implemented in native/emul/driver/nvshmem.cpp: a network that delays and reorders. */
extern "C" {
void emul_net_put(void *to, const void *from, size_t bytes, uint64_t *word, uint64_t value, int add, int rank);
void emul_net_signal(uint64_t *word, uint64_t value, int add, int rank);
void emul_net_quiet(void);
}
#else
extern "C" {
__device__ void ep_net_put_warp(void *to, const void *from, unsigned long long bytes, void *word, unsigned long long value, int add, int rank);
__device__ void ep_net_signal(void *word, unsigned long long value, int add, int rank);
__device__ void ep_net_seen(void *word, unsigned long long value);
__device__ void ep_net_quiet(void);
}
#endif

/* How a put changes its word once its bytes have arrived. */
#define EP_NET_SET 0
#define EP_NET_ADD 1

/* A warp copies bytes, and sets or adds to a word after they have arrived. The function
 * returns before they have arrived; the source must not change until net_quiet, or until
 * the other rank has answered. */
EP_DEVICE void net_put(void *to, const void *from, uint32_t bytes, uint64_t *word, uint64_t value, int op, int32_t rank) {
#ifdef EP_EMULATE
  __syncwarp();
  if (lane_id() == 0) emul_net_put(to, from, bytes, word, value, op, rank);
  __syncwarp();
#else
  ep_net_put_warp(to, from, bytes, word, value, op, rank);
#endif
}

/* One thread sets a word or adds to it. It is not ordered with any put or other signal. */
EP_DEVICE void net_signal(uint64_t *word, uint64_t value, int op, int32_t rank) {
#ifdef EP_EMULATE
  emul_net_signal(word, value, op, rank);
#else
  ep_net_signal(word, value, op, rank);
#endif
}

/* Makes data that was put before a word visible to this GPU. One thread calls it after the
 * word, which another host writes, has the expected value. The network card's writes need
 * this on some machines. */
EP_DEVICE void net_seen(uint64_t *word, uint64_t value) {
#ifndef EP_EMULATE
  ep_net_seen(word, value);
#endif
}

/* A warp waits until everything that it put has left its memory. */
EP_DEVICE void net_quiet() {
  __syncwarp();
#ifdef EP_EMULATE
  if (lane_id() == 0) emul_net_quiet();
#else
  if (lane_id() == 0) ep_net_quiet();
#endif
  __syncwarp();
}

#endif
