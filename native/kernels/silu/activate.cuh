/* Computes SwiGLU between an expert's two matrix products, in float32. The kernel reads the number of valid rows from
 * the last row offset, because the host does not know this number.
 *
 *   EP_HIDDEN       D, the columns of the output
 *   EP_INTERLEAVED  1: columns gate0, up0, gate1, up1, ...; 0: all gates, then all ups
 *   EP_CLAMP        1: the clamped variant of gpt-oss, with the arguments limit and alpha
 *   EP_IN_FLIGHT    pieces (of 256 columns) that a warp loads while it computes another piece */
#pragma once

#include "common/fp8.cuh"

/* Returns x / (1 + exp(-y)). Up to |y| = 12 the relative error is at most 5e-7. `inside` is y within bounds, so that
 * the arithmetic stays finite if y is infinite. `lost` is the rounding error of the exponent t, by which the result
 * is corrected. */
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

/* Returns (u + 1) * g * sigmoid(alpha * g). g is gate, at most `limit`. u is up, at least -limit and at most limit. */
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

/* Number of columns that a warp handles at a time, 8 in each lane. An index of a piece fits in 32 bits, because 2^32
 * pieces would need buffers of 2 TB. */
constexpr uint32_t EP_PIECE = 256;
constexpr uint32_t EP_PIECES = (EP_HIDDEN + EP_PIECE - 1) / EP_PIECE;

EP_DEVICE uint32_t silu_column(uint32_t piece) { return piece % EP_PIECES * EP_PIECE + 8 * lane_id(); }

/* Returns this lane's input of a piece. It returns zeros if the piece is not below `end`, or if the lane's columns
 * lie beyond the end of the row. */
EP_DEVICE SiluInput silu_load(const EpSiluArgs &a, uint32_t piece, uint32_t end) {
  const uint32_t c = silu_column(piece);
  if (piece >= end || c >= EP_HIDDEN) return {{0, 0, 0, 0}, {0, 0, 0, 0}};
  const uint16_t *in = a.in + static_cast<uint64_t>(piece / EP_PIECES) * (2 * EP_HIDDEN) + (EP_INTERLEAVED ? 2 * c : c);
  return {ld_readonly(reinterpret_cast<const uint4 *>(in)),
          ld_readonly(reinterpret_cast<const uint4 *>(in + (EP_INTERLEAVED ? 8 : EP_HIDDEN)))};
}

/* Calls body(row, column, z) for every piece of the valid rows. `column` is this lane's first column of the piece,
 * and z holds the lane's eight activated values. All lanes call body together. Lanes beyond the end of the row
 * pass zeros. The function loads its first pieces before it knows the number of valid rows, so that the two loads
 * overlap. */
template <class Body>
EP_DEVICE void silu_each_piece(const EpSiluArgs &a, Body body) {
  const uint32_t step = gridDim.x * warps_in_block(), held = static_cast<uint32_t>(a.max_rows) * EP_PIECES;
  uint32_t u = blockIdx.x + warp_id() * gridDim.x;
  SiluInput ahead[EP_IN_FLIGHT];
#pragma unroll
  for (uint32_t j = 0; j < EP_IN_FLIGHT; j++) ahead[j] = silu_load(a, u + j * step, held);
  const uint32_t pieces = min(a.row_offsets[a.groups], static_cast<uint32_t>(a.max_rows)) * EP_PIECES;
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
