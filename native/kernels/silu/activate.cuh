/* SwiGLU between the experts' two products: z = gate/(1+exp(-gate)) * up in
 * float32. The host does not know how many rows are valid: the kernel reads it
 * from the last row offset, and touches no row beyond.
 *
 *   EP_COLS         D, the columns of the output: the problem's hidden size
 *   EP_INTERLEAVED  1: columns gate0, up0, gate1, up1, ...; 0: all gates, then all ups
 *   EP_CLAMP        1: the clamped variant of gpt-oss, with limit and alpha of the arguments
 *   EP_IN_FLIGHT    pieces of 256 columns that a warp loads before it computes
 *
 * A call moves 4.5 to 6 bytes an element and computes 20 to 35 instructions on it. So
 * it waits for memory, as long as enough loads are in flight: 132 SMs need 23 KB each
 * to cover 0.7 us at 4.3 TB/s. A warp's piece is 1 KB.
 */
#ifndef EP_ACTIVATE_CUH
#define EP_ACTIVATE_CUH

#include "common/fp8.cuh"

#ifndef EP_COLS
#define EP_COLS EP_HIDDEN
#endif
#ifndef EP_INTERLEAVED
#define EP_INTERLEAVED 0
#endif
#ifndef EP_CLAMP
#define EP_CLAMP 0
#endif
#ifndef EP_THREADS
#define EP_THREADS 1024
#endif
#ifndef EP_IN_FLIGHT
#define EP_IN_FLIGHT 1
#endif

/* x / (1 + exp(-y)). The quotient is two units off at most, where __fdiv_rn is
 * exact at three times the instructions: neither shows behind the exponential,
 * and all outputs have 8 bits or fewer. The reciprocal becomes 0 from 2^126 on. */
EP_DEVICE float silu_gate(float x, float y) {
  const float d = __fadd_rn(1.0f, expf(-y));
#ifdef EP_EMULATE
  return d > 8.5e37f ? 0.0f : x / d;
#else
  return __fdividef(x, d);
#endif
}

EP_DEVICE float silu(float gate, float up) { return __fmul_rn(silu_gate(gate, gate), up); }

/* gate' = min(gate, L), up' = clamp(up, -L, L), (up'+1) * gate' * sigmoid(alpha*gate'). */
EP_DEVICE float silu_clamped(float gate, float up, float limit, float alpha) {
  const float g = fminf(gate, limit), u = fminf(fmaxf(up, -limit), limit);
  return __fmul_rn(__fadd_rn(u, 1.0f), silu_gate(g, __fmul_rn(alpha, g)));
}

/* What eight outputs of a lane come from: gates and ups, or 16 values in turn. */
struct SiluInput {
  uint4 first, second;
};

EP_DEVICE SiluInput silu_load(const EpSiluArgs &a, int64_t row, uint32_t c) {
  const uint16_t *in = a.in + row * 2 * EP_COLS + (EP_INTERLEAVED ? 2 * c : c);
  return {ld_readonly(reinterpret_cast<const uint4 *>(in)),
          ld_readonly(reinterpret_cast<const uint4 *>(in + (EP_INTERLEAVED ? 8 : EP_COLS)))};
}

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

/* Valid rows, at most as many as the buffers hold. */
EP_DEVICE int64_t silu_rows(const EpSiluArgs &a) {
  return min(static_cast<int64_t>(a.row_offsets[a.groups]), a.max_rows);
}

/* One warp takes 256 columns of a row: 8 a lane. */
constexpr uint32_t EP_PIECE = 256;
constexpr uint32_t EP_PIECES = (EP_COLS + EP_PIECE - 1) / EP_PIECE;

/* Calls body(row, column of this lane, its eight activated values) for every piece
 * of rows [0, rows). Consecutive pieces go to different blocks, so that few rows
 * still use all SMs. All lanes call body together, those beyond the row with zeros. */
template <class Body>
EP_DEVICE void silu_each_piece(const EpSiluArgs &a, int64_t rows, Body body) {
  const int64_t pieces = rows * EP_PIECES, step = static_cast<int64_t>(gridDim.x) * warps_in_block();
  int64_t u = blockIdx.x + static_cast<int64_t>(warp_id()) * gridDim.x;
  for (; u < pieces; u += EP_IN_FLIGHT * step) {
    SiluInput v[EP_IN_FLIGHT];
#pragma unroll
    for (int j = 0; j < EP_IN_FLIGHT; j++) {
      const int64_t at = u + j * step;
      const uint32_t c = static_cast<uint32_t>(at % EP_PIECES) * EP_PIECE + 8 * lane_id();
      v[j] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
      if (at < pieces && c < EP_COLS) v[j] = silu_load(a, at / EP_PIECES, c);
    }
#pragma unroll
    for (int j = 0; j < EP_IN_FLIGHT; j++) {
      const int64_t at = u + j * step;
      if (at >= pieces) break;
      float z[8];
      silu8(a, v[j], z);
      body(at / EP_PIECES, static_cast<uint32_t>(at % EP_PIECES) * EP_PIECE + 8 * lane_id(), z);
    }
  }
}

#endif
