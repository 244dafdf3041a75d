/* Operations between hosts: a put (a copy to another rank, then a change of a word there), a signal (only the
 * change of a word), and waits for both. hosts/nvshmem.cuh implements them with NVSHMEM. It is compiled only once for
 * each architecture, because NVSHMEM's headers take seconds to compile.
 *
 * A target is given by its address in this rank's own symmetric heap, and lies at the same offset in the heap of
 * `rank`. If a warp calls a function, all its lanes call it with equal arguments. */
#pragma once

#include "common/ptx.cuh"

#ifdef EP_EMULATE
extern "C" {
void emul_net_put(void *to, const void *from, size_t bytes, uint64_t *word, uint64_t value, int add, int rank);
void emul_net_signal(uint64_t *word, uint64_t value, int add, int rank);
void emul_net_quiet(void);
}
#define ep_net_signal emul_net_signal
#define ep_net_quiet emul_net_quiet
EP_DEVICE void ep_net_seen(uint64_t *, uint64_t) {}
EP_DEVICE void ep_net_put_warp(void *to, const void *from, size_t bytes, uint64_t *word, uint64_t value, int add, int rank) {
  __syncwarp();
  if (lane_id() == 0) emul_net_put(to, from, bytes, word, value, add, rank);
  __syncwarp();
}
#else
extern "C" {
__device__ void ep_net_put_warp(void *to, const void *from, unsigned long long bytes, void *word, unsigned long long value, int add, int rank);
__device__ void ep_net_signal(void *word, unsigned long long value, int add, int rank);
__device__ void ep_net_seen(void *word, unsigned long long value);
__device__ void ep_net_quiet(void);
}
#endif

#define EP_NET_SET 0
#define EP_NET_ADD 1

/* Copies bytes to another rank. After they have arrived, the word there is set to value, or value is added. The
 * source must not change until net_quiet has returned, or until the other rank has answered. One warp calls it. */
EP_DEVICE void net_put(void *to, const void *from, uint32_t bytes, uint64_t *word, uint64_t value, int op, int32_t rank) {
  ep_net_put_warp(to, from, bytes, word, value, op, rank);
}

/* Sets a word or adds to it. The change may arrive before earlier puts and signals. One thread calls it. */
EP_DEVICE void net_signal(uint64_t *word, uint64_t value, int op, int32_t rank) {
  ep_net_signal(word, value, op, rank);
}

/* Makes the data of a put from another host visible to this GPU. One thread calls it, after it has seen `value`
 * in the word that the put sets. On some machines the network card's writes are not visible without this call. */
EP_DEVICE void net_seen(uint64_t *word, uint64_t value) {
  ep_net_seen(word, value);
}

/* Waits until the sources of all puts of this warp have been read. */
EP_DEVICE void net_quiet() {
  __syncwarp();
  if (lane_id() == 0) ep_net_quiet();
  __syncwarp();
}
