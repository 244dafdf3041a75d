/* Replaces the experts' MLP in verifications. It dequantizes each row, multiplies it by a factor of the row's expert in
 * single precision, and rounds it to BF16. It works with any grid and block. */
#ifndef EP_EXPERT_CUH /* gcc warns of #pragma once in a main file */
#define EP_EXPERT_CUH

#include "common/check.cuh"

#define EP_GROUPS (EP_LOCAL_EXPERTS + EP_SHARED)

/* Returns the factor of a group's expert, as workloads.ExpertGain and workloads.SharedGain. */
EP_DEVICE float expert_gain(const EpArgs &a, int32_t group) {
  if (EP_SHARED && group == 0) return 1.25f;
  int32_t expert = a.rank * EP_LOCAL_EXPERTS + group - EP_SHARED;
  return 0.5f + static_cast<float>(expert % 64) / 64.0f;
}

EP_DEVICE float expert_e4m3(uint32_t code) {
  uint32_t e = code >> 3 & 15u, m = code & 7u;
  float v = e == 0 ? static_cast<float>(m) * 0.001953125f : __uint_as_float((e + 120u) << 23 | m << 20);
  if (e == 15u && m == 7u) v = __uint_as_float(0x7fc00000u);
  return code & 0x80u ? -v : v;
}

EP_DEVICE float expert_e2m1(uint32_t code) {
  uint32_t e = code >> 1 & 3u, m = code & 1u;
  float v = e == 0 ? static_cast<float>(m) * 0.5f : __uint_as_float((e + 126u) << 23 | m << 22);
  return code & 8u ? -v : v;
}

EP_DEVICE float expert_e8m0(uint32_t code) {
  if (code == 255u) return __uint_as_float(0x7fc00000u);
  return __uint_as_float(code == 0 ? 0x00400000u : code << 23);
}

EP_DEVICE uint16_t expert_bf16(float x) {
  uint32_t b = __float_as_uint(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(b >> 16 | 0x40u);
  return static_cast<uint16_t>((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

struct ExpertRow {
  int64_t row;
  int32_t in_group, first_block;
};

EP_DEVICE float expert_value(const EpArgs &a, const ExpertRow &at, int32_t column) {
#if EP_DTYPE == EP_BF16
  const uint16_t *x = reinterpret_cast<const uint16_t *>(a.out);
  return __uint_as_float(static_cast<uint32_t>(x[at.row * EP_HIDDEN + column]) << 16);
#elif EP_DTYPE == EP_FP8
  const float *scales = reinterpret_cast<const float *>(a.out_scales);
  return expert_e4m3(a.out[at.row * EP_HIDDEN + column]) * scales[column / 128 * a.max_rows + at.row];
#else
  uint32_t pair = a.out[at.row * (EP_HIDDEN / 2) + column / 2];
  float v = expert_e2m1(column & 1 ? pair >> 4 : pair & 15u);
#if EP_DTYPE == EP_MXFP4
  return v * expert_e8m0(a.out_scales[at.row * (EP_HIDDEN / 32) + column / 32]);
#else
  const int64_t columns = (EP_HIDDEN / 16 + 3) / 4;
  int32_t g = column / 16, r = at.in_group & 127;
  int64_t block = at.first_block + at.in_group / 128;
  int64_t i = (((block * columns + g / 4) * 32 + r % 32) * 4 + r / 32) * 4 + g % 4;
  float global = a.input_scales == nullptr ? 1.0f : a.input_scales[0];
  return v * (expert_e4m3(a.out_scales[i]) * (1.0f / global));
#endif
#endif
}

EP_DEVICE int32_t expert_group(const EpArgs &a, int64_t row) {
  int32_t lo = 0, hi = EP_GROUPS - 1;
  while (lo < hi) {
    int32_t mid = (lo + hi + 1) / 2;
    if (static_cast<int64_t>(a.row_offsets[mid]) <= row) lo = mid;
    else hi = mid - 1;
  }
  return lo;
}

EP_ENTRY(1024, 1) ep_expert(const __grid_constant__ EpArgs a) {
  /* A faulty dispatch may write wrong offsets, which must not lead outside the buffers. */
  int64_t rows = min(static_cast<int64_t>(a.row_offsets[EP_GROUPS]), a.max_rows);
  uint16_t *y = const_cast<uint16_t *>(a.y);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    int32_t group = expert_group(a, row);
    ExpertRow at = {row, static_cast<int32_t>(row - static_cast<int64_t>(a.row_offsets[group])), 0};
#if EP_DTYPE == EP_NVFP4
    at.first_block = static_cast<int32_t>(a.row_offsets[group] / 128u + a.scale_offsets[group]);
    if (at.first_block < 0 || at.first_block + at.in_group / 128 >= (a.max_rows + EP_GROUPS * 128) / 128) continue;
#endif
    float gain = expert_gain(a, group);
    for (int32_t c = static_cast<int32_t>(threadIdx.x); c < EP_HIDDEN; c += static_cast<int32_t>(blockDim.x))
      y[row * EP_HIDDEN + c] = expert_bf16(expert_value(a, at, c) * gain);
  }
}

#endif
