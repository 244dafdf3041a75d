/* Quantizes activated values to MXFP4 or NVFP4, with the same bits as ep_quantize8, but in fewer instructions. */
#pragma once

#include "silu/activate.cuh"

/* Rounds x to e2m1, ties to even. A magnitude below 1 must become a multiple of 0.5: adding 2^22 in float32 rounds in
 * this way. For a larger magnitude, the function rounds the float's bits as an integer. */
EP_DEVICE uint32_t silu_e2m1(float x) {
  const float a = fminf(fabsf(x), 6.0f);
  const uint32_t b = __float_as_uint(a);
  const uint32_t normal = (b + 0x1fffffu - 0x3f000000u + (b >> 22 & 1u)) >> 22;
  const uint32_t small = __float_as_uint(__fadd_rn(a, 4194304.0f)) & 3u;
  return (a < 1.0f ? small : normal) | (__float_as_uint(x) >> 28 & 8u);
}

/* Quantizes eight values of a lane. All 32 lanes call it, because neighbouring lanes share a scale. */
template <int dtype>
EP_DEVICE EpQuantized silu_fp4(const float (&z)[8], float global) {
  const float amax = lanes_max<dtype == EP_MXFP4 ? 4 : 2>(amax8(z));
  EpQuantized q = {{0, 0}, 0};
  float factor;
  if constexpr (dtype == EP_MXFP4) {
    q.scale = e8m0_even(amax);
    factor = e8m0_inverse(q.scale);
  } else {
    q.scale = cvt_e4m3x2(0.0f, __fmul_rn(global, __fmul_rn(amax, 1.0f / 6.0f))) & 0xffu;
    const float s = e4m3_decode(q.scale);
    factor = s == 0.0f ? 0.0f : __frcp_rn(__fmul_rn(s, __frcp_rn(global)));
  }
#pragma unroll
  for (int i = 0; i < 8; i++) q.payload.x |= silu_e2m1(__fmul_rn(z[i], factor)) << (4 * i);
  return q;
}
