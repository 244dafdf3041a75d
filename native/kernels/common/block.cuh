/* Copies, sums and maxima by the threads of a block or a warp. */
#pragma once

#include "common/ptx.cuh"

EP_DEVICE uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* Copies `bytes` bytes with `threads` threads; the calling thread is number `thread`. bytes is a multiple of 16,
 * and both addresses are 16-byte aligned. A thread has up to `in_flight` 16-byte loads in flight. Loads are
 * coherent, so the source may be a receive buffer. There is no barrier. */
template <int in_flight>
EP_DEVICE void block_memcpy(void *dst, const void *src, uint32_t bytes, uint32_t thread, uint32_t threads) {
  uint4 *d = static_cast<uint4 *>(dst);
  const uint4 *s = static_cast<const uint4 *>(src);
  const uint32_t vectors = bytes / 16;
  uint32_t i = thread;
  for (; i + (in_flight - 1) * threads < vectors; i += in_flight * threads) {
    uint4 v[in_flight];
#pragma unroll
    for (int j = 0; j < in_flight; j++) v[j] = ld_once(s + i + j * threads);
#pragma unroll
    for (int j = 0; j < in_flight; j++) d[i + j * threads] = v[j];
  }
  for (; i < vectors; i += threads) d[i] = ld_once(s + i);
}

template <int in_flight>
EP_DEVICE void warp_memcpy(void *dst, const void *src, uint32_t bytes) {
  block_memcpy<in_flight>(dst, src, bytes, lane_id(), 32);
}

/* Copies `bytes` bytes from `from` to several rows of the array `rows`, with one warp. Each lane in the mask `owners`
 * passes the number of one row in `row`. */
template <uint32_t in_flight, class Bytes, class Row>
EP_DEVICE void warp_spread(uint8_t *rows, Bytes bytes, const uint8_t *from, Row row, uint32_t owners) {
  const uint32_t vectors = static_cast<uint32_t>(bytes) / 16;
  for (uint32_t base = lane_id(); base - lane_id() < vectors; base += 32 * in_flight) {
    uint4 v[in_flight];
#pragma unroll
    for (uint32_t j = 0; j < in_flight; j++)
      if (base + 32 * j < vectors) v[j] = ld_once(reinterpret_cast<const uint4 *>(from) + base + 32 * j);
    for (uint32_t todo = owners; todo != 0; todo &= todo - 1) {
      const int64_t to = __shfl_sync(EP_FULL_WARP, row, __ffs(todo) - 1);
      uint4 *out = reinterpret_cast<uint4 *>(rows + to * bytes);
#pragma unroll
      for (uint32_t j = 0; j < in_flight; j++)
        if (base + 32 * j < vectors) out[base + 32 * j] = v[j];
    }
  }
}

EP_DEVICE uint32_t warp_prefix_sum(uint32_t v) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    uint32_t below = __shfl_up_sync(EP_FULL_WARP, v, d);
    if (lane_id() >= static_cast<uint32_t>(d)) v += below;
  }
  return v;
}

/* Returns the sum of `v` over the threads from 0 to threadIdx.x. The block has only whole warps. The function begins
 * and ends with a barrier. */
static __device__ __noinline__ uint32_t block_prefix_sum(uint32_t v) {
  __shared__ uint32_t warp_sums[32];
  uint32_t sum = warp_prefix_sum(v);
  if (lane_id() == 31) warp_sums[warp_id()] = sum;
  __syncthreads();
  if (warp_id() == 0) {
    uint32_t w = lane_id() < warps_in_block() ? warp_sums[lane_id()] : 0;
    w = warp_prefix_sum(w);
    warp_sums[lane_id()] = w;
  }
  __syncthreads();
  if (warp_id() > 0) sum += warp_sums[warp_id() - 1];
  __syncthreads();
  return sum;
}

/* Replaces counts[0..n) in shared memory by their inclusive prefix sums. All threads of the block call it; it ends
 * with a barrier. */
static __device__ void block_scan(uint32_t *counts, uint32_t n) {
  uint32_t carry = 0;
  for (uint32_t base = 0; base < n; base += blockDim.x) {
    uint32_t i = base + threadIdx.x;
    uint32_t sum = carry + block_prefix_sum(i < n ? counts[i] : 0);
    if (i < n) counts[i] = sum;
    __syncthreads();
    carry = counts[min(base + blockDim.x, n) - 1];
  }
  __syncthreads();
}

template <int width>
EP_DEVICE float lanes_max(float v) {
#pragma unroll
  for (int d = width / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(EP_FULL_WARP, v, d));
  return v;
}
