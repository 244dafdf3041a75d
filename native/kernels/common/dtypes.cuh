/* Dtypes of tokens: their sizes, and quantization in software with the same bits as the oracle. EP_DTYPE selects one
 * dtype for the whole translation unit.
 *
 *   BF16   a copy
 *   FP8    e4m3, s = max(amax, 1e-4)/448 per 128 elements in float32, q = e4m3(x/s) (DeepEP's recipe)
 *   MXFP4  e2m1, even-mode e8m0 scale per 32 elements (OCP Microscaling 1.0)
 *   NVFP4  e2m1, s = e4m3(g*amax/6) per 16 elements, q = e2m1(x / (s/g)), g the global input scale
 *
 * FP4 is rounded by comparison on every chip, so that all give the same bits. */
#pragma once

#include "common/block.cuh"

#ifndef EP_DTYPE
#define EP_DTYPE EP_BF16
#endif

__host__ __device__ constexpr uint32_t ep_up(uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; }

__host__ __device__ constexpr uint32_t ep_group(int dtype) {
  return dtype == EP_FP8 ? 128 : dtype == EP_MXFP4 ? 32 : dtype == EP_NVFP4 ? 16 : 0;
}
__host__ __device__ constexpr uint32_t ep_payload(int dtype, uint32_t columns) {
  return dtype == EP_BF16 ? 2 * columns : dtype == EP_FP8 ? columns : columns / 2;
}
__host__ __device__ constexpr uint32_t ep_scales(int dtype, uint32_t columns) {
  return dtype == EP_BF16 ? 0 : columns / ep_group(dtype);
}
__host__ __device__ constexpr uint32_t ep_scale_bytes(int dtype) { return dtype == EP_BF16 ? 0 : dtype == EP_FP8 ? 4 : 1; }

/* The rows of a group are rounded up to a multiple of EP_ROW_ALIGN. */
#ifndef EP_ROW_ALIGN
#define EP_ROW_ALIGN (EP_DTYPE == EP_FP8 ? 4 : 1)
#endif
constexpr uint32_t EP_ROW_PAD = EP_ROW_ALIGN;
constexpr uint32_t EP_SCALE_ROWS = 128;

EP_DEVICE float bf16_low(uint32_t pair) { return __uint_as_float(pair << 16); }
EP_DEVICE float bf16_high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

EP_DEVICE uint32_t bf16_pair(float lo, float hi) {
#ifdef EP_EMULATE
  auto one = [](float x) {
    uint32_t b = __float_as_uint(x);
    if (x != x) return 0x7fffu;
    return (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
  };
  return one(lo) | one(hi) << 16;
#else
  uint32_t v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(hi), "f"(lo));
  return v;
#endif
}

EP_DEVICE void bf16_unpack(uint4 v, float (&x)[8]) {
  const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    x[2 * i] = bf16_low(w[i]);
    x[2 * i + 1] = bf16_high(w[i]);
  }
}
/* Adds weight * v to acc. Product and sum are rounded separately, so that every backend gets the same bits. */
EP_DEVICE void bf16_accumulate(float (&acc)[8], uint4 v, float weight) {
  float x[8];
  bf16_unpack(v, x);
#pragma unroll
  for (int i = 0; i < 8; i++) acc[i] = __fadd_rn(acc[i], __fmul_rn(weight, x[i]));
}
EP_DEVICE uint4 bf16_pack(const float (&x)[8]) {
  return make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7]));
}

/* Returns the e2m1 code of the nearest of 0, .5, 1, 1.5, 2, 3, 4, 6, with the sign of x. Ties go to the even code,
 * and larger values become 6. */
EP_DEVICE uint32_t e2m1(float x) {
  float a = fabsf(x);
  uint32_t code = !(a <= 0.25f);
  code += !(a < 0.75f);
  code += !(a <= 1.25f);
  code += !(a < 1.75f);
  code += !(a <= 2.5f);
  code += !(a < 3.5f);
  code += !(a <= 5.0f);
  return x != x ? 7u : code | (__float_as_uint(x) >> 28 & 8u);
}

EP_DEVICE float e4m3_decode(uint32_t code) {
  uint32_t e = code >> 3 & 15u, m = code & 7u;
  float v = e == 0 ? static_cast<float>(m) * 0.001953125f : __uint_as_float((e + 120u) << 23 | m << 20);
  return code & 0x80u ? -v : v;
}

/* Returns the e8m0 scale of a group in even mode: rounds amax to 2^e or 1.5 * 2^e, and returns 2^e / 4. The rounded
 * amax divided by the scale is 4 or 6, and 6 is the largest value of e2m1. */
EP_DEVICE uint32_t e8m0_even(float amax) {
  int32_t e = static_cast<int32_t>((__float_as_uint(amax) + (1u << 21)) >> 23 & 0xffu) - 2;
  return static_cast<uint32_t>(min(max(e, 0), 254));
}

/* Returns 2^(127 - code), the exact reciprocal of the scale. */
EP_DEVICE float e8m0_inverse(uint32_t code) { return __uint_as_float(code < 254u ? (254u - code) << 23 : 0x00400000u); }

/* Returns eight e2m1 codes. Element 2i is in the low four bits of byte i. */
EP_DEVICE uint32_t e2m1_pack(const float (&x)[8], float factor) {
  uint32_t v = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) v |= e2m1(__fmul_rn(x[i], factor)) << (4 * i);
  return v;
}

EP_DEVICE float amax8(const float (&x)[8]) {
  float m = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) m = fmaxf(m, fabsf(x[i]));
  return m;
}

/* One lane's eight quantized elements, and the scale of their group. For FP4 only the payload's first 4 bytes
 * count. */
struct EpQuantized {
  uint2 payload;
  uint32_t scale; /* a float32, or an e8m0 or e4m3 byte */
};

/* Quantizes eight elements of this lane. All 32 lanes call it. `global` is NVFP4's input scale. */
template <int dtype>
EP_DEVICE EpQuantized ep_quantize8(const float (&x)[8], float global) {
  EpQuantized q = {{0, 0}, 0};
  const float amax = lanes_max<dtype == EP_FP8 ? 16 : dtype == EP_MXFP4 ? 4 : 2>(amax8(x));
  if constexpr (dtype == EP_FP8) {
    const float s = __fdiv_rn(fmaxf(amax, 1e-4f), 448.0f);
    q.scale = __float_as_uint(s);
    float y[8];
#pragma unroll
    for (int i = 0; i < 8; i++) y[i] = __fdiv_rn(x[i], s);
    q.payload.x = cvt_e4m3x2(y[1], y[0]) | cvt_e4m3x2(y[3], y[2]) << 16;
    q.payload.y = cvt_e4m3x2(y[5], y[4]) | cvt_e4m3x2(y[7], y[6]) << 16;
  } else if constexpr (dtype == EP_MXFP4) {
    q.scale = e8m0_even(amax);
    q.payload.x = e2m1_pack(x, e8m0_inverse(q.scale));
  } else {
    q.scale = cvt_e4m3x2(0.0f, __fmul_rn(global, __fmul_rn(amax, 1.0f / 6.0f))) & 0xffu;
    const float s = e4m3_decode(q.scale);
    const float factor = s == 0.0f ? 0.0f : __fdiv_rn(1.0f, __fmul_rn(s, __fdiv_rn(1.0f, global)));
    q.payload.x = e2m1_pack(x, factor);
  }
  return q;
}

/* Quantizes a token of `columns` BF16 elements to [payload, padded to 16 bytes][scales], with all threads of the
 * block and no barrier. */
template <int dtype, uint32_t columns>
EP_DEVICE void ep_quantize_token(const uint16_t *x, uint8_t *slot, float global) {
  constexpr uint32_t items = columns / 8;
  const uint4 *in = reinterpret_cast<const uint4 *>(x);
  if constexpr (dtype == EP_BF16) {
    for (uint32_t i = threadIdx.x; i < items; i += blockDim.x) reinterpret_cast<uint4 *>(slot)[i] = ld_readonly(in + i);
    return;
  } else {
    constexpr uint32_t lanes = ep_group(dtype) / 8;
    uint8_t *scales = slot + ep_up(ep_payload(dtype, columns), 16);
    for (uint32_t base = warp_id() * 32; base < items; base += blockDim.x) {
      const uint32_t i = base + lane_id();
      float e[8] = {};
      if (i < items) bf16_unpack(ld_readonly(in + i), e);
      const EpQuantized q = ep_quantize8<dtype>(e, global);
      if (i >= items) continue;
      if constexpr (dtype == EP_FP8) {
        reinterpret_cast<uint2 *>(slot)[i] = q.payload;
        if (i % lanes == 0) reinterpret_cast<uint32_t *>(scales)[i / lanes] = q.scale;
      } else {
        reinterpret_cast<uint32_t *>(slot)[i] = q.payload.x;
        if (i % lanes == 0) scales[i / lanes] = static_cast<uint8_t>(q.scale);
      }
    }
  }
}

struct EpRow {
  int64_t row;
  uint32_t in_group;
  uint32_t first_block; /* NVFP4: the group's first block of 128 scale rows */
};

/* Notes that a row holds a source's token, for the expert at the token's top-k position k. */
EP_DEVICE void ep_note_row(const EpArgs &a, uint64_t row, uint32_t token, uint32_t k) {
  a.src_info[2 * row] = static_cast<int32_t>(token);
  a.src_info[2 * row + 1] = static_cast<int32_t>(k);
}

/* Returns the byte offset of atom `column` of a row. An atom is four scales. Scales are ordered
 * [row/128][column][row%32][row%128/32][4]. */
template <uint32_t columns>
EP_DEVICE uint64_t ep_nvfp4_atom(EpRow r, uint32_t column) {
  constexpr uint32_t atoms = (ep_scales(EP_NVFP4, columns) + 3) / 4;
  const uint64_t block = r.first_block + r.in_group / EP_SCALE_ROWS;
  const uint32_t i = r.in_group % EP_SCALE_ROWS;
  return (((block * atoms + column) * 32 + i % 32) * 4 + i / 32) * 4;
}

template <int dtype, uint32_t columns>
EP_DEVICE void ep_store_scales(uint8_t *out, const uint8_t *scales, EpRow r, int64_t max_rows) {
  constexpr uint32_t n = ep_scales(dtype, columns);
  if constexpr (dtype == EP_FP8) {
    for (uint32_t g = lane_id(); g < n; g += 32)
      reinterpret_cast<uint32_t *>(out)[g * max_rows + r.row] = reinterpret_cast<const uint32_t *>(scales)[g];
  } else if constexpr (dtype == EP_MXFP4) {
    for (uint32_t g = lane_id(); g < n; g += 32) out[r.row * n + g] = scales[g];
  } else if constexpr (dtype == EP_NVFP4) {
    /* Whole atoms can be read, because messages pad scales to 16 bytes. */
    for (uint32_t c = lane_id(); c < (n + 3) / 4; c += 32)
      *reinterpret_cast<uint32_t *>(out + ep_nvfp4_atom<columns>(r, c)) =
          reinterpret_cast<const uint32_t *>(scales)[c];
  }
}

template <uint32_t columns>
EP_DEVICE void ep_zero_scales(uint8_t *out, EpRow r) {
  for (uint32_t c = lane_id(); c < (ep_scales(EP_NVFP4, columns) + 3) / 4; c += 32)
    *reinterpret_cast<uint32_t *>(out + ep_nvfp4_atom<columns>(r, c)) = 0;
}
