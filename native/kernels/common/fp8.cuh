/* Casts to blockwise FP8. The results have the same bits as those of ep_quantize8, but take a third of the
 * instructions. A lane has 16 elements, and 8 lanes share a scale. If an element is NaN, the scale of its
 * group is NaN. */
#pragma once

#include "common/dtypes.cuh"

EP_DEVICE uint32_t fp8_amax_bits(uint32_t bits, uint32_t word) {
  uint32_t hi = word & 0x7fff0000u, lo = word << 16 & 0x7fff0000u;
  return max(bits, max(hi, lo));
}

/* Returns the largest of `bits` and the magnitudes of 8 elements, compared as integers so that NaN is the largest. */
EP_DEVICE uint32_t fp8_amax_bits(uint32_t bits, uint4 v) {
  bits = fp8_amax_bits(fp8_amax_bits(bits, v.x), v.y);
  return fp8_amax_bits(fp8_amax_bits(bits, v.z), v.w);
}

struct Fp8Scale {
  float scale, inverse, subtract;
};

EP_DEVICE Fp8Scale fp8_scale(uint32_t amax_bits) {
  float amax = __uint_as_float(max(amax_bits, __float_as_uint(1e-4f)));
  Fp8Scale s;
  s.scale = __fdiv_rn(amax, 448.0f);
  s.inverse = __frcp_rn(s.scale);
  /* An infinite scale has the inverse 0. Then fp8_divide would compute 0 * -scale, which is NaN. With `subtract` 0,
   * finite elements become 0. */
  s.subtract = s.inverse == 0.0f ? 0.0f : -s.scale;
  return s;
}

/* Returns x / scale, exact enough that the cast to e4m3 is correct. It makes one Newton step from the rounded
 * reciprocal (Markstein), which is faster than a division. */
EP_DEVICE float fp8_divide(float x, const Fp8Scale &s) {
  float q = __fmul_rn(x, s.inverse);
  return __fmaf_rn(__fmaf_rn(q, s.subtract, x), s.inverse, q);
}

EP_DEVICE uint32_t fp8_pair(uint32_t word, const Fp8Scale &s) {
  return cvt_e4m3x2(fp8_divide(bf16_high(word), s), fp8_divide(bf16_low(word), s));
}

/* Quantizes the 16 elements of a lane, and stores the scale of their group. All 32 lanes call it. */
EP_DEVICE uint4 fp8_quantize(uint4 a, uint4 b, float *scale) {
  uint32_t bits = fp8_amax_bits(fp8_amax_bits(0, a), b);
  for (int i = 1; i < 8; i *= 2) bits = max(bits, __shfl_xor_sync(EP_FULL_WARP, bits, i));
  Fp8Scale s = fp8_scale(bits);
  *scale = s.scale;
  return make_uint4(fp8_pair(a.x, s) | fp8_pair(a.y, s) << 16, fp8_pair(a.z, s) | fp8_pair(a.w, s) << 16,
                    fp8_pair(b.x, s) | fp8_pair(b.y, s) << 16, fp8_pair(b.z, s) | fp8_pair(b.w, s) << 16);
}
