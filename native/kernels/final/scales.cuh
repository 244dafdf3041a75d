/* Scales of dispatch_final. They are sent row by row, but the output has the order [group][row], so one row's
 * scales go to many cache lines, four bytes to each.
 *
 * With EP_SCALES 0 (row), a row's scales are written with the row. With EP_SCALES 1 (tile), scales are written after
 * all rows have arrived, for 32 rows at once, in lines of 128 bytes. That takes fewer stores, and fills each sector of
 * L2 at once. Row by row, L2 may evict a sector before the other rows' scales are in it. */
#pragma once

#include "final/count.cuh"

struct FinMessage {
  uint32_t source, token;
  bool exists;
};

static const int FIN_LANE_SCALES = (EP_TOKEN_SCALES + 31) / 32;
struct FinScales {
  uint32_t bits[FIN_LANE_SCALES + 1]; /* one more: some dtypes have no scales */
};
EP_DEVICE FinScales fin_load_scales(const EpArgs &a, const EpCall &c, FinMessage m) {
  const uint32_t *in = reinterpret_cast<const uint32_t *>(fin_scales(a, a.rank, m.source, m.token));
  FinScales s = {};
#pragma unroll
  for (int i = 0; i < FIN_LANE_SCALES; i++)
    if (i * 32 + c.lane < EP_TOKEN_SCALES) s.bits[i] = in[i * 32 + c.lane];
  return s;
}
EP_DEVICE void fin_place_scales(const EpArgs &a, const EpCall &c, const FinScales &s, uint32_t here, uint32_t row) {
  for (uint32_t left = here; left != 0; left &= left - 1) {
    uint32_t *out = reinterpret_cast<uint32_t *>(a.out_scales) + __shfl_sync(EP_FULL_WARP, row, __ffs(left) - 1);
#pragma unroll
    for (int i = 0; i < FIN_LANE_SCALES; i++)
      if (i * 32 + c.lane < EP_TOKEN_SCALES) out[(i * 32 + c.lane) * a.max_rows] = s.bits[i];
  }
}

/* Records the token of a row. A plain store is enough, because fin_meet comes before the reads. */
EP_DEVICE void fin_note_origin(const EpArgs &a, FinMessage m, uint32_t row) {
  fin_origins(a)[row] = m.source * static_cast<uint32_t>(a.max_tokens) + m.token;
}

EP_DEVICE void fin_begin(const EpArgs &a, const EpCall &c, FinShared &s) {
  if (threadIdx.x != 0) return;
  s.failed = s.rows = 0;
  if (c.block == 0 && c.number != 0) *fin_met(a, c.number + 1) = 0;
}

EP_DEVICE void fin_meet(const EpArgs &a, const EpCall &c, FinShared &s, uint32_t blocks, bool waits) {
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t seen;
    EpSpin spin;
    fence_acq_rel_gpu();
    add_relaxed_gpu(fin_met(a, c.number), 1u);
    while (waits && (seen = ld_relaxed_gpu(fin_met(a, c.number))) != blocks)
      if (!spin.again(a, {EP_PHASE_DISPATCH_WAIT, -1, -1}, blocks, seen)) {
        s.failed = 1;
        break;
      }
    fence_acq_rel_gpu();
  }
  __syncthreads();
}

/* A warp handles 32 rows at a time (a tile), in several parts if a lane cannot load the scales of all groups
 * together. */
static const uint32_t FIN_SCALE_VECTORS = FIN_SCALE_BYTES / 16;
static const uint32_t FIN_TILE_PARTS = FIN_SCALE_VECTORS <= 8 ? 1 : (FIN_SCALE_VECTORS + 7) / 8;
static const uint32_t FIN_TILE_VECTORS = FIN_SCALE_VECTORS == 0 ? 1 : (FIN_SCALE_VECTORS + FIN_TILE_PARTS - 1) / FIN_TILE_PARTS;

/* Writes a part of a tile to the output; each lane handles one row. Padding rows get old scales, which nobody
 * reads. */
EP_DEVICE void fin_place_tile(const EpArgs &a, uint32_t row, uint32_t part) {
  uint32_t from = fin_origins(a)[row], first = part * FIN_TILE_VECTORS;
  const uint4 *in = reinterpret_cast<const uint4 *>(fin_scales(a, a.rank, from / a.max_tokens, from % a.max_tokens));
  uint32_t *out = reinterpret_cast<uint32_t *>(a.out_scales) + row;
  uint4 bits[FIN_TILE_VECTORS];
#pragma unroll
  for (uint32_t v = 0; v < FIN_TILE_VECTORS; v++)
    if (first + v < FIN_SCALE_VECTORS) bits[v] = in[first + v];
#pragma unroll
  for (uint32_t v = 0; v < FIN_TILE_VECTORS; v++) {
    uint32_t g = 4 * (first + v);
    if (g < EP_TOKEN_SCALES) out[g * a.max_rows] = bits[v].x;
    if (g + 1 < EP_TOKEN_SCALES) out[(g + 1) * a.max_rows] = bits[v].y;
    if (g + 2 < EP_TOKEN_SCALES) out[(g + 2) * a.max_rows] = bits[v].z;
    if (g + 3 < EP_TOKEN_SCALES) out[(g + 3) * a.max_rows] = bits[v].w;
  }
}
EP_DEVICE void fin_place_tiles(const EpArgs &a, const EpCall &c, const FinShared &s) {
  uint32_t all = ceil_div(s.rows, 32u) * FIN_TILE_PARTS;
  for (uint32_t i = fin_receiver(c); i < all; i += fin_receiving_warps(c)) {
    uint32_t row = i / FIN_TILE_PARTS * 32 + c.lane;
    if (row < s.rows) fin_place_tile(a, row, i % FIN_TILE_PARTS);
  }
}
