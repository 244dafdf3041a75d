/* Implements hosts/network.cuh with NVSHMEM, as a separate translation unit.
 *
 * NVRTC defines uint64_t as unsigned long long. NVSHMEM's library was compiled with uint64_t as unsigned long, so the
 * mangled names differ. The specialization below has NVRTC's name and calls the library's function. We do not inline
 * the library (NVSHMEM_ENABLE_ALL_DEVICE_INLINING), because the inlined code has no path on which the GPU itself drives
 * an InfiniBand card. */
#ifndef EP_EMULATE /* the emulated bridge is empty */

#include <nvshmem.h>
#include <nvshmemx.h>

template <threadgroup_t SCOPE>
__device__ void nvshmemi_transfer_put_signal_dispatch(void *to, void *from, size_t bytes, void *word, unsigned long value,
                                                      nvshmemi_amo_t op, int pe, bool nbi, nvshmemx_qp_handle_t qp);

template <>
__device__ void nvshmemi_transfer_put_signal_dispatch<NVSHMEMI_THREADGROUP_WARP>(void *to, void *from, size_t bytes, void *word,
                                                                                 unsigned long long value, nvshmemi_amo_t op, int pe,
                                                                                 bool nbi, nvshmemx_qp_handle_t qp) {
  nvshmemi_transfer_put_signal_dispatch<NVSHMEMI_THREADGROUP_WARP>(to, from, bytes, word, static_cast<unsigned long>(value), op, pe,
                                                                   nbi, qp);
}

#define EP_NETWORK extern "C" __device__ __noinline__ void

EP_NETWORK ep_net_put_warp(void *to, const void *from, unsigned long long bytes, void *word, unsigned long long value, int add,
                           int rank) {
  nvshmemx_putmem_signal_nbi_warp(to, from, bytes, static_cast<uint64_t *>(word), value, add ? NVSHMEM_SIGNAL_ADD : NVSHMEM_SIGNAL_SET,
                                  rank);
}

EP_NETWORK ep_net_signal(void *word, unsigned long long value, int add, int rank) {
  nvshmemx_signal_op(static_cast<uint64_t *>(word), value, add ? NVSHMEM_SIGNAL_ADD : NVSHMEM_SIGNAL_SET, rank);
}

/* Callers have already seen the value, so the library's wait, which has no deadline, ends at once. */
EP_NETWORK ep_net_seen(void *word, unsigned long long value) {
  nvshmem_signal_wait_until(static_cast<uint64_t *>(word), NVSHMEM_CMP_GE, value);
}

EP_NETWORK ep_net_quiet(void) { nvshmem_quiet(); }

#endif
