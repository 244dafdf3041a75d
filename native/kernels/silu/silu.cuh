/* Defines the SwiGLU kernel for the dtype EP_DTYPE. D is the number of columns. A launch may have any number of
 * blocks. */
#include "silu/activate.cuh"

#if EP_DTYPE == EP_BF16
/* Writes an array [rows, D] of BF16. D is a multiple of 8. */
EP_ENTRY(EP_THREADS, 1) fused_silu(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_each_piece(a, [&](uint64_t row, uint32_t c, const float (&z)[8]) {
    if (c < EP_HIDDEN) *reinterpret_cast<uint4 *>(a.out + 2 * (row * EP_HIDDEN + c)) = bf16_pack(z);
  });
  pdl_launch();
}
#elif EP_DTYPE == EP_FP8
/* Quantizes eight values, with the same bits as ep_quantize8<EP_FP8>, but in fewer instructions. */
EP_DEVICE uint2 silu_fp8(const float (&z)[8], const Fp8Scale &s) {
  float y[8];
#pragma unroll
  for (int i = 0; i < 8; i++) y[i] = fp8_divide(z[i], s);
  return make_uint2(cvt_e4m3x2(y[1], y[0]) | cvt_e4m3x2(y[3], y[2]) << 16, cvt_e4m3x2(y[5], y[4]) | cvt_e4m3x2(y[7], y[6]) << 16);
}

/* Writes an array [rows, D] of e4m3 and an array [D/128, max_rows] of float32 scales. D is a multiple of 128. */
EP_ENTRY(EP_THREADS, 1) fused_silu_fp8(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_each_piece(a, [&](uint64_t row, uint32_t c, const float (&z)[8]) {
    const Fp8Scale s = fp8_scale(__float_as_uint(lanes_max<16>(amax8(z))));
    if (c >= EP_HIDDEN) return;
    *reinterpret_cast<uint2 *>(a.out + row * EP_HIDDEN + c) = silu_fp8(z, s);
    if (c % 128 == 0) reinterpret_cast<float *>(a.scales)[c / 128 * a.max_rows + row] = s.scale;
  });
  pdl_launch();
}
#elif EP_DTYPE == EP_MXFP4
#include "silu/fp4.cuh"

/* Writes an array [rows, D/2] of bytes with two e2m1 values each, and an array [rows, D/32] of e8m0 scales. D is a
 * multiple of 32. */
EP_ENTRY(EP_THREADS, 1) fused_silu_mxfp4(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_each_piece(a, [&](uint64_t row, uint32_t c, const float (&z)[8]) {
    const EpQuantized q = silu_fp4<EP_MXFP4>(z, 1.0f);
    if (c >= EP_HIDDEN) return;
    *reinterpret_cast<uint32_t *>(a.out + (row * EP_HIDDEN + c) / 2) = q.payload.x;
    if (c % 32 == 0) a.scales[(row * EP_HIDDEN + c) / 32] = static_cast<uint8_t>(q.scale);
  });
  pdl_launch();
}
#else
#include "silu/nvfp4.cuh"
#endif
