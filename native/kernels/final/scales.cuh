/* Scales of dispatch_final: row by row on the way, [group][row] in the output.
 * There a row has four bytes in each of many sectors of L2, and a sector that
 * leaves L2 before its other rows came costs a read and a write of memory.
 *
 * Compile-time: EP_SCALES, who stores a row's scales when:
 * 0 row: who completes the row, at once;
 * 1 quad: who completes the last of four rows, for all of them: 16 bytes a
 *   group. Groups of rows begin at multiples of four (EP_ROW_PAD).
 * Telling L2 to keep those sectors longest (evict_last) gained nothing.
 */
#ifndef EP_FINAL_SCALES_CUH
#define EP_FINAL_SCALES_CUH

#include "final/count.cuh"

struct FinMessage {
  uint32_t source, token;
  bool exists;
};

/* ---- row by row ---- */

static const int FIN_LANE_SCALES = (FIN_GROUPS + 31) / 32;
struct FinScales {
  uint32_t bits[FIN_LANE_SCALES + 1]; /* one too many, for formats without scales */
};
EP_DEVICE FinScales fin_load_scales(const EpArgs &a, const FinCall &c, FinMessage m) {
  const uint32_t *in = reinterpret_cast<const uint32_t *>(fin_scales(a, a.rank, m.source, m.token));
  FinScales s = {};
#pragma unroll
  for (int i = 0; i < FIN_LANE_SCALES; i++)
    if (i * 32 + c.lane < FIN_GROUPS) s.bits[i] = in[i * 32 + c.lane];
  return s;
}
EP_DEVICE void fin_place_scales(const EpArgs &a, const FinCall &c, const FinScales &s, uint32_t here, uint32_t row) {
  for (uint32_t left = here; left != 0; left &= left - 1) {
    uint32_t *out = reinterpret_cast<uint32_t *>(a.out_scales) + __shfl_sync(EP_FULL_WARP, row, __ffs(left) - 1);
#pragma unroll
    for (int i = 0; i < FIN_LANE_SCALES; i++)
      if (i * 32 + c.lane < FIN_GROUPS) out[(i * 32 + c.lane) * a.max_rows] = s.bits[i];
  }
}

/* ---- quads ---- */

/* What a header says of a row beside its number, of which 30 bits are left:
 * how many rows its quad has. The last of an expert may have fewer. */
struct FinPlace {
  uint32_t row, quad_rows;
};
EP_DEVICE uint32_t fin_pack_place(const FinShared &s, int32_t id, uint32_t row) {
  if (!FIN_BY_QUAD) return row;
  uint32_t end = s.start[id] + s.size[id];
  return row | (min(end - (row & ~3u), 4u) - 1) << 30;
}
EP_DEVICE FinPlace fin_unpack_place(uint32_t packed) {
  if (!FIN_BY_QUAD || packed == FIN_NOWHERE) return {packed, 0};
  return {packed & 0x3fffffffu, (packed >> 30) + 1};
}

/* Stores the scales of a quad whose rows are all here; its counter is zero
 * again for the next call. */
EP_DEVICE void fin_place_quad(const EpArgs &a, const FinCall &c, uint32_t quad, uint32_t rows) {
  uint32_t from = c.lane < rows ? ld_relaxed_gpu(fin_origins(a) + 4 * quad + c.lane) : 0;
  if (c.lane == 0) st_relaxed_gpu(fin_quads(a) + quad, 0u);
  const uint32_t *in[4];
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t message = __shfl_sync(EP_FULL_WARP, from, i < rows ? i : 0);
    in[i] = reinterpret_cast<const uint32_t *>(fin_scales(a, a.rank, message / a.max_tokens, message % a.max_tokens));
  }
#pragma unroll 2
  for (uint32_t g = c.lane; g < FIN_GROUPS; g += 32) {
    uint4 bits = make_uint4(in[0][g], in[1][g], in[2][g], in[3][g]);
    uint32_t *out = reinterpret_cast<uint32_t *>(a.out_scales) + g * a.max_rows + 4 * quad;
    if (rows == 4) {
      *reinterpret_cast<uint4 *>(out) = bits;
      continue;
    }
    out[0] = bits.x;
    if (rows > 1) out[1] = bits.y;
    if (rows > 2) out[2] = bits.z;
  }
}

/* Counts the rows of a message in their quads, each lane its own, before they
 * are copied: the fence need not wait for those stores. */
EP_DEVICE void fin_count_quads(const EpArgs &a, const FinCall &c, FinMessage m, FinPlace at, bool mine) {
  if (mine) st_relaxed_gpu(fin_origins(a) + at.row, m.source * static_cast<uint32_t>(a.max_tokens) + m.token);
  fence_acq_rel_gpu();
  bool last = mine && add_relaxed_gpu(fin_quads(a) + at.row / 4, 1u) + 1 == at.quad_rows;
  uint32_t left = __ballot_sync(EP_FULL_WARP, last);
  if (left == 0) return;
  fence_acq_rel_gpu();
  for (; left != 0; left &= left - 1) {
    int lane = __ffs(left) - 1;
    fin_place_quad(a, c, __shfl_sync(EP_FULL_WARP, at.row / 4, lane), __shfl_sync(EP_FULL_WARP, at.quad_rows, lane));
  }
}

#endif
