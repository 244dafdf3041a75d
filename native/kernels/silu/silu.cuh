/* SwiGLU between an expert's two matrix products: z = gate/(1+exp(-gate)) * up in float32. The kernel reads the number
 * of valid rows from the last row offset, because the host does not know it.
 *
 *   EP_HIDDEN       D, the columns of the output
 *   EP_INTERLEAVED  1: columns gate0, up0, gate1, up1, ...; 0: all gates, then all ups
 *   EP_CLAMP        1: the clamped variant of gpt-oss, with the arguments limit and alpha
 *   EP_IN_FLIGHT    pieces (of 256 columns) that a warp loads while it computes another piece
 *
 * To saturate memory (4.3 TB/s, latency 0.7 us), each of 132 SMs needs 4.3 TB/s x 0.7 us / 132 = 23 KB of loads in
 * flight. A piece is 1 KB.
 *
 * A launch may have any number of blocks; a block has whole warps. */
#include "common/fp8.cuh"

/* Returns x / (1 + exp(-y)). Up to |y| = 12 the relative error is at most 5e-7. `lost` corrects the rounding of the
 * exponent. The bounds of `inside` keep `lost` finite if y is infinite. */
EP_DEVICE float silu_gate(float x, float y) {
#ifdef EP_EMULATE
  const float d = __fadd_rn(1.0f, expf(-y));
  return d > 8.5e37f ? 0.0f : x / d;
#else
  const float log2e = 1.44269504f, ln2 = 0.69314718f;
  const float inside = fminf(fmaxf(y, -87.3f), 100.0f);
  const float t = __fmul_rn(inside, -log2e), lost = __fmul_rn(__fmaf_rn(inside, -log2e, -t), ln2);
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fadd_rn(1.0f, __fmaf_rn(e, lost, e))));
  return __fmul_rn(x, r);
#endif
}

EP_DEVICE float silu(float gate, float up) { return __fmul_rn(silu_gate(gate, gate), up); }

/* Returns (up'+1) * gate' * sigmoid(alpha*gate') with gate' = min(gate, L) and up' = clamp(up, -L, L). */
EP_DEVICE float silu_clamped(float gate, float up, float limit, float alpha) {
  const float g = fminf(gate, limit), u = fminf(fmaxf(up, -limit), limit);
  return __fmul_rn(__fadd_rn(u, 1.0f), silu_gate(g, __fmul_rn(alpha, g)));
}

struct SiluInput {
  uint4 first, second;
};

EP_DEVICE void silu8(const EpSiluArgs &a, const SiluInput &v, float (&z)[8]) {
  float first[8], second[8];
  bf16_unpack(v.first, first);
  bf16_unpack(v.second, second);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    float gate = first[i], up = second[i];
    if (EP_INTERLEAVED) {
      gate = i < 4 ? first[2 * i % 8] : second[2 * i % 8];
      up = i < 4 ? first[2 * i % 8 + 1] : second[2 * i % 8 + 1];
    }
    z[i] = EP_CLAMP ? silu_clamped(gate, up, a.limit, a.alpha) : silu(gate, up);
  }
}

EP_DEVICE uint32_t silu_rows(const EpSiluArgs &a) { return min(a.row_offsets[a.groups], static_cast<uint32_t>(a.max_rows)); }

/* Columns of a piece, 8 for each lane of a warp. Numbers of pieces fit in 32 bits: more would need buffers of 2 TB. */
constexpr uint32_t EP_PIECE = 256;
constexpr uint32_t EP_PIECES = (EP_HIDDEN + EP_PIECE - 1) / EP_PIECE;

EP_DEVICE uint32_t silu_column(uint32_t piece) { return piece % EP_PIECES * EP_PIECE + 8 * lane_id(); }

/* Returns the input of a piece, or zeros from piece `end` on and beyond the end of the row. */
EP_DEVICE SiluInput silu_load(const EpSiluArgs &a, uint32_t piece, uint32_t end) {
  const uint32_t c = silu_column(piece);
  if (piece >= end || c >= EP_HIDDEN) return {{0, 0, 0, 0}, {0, 0, 0, 0}};
  const uint16_t *in = a.in + static_cast<uint64_t>(piece / EP_PIECES) * (2 * EP_HIDDEN) + (EP_INTERLEAVED ? 2 * c : c);
  return {ld_readonly(reinterpret_cast<const uint4 *>(in)),
          ld_readonly(reinterpret_cast<const uint4 *>(in + (EP_INTERLEAVED ? 8 : EP_HIDDEN)))};
}

/* Calls body(row, column, z) for every piece of the valid rows, where z holds the eight activated values from this
 * lane's column on. All lanes call body together; lanes beyond the end of the row pass zeros. To save time, the first
 * pieces are loaded before the number of valid rows is known. */
template <class Body>
EP_DEVICE void silu_each_piece(const EpSiluArgs &a, Body body) {
  const uint32_t step = gridDim.x * warps_in_block(), held = static_cast<uint32_t>(a.max_rows) * EP_PIECES;
  uint32_t u = blockIdx.x + warp_id() * gridDim.x;
  SiluInput ahead[EP_IN_FLIGHT];
#pragma unroll
  for (uint32_t j = 0; j < EP_IN_FLIGHT; j++) ahead[j] = silu_load(a, u + j * step, held);
  const uint32_t pieces = silu_rows(a) * EP_PIECES;
  for (; u < pieces; u += EP_IN_FLIGHT * step) {
#pragma unroll
    for (uint32_t j = 0; j < EP_IN_FLIGHT; j++) {
      const uint32_t at = u + j * step;
      if (at >= pieces) break;
      const SiluInput now = ahead[j];
      ahead[j] = silu_load(a, at + EP_IN_FLIGHT * step, pieces);
      float z[8];
      silu8(a, now, z);
      body(at / EP_PIECES, silu_column(at), z);
    }
  }
}

/* MXFP4 and NVFP4 get the same bits as from ep_quantize8, in fewer instructions. */

/* Rounds to e2m1, ties to even, at most to 6. Below 1, adding 2^22 in float32 rounds to multiples of 0.5. From 1 on,
 * the bits are rounded as an integer. */
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

#if EP_DTYPE == EP_BF16
/* Writes [rows, D] BF16; D is a multiple of 8. */
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

/* Writes [rows, D] e4m3 and float32 scales [D/128, max_rows]; D is a multiple of 128. */
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
/* Writes [rows, D/2] bytes of two e2m1 values, and e8m0 scales [rows, D/32]; D is a multiple of 32. */
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
/* The entries fused_silu_nvfp4 and fused_silu_nvfp4_interleaved. Output: [rows, D/2] bytes of two e2m1 values, and
 * e4m3 scales in the five-dimensional layout; D is a multiple of 64. Each group (an expert's rows) has its own input
 * scale. */
EP_DEVICE uint32_t silu_scale_atom(uint32_t scale) {
  uint32_t atom = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) atom |= __shfl_sync(EP_FULL_WARP, scale, (lane_id() & 24u) + 2 * i) << (8 * i);
  return atom;
}

/* Returns the group of a row: the last group that begins at the row or before it. Each step of the search looks at 32
 * offsets. */
EP_DEVICE uint32_t silu_group(const EpSiluArgs &a, int64_t row) {
  uint32_t first = 0, count = static_cast<uint32_t>(a.groups);
  while (count > 1) {
    const uint32_t step = ceil_div(count, 32), i = lane_id() * step;
    const bool begun = i < count && static_cast<int64_t>(a.row_offsets[first + i]) <= row;
    const uint32_t last = static_cast<uint32_t>(__popc(__ballot_sync(EP_FULL_WARP, begun))) - 1;
    first += last * step;
    count = min(step, count - last * step);
  }
  return first;
}

EP_DEVICE EpRow silu_place(const EpSiluArgs &a, uint32_t group, uint32_t in_group) {
  const uint32_t start = a.row_offsets[group];
  return {static_cast<int64_t>(start) + in_group, in_group, start / EP_SCALE_ROWS + a.scale_offsets[group]};
}

/* Sets the scales after each group's last row to zero, up to the next multiple of 128 rows. */
EP_DEVICE void silu_zero_padding(const EpSiluArgs &a) {
  const uint32_t warps = gridDim.x * warps_in_block(), rows = static_cast<uint32_t>(a.groups) * EP_SCALE_ROWS;
  for (uint32_t u = blockIdx.x + warp_id() * gridDim.x; u < rows; u += warps) {
    const uint32_t group = u / EP_SCALE_ROWS, i = u % EP_SCALE_ROWS;
    const uint32_t n = a.row_offsets[group + 1] - a.row_offsets[group];
    if (n % EP_SCALE_ROWS == 0 || i < n % EP_SCALE_ROWS) continue;
    ep_zero_scales<EP_HIDDEN>(a.scales, silu_place(a, group, n / EP_SCALE_ROWS * EP_SCALE_ROWS + i));
  }
}

EP_DEVICE void silu_nvfp4(const EpSiluArgs &a) {
  silu_each_piece(a, [&](uint64_t row, uint32_t c, const float (&z)[8]) {
    const uint32_t group = silu_group(a, row);
    const EpQuantized q = silu_fp4<EP_NVFP4>(z, a.input_scales[group]);
    const uint32_t atom = silu_scale_atom(q.scale);
    if (c >= EP_HIDDEN) return;
    *reinterpret_cast<uint32_t *>(a.out + (row * EP_HIDDEN + c) / 2) = q.payload.x;
    if (c % 64 != 0) return;
    const EpRow r = silu_place(a, group, static_cast<uint32_t>(row) - a.row_offsets[group]);
    *reinterpret_cast<uint32_t *>(a.scales + ep_nvfp4_atom<EP_HIDDEN>(r, c / 64)) = atom;
  });
  silu_zero_padding(a);
}

#if EP_INTERLEAVED
EP_ENTRY(EP_THREADS, 1) fused_silu_nvfp4_interleaved(const __grid_constant__ EpSiluArgs a) {
#else
EP_ENTRY(EP_THREADS, 1) fused_silu_nvfp4(const __grid_constant__ EpSiluArgs a) {
#endif
  pdl_wait();
  silu_nvfp4(a);
  pdl_launch();
}
#endif
