/* SwiGLU between the experts' two products: z = gate/(1+exp(-gate)) * up in
 * float32. The host does not know how many rows are valid: the kernel reads it
 * from the last row offset, and touches no row beyond.
 *
 *   EP_COLS         D, the columns of the output
 *   EP_INTERLEAVED  1: columns gate0, up0, gate1, up1, ...; 0: all gates, then all ups
 *   EP_CLAMP        1: the clamped variant of gpt-oss, with limit and alpha of the arguments
 */
#ifndef EP_ACTIVATE_CUH
#define EP_ACTIVATE_CUH

#include "common/dtypes.cuh"

#ifndef EP_CLAMP
#define EP_CLAMP 0
#endif
#ifndef EP_THREADS
#define EP_THREADS 1024
#endif

EP_DEVICE float silu(float gate, float up) { return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, expf(-gate))), up); }

/* gate' = min(gate, L), up' = clamp(up, -L, L), (up'+1) * gate' * sigmoid(alpha*gate'). */
EP_DEVICE float silu_clamped(float gate, float up, float limit, float alpha) {
  const float g = fminf(gate, limit), u = fminf(fmaxf(up, -limit), limit);
  return __fmul_rn(__fadd_rn(u, 1.0f), __fdiv_rn(g, __fadd_rn(1.0f, expf(-alpha * g))));
}

/* Eight activated values of a row, from column c on. */
template <bool interleaved>
EP_DEVICE void silu8(const EpSiluArgs &a, int64_t row, uint32_t c, float (&z)[8]) {
  const uint16_t *in = a.in + row * 2 * EP_COLS;
  float first[8], second[8];
  const uint32_t at = interleaved ? 2 * c : c;
  bf16_unpack(ld_readonly(reinterpret_cast<const uint4 *>(in + at)), first);
  bf16_unpack(ld_readonly(reinterpret_cast<const uint4 *>(in + (interleaved ? at + 8 : EP_COLS + c))), second);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    float gate = first[i], up = second[i];
    if (interleaved) {
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

/* Calls body(row, column of this lane) for every piece of rows [0, rows).
 * Consecutive pieces go to different blocks, so that few rows still use all
 * SMs. All lanes call body together, columns beyond the row included. */
template <class Body>
EP_DEVICE void silu_each_piece(uint32_t block, uint32_t blocks, int64_t rows, Body body) {
  const int64_t step = static_cast<int64_t>(blocks) * warps_in_block();
  for (int64_t u = block + static_cast<int64_t>(warp_id()) * blocks; u < rows * EP_PIECES; u += step)
    body(u / EP_PIECES, static_cast<uint32_t>(u % EP_PIECES) * EP_PIECE + 8 * lane_id());
}

/* Activates and quantizes the eight values of a lane; zeros beyond the row. */
template <int dtype, bool interleaved>
EP_DEVICE EpQuantized silu_quantize(const EpSiluArgs &a, int64_t row, uint32_t c, float global) {
  float z[8] = {};
  if (c < EP_COLS) silu8<interleaved>(a, row, c, z);
  return ep_quantize8<dtype>(z, global);
}

#endif
