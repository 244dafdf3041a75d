/* fused_silu_nvfp4 and fused_silu_nvfp4_interleaved: [rows, D/2] e2m1 and e4m3
 * scales in the five-dimensional layout, D a multiple of 64. Each group has an
 * input scale of its own, so blocks are divided among groups; the scales
 * behind a group's last row are zeroed up to the next 128. Any grid.
 */
#include "silu/activate.cuh"

/* Four neighbouring scales, one from every second lane of eight, as a word. */
EP_DEVICE uint32_t silu_scale_atom(uint32_t scale) {
  uint32_t atom = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) atom |= __shfl_sync(EP_FULL_WARP, scale, (lane_id() & 24u) + 2 * i) << (8 * i);
  return atom;
}

template <bool interleaved>
EP_DEVICE void silu_nvfp4_group(const EpSiluArgs &a, int32_t group, uint32_t block, uint32_t blocks) {
  const int64_t start = min(static_cast<int64_t>(a.row_offsets[group]), a.max_rows);
  const int64_t rows = min(static_cast<int64_t>(a.row_offsets[group + 1]), a.max_rows) - start;
  const uint32_t first = static_cast<uint32_t>(start) / EP_SCALE_ROWS + a.scale_offsets[group];
  const float global = a.input_scales[group];
  const int64_t visited = (rows + EP_SCALE_ROWS - 1) / EP_SCALE_ROWS * EP_SCALE_ROWS;
  silu_each_piece(block, blocks, visited, [&](int64_t i, uint32_t c) {
    uint32_t atom = 0;
    if (i < rows) {
      const EpQuantized q = silu_quantize<EP_NVFP4, interleaved>(a, start + i, c, global);
      atom = silu_scale_atom(q.scale);
      if (c < EP_COLS) *reinterpret_cast<uint32_t *>(a.out + ((start + i) * EP_COLS + c) / 2) = q.payload.x;
    }
    if (c < EP_COLS && c % 64 == 0)
      *reinterpret_cast<uint32_t *>(a.scales + ep_nvfp4_atom<EP_COLS>({start + i, static_cast<uint32_t>(i), first}, c / 64)) =
          atom;
  });
}

/* grid/groups blocks each; a group at a time for each block when there are
 * more groups than blocks. */
template <bool interleaved>
EP_DEVICE void silu_nvfp4(const EpSiluArgs &a) {
  const uint32_t groups = static_cast<uint32_t>(a.groups);
  const uint32_t each = max(1u, gridDim.x / groups);
  for (uint32_t g = blockIdx.x / each; g < groups; g += gridDim.x / each)
    silu_nvfp4_group<interleaved>(a, static_cast<int32_t>(g), blockIdx.x % each, each);
}

EP_ENTRY(EP_THREADS, 1) fused_silu_nvfp4(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_nvfp4<false>(a);
  pdl_launch();
}

EP_ENTRY(EP_THREADS, 1) fused_silu_nvfp4_interleaved(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_nvfp4<true>(a);
  pdl_launch();
}
