/* Defines the SwiGLU kernel for the dtype EP_DTYPE. D (EP_HIDDEN) is the number of output columns. A launch may have
 * any number of blocks. For each dtype, SILU_KERNEL is the kernel's name. silu_store stores eight activated values of a
 * row, from column c on. All lanes of a warp call it, also those beyond the end of the row, because they share a
 * maximum. */
#include "silu/activate.cuh"

#if EP_DTYPE == EP_BF16
#define SILU_KERNEL fused_silu

/* Writes an array [rows, D] of BF16. D is a multiple of 8. */
EP_DEVICE void silu_store(const EpSiluArgs &a, uint64_t row, uint32_t c, const float (&z)[8]) {
  if (c < EP_HIDDEN) *reinterpret_cast<uint4 *>(a.out + 2 * (row * EP_HIDDEN + c)) = bf16_pack(z);
}
#elif EP_DTYPE == EP_FP8
#define SILU_KERNEL fused_silu_fp8

/* Quantizes eight values, with the same bits as ep_quantize8<EP_FP8>, but in fewer instructions. */
EP_DEVICE uint2 silu_fp8(const float (&z)[8], const Fp8Scale &s) {
  float y[8];
#pragma unroll
  for (int i = 0; i < 8; i++) y[i] = fp8_divide(z[i], s);
  return make_uint2(cvt_e4m3x2(y[1], y[0]) | cvt_e4m3x2(y[3], y[2]) << 16, cvt_e4m3x2(y[5], y[4]) | cvt_e4m3x2(y[7], y[6]) << 16);
}

/* Writes an array [rows, D] of e4m3 and an array [D/128, max_rows] of float32 scales. D is a multiple of 128. */
EP_DEVICE void silu_store(const EpSiluArgs &a, uint64_t row, uint32_t c, const float (&z)[8]) {
  const Fp8Scale s = fp8_scale(__float_as_uint(lanes_max<16>(amax8(z))));
  if (c >= EP_HIDDEN) return;
  *reinterpret_cast<uint2 *>(a.out + row * EP_HIDDEN + c) = silu_fp8(z, s);
  if (c % 128 == 0) reinterpret_cast<float *>(a.scales)[c / 128 * a.max_rows + row] = s.scale;
}
#elif EP_DTYPE == EP_MXFP4
#include "silu/fp4.cuh"
#define SILU_KERNEL fused_silu_mxfp4

/* Writes an array [rows, D/2] of bytes with two e2m1 values each, and an array [rows, D/32] of e8m0 scales. D is a
 * multiple of 32. */
EP_DEVICE void silu_store(const EpSiluArgs &a, uint64_t row, uint32_t c, const float (&z)[8]) {
  const EpQuantized q = silu_fp4<EP_MXFP4>(z, 1.0f);
  if (c >= EP_HIDDEN) return;
  *reinterpret_cast<uint32_t *>(a.out + (row * EP_HIDDEN + c) / 2) = q.payload.x;
  if (c % 32 == 0) a.scales[(row * EP_HIDDEN + c) / 32] = static_cast<uint8_t>(q.scale);
}
#else
#include "silu/nvfp4.cuh"
#endif

EP_ENTRY(EP_THREADS, 1) SILU_KERNEL(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_each_piece(a, [&](uint64_t row, uint32_t c, const float (&z)[8]) { silu_store(a, row, c, z); });
#if EP_DTYPE == EP_NVFP4
  silu_zero_padding(a);
#endif
  pdl_launch();
}
