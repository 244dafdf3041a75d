/* Kernels for measurements in which a matrix product of cuBLASLt runs at the same time as calls: beside_fill writes the
 * factors of the product, and beside_hold and beside_traffic run in place of calls. */
#include "common/check.cuh"

/* Mixes the bits of x (Wellons' lowbias32). Factors must have no pattern, because the electrical power of a product,
 * and so the clock rate, depends on their values. */
EP_DEVICE uint32_t beside_bits(uint32_t x) {
  x ^= x >> 16;
  x *= 0x21f0aaadu;
  x ^= x >> 15;
  x *= 0xd35a2d97u;
  return x ^ (x >> 15);
}

/* Fills max_rows 32-bit words of `out` with factors between 1/2 and 1 of either sign: BF16, or e4m3 if stamp is 1. */
EP_ENTRY(1024, 1) beside_fill(const __grid_constant__ EpArgs a) {
  uint32_t *out = reinterpret_cast<uint32_t *>(a.out);
  uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < static_cast<uint64_t>(a.max_rows); i += step) {
    uint32_t r = beside_bits(static_cast<uint32_t>(i) + a.round * 0x9e3779b9u);
    out[i] = a.stamp == 1 ? (r & 0x87878787u) | 0x30303030u : (r & 0x807f807fu) | 0x3f003f00u;
  }
}

/* Occupies SMs for delay_ns. It is launched with so much shared memory that no other block fits on its SM. */
EP_ENTRY(1024, 1) beside_hold(const __grid_constant__ EpArgs a) {
  ep_drill_delay(a);
  __syncthreads();
}

/* Occupies SMs and moves memory for delay_ns. Blocks copy max_rows 16-byte vectors from `y` to `out`. Both arrays are
 * too large for the L2 cache. */
EP_ENTRY(1024, 1) beside_traffic(const __grid_constant__ EpArgs a) {
  uint64_t start = globaltimer();
  const uint4 *from = reinterpret_cast<const uint4 *>(a.y);
  uint4 *to = reinterpret_cast<uint4 *>(a.out);
  uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < static_cast<uint64_t>(a.max_rows); i += step)
    to[i] = from[i];
  while (globaltimer() - start < static_cast<uint64_t>(a.delay_ns)) sleep_ns(200);
}
