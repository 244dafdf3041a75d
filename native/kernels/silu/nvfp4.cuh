/* Defines the kernels fused_silu_nvfp4 and fused_silu_nvfp4_interleaved. D is the number of columns, a multiple of
 * 64. They write an array [rows, D/2] of bytes with two e2m1 values each, and e4m3 scales in the five-dimensional
 * layout of NVFP4. A group is the rows of one expert, and each group has its own input scale. A launch may have any
 * number of blocks. */
#include "silu/fp4.cuh"

#if EP_INTERLEAVED
#define SILU_KERNEL fused_silu_nvfp4_interleaved
#else
#define SILU_KERNEL fused_silu_nvfp4
#endif

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

/* Sets scales of unused rows to zero. In the scales each group has a multiple of 128 rows, so unused rows follow its
 * last row. */
EP_DEVICE void silu_zero_padding(const EpSiluArgs &a) {
  const uint32_t warps = gridDim.x * warps_in_block(), rows = static_cast<uint32_t>(a.groups) * EP_SCALE_ROWS;
  for (uint32_t u = blockIdx.x + warp_id() * gridDim.x; u < rows; u += warps) {
    const uint32_t group = u / EP_SCALE_ROWS, i = u % EP_SCALE_ROWS;
    const uint32_t n = a.row_offsets[group + 1] - a.row_offsets[group];
    if (n % EP_SCALE_ROWS == 0 || i < n % EP_SCALE_ROWS) continue;
    ep_zero_scales<EP_HIDDEN>(a.scales, silu_place(a, group, n / EP_SCALE_ROWS * EP_SCALE_ROWS + i));
  }
}

EP_DEVICE void silu_store(const EpSiluArgs &a, uint64_t row, uint32_t c, const float (&z)[8]) {
  const uint32_t group = silu_group(a, row);
  const EpQuantized q = silu_fp4<EP_NVFP4>(z, a.input_scales[group]);
  const uint32_t atom = silu_scale_atom(q.scale);
  if (c >= EP_HIDDEN) return;
  *reinterpret_cast<uint32_t *>(a.out + (row * EP_HIDDEN + c) / 2) = q.payload.x;
  if (c % 64 != 0) return;
  const EpRow place = silu_place(a, group, static_cast<uint32_t>(row) - a.row_offsets[group]);
  *reinterpret_cast<uint32_t *>(a.scales + ep_nvfp4_atom<EP_HIDDEN>(place, c / 64)) = atom;
}
