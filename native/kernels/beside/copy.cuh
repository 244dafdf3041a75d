/* Measures how many bytes a few SMs can move, by a plain copy of rows to this rank and to another rank. */
#include "common/check.cuh"

#define COPY_DEPTH 7

EP_DEVICE void copy_row(uint4 *to, const uint4 *from, uint32_t vectors) {
  for (uint32_t first = lane_id(); first < vectors; first += 32 * COPY_DEPTH) {
    uint4 data[COPY_DEPTH];
#pragma unroll
    for (uint32_t i = 0; i < COPY_DEPTH; i++)
      if (first + 32 * i < vectors) data[i] = ld_once(from + first + 32 * i);
#pragma unroll
    for (uint32_t i = 0; i < COPY_DEPTH; i++)
      if (first + 32 * i < vectors) st_relaxed_sys(to + first + 32 * i, data[i]);
  }
}

/* Copies a.cases rows of a.cell_bytes bytes to this rank and a.step rows to the next rank, evenly mixed. One warp
 * copies one row. Region 0 has two halves of a.peer rows. Rows are read from the first half and written to the second.
 * Row numbers wrap around at the end of a half. */
EP_ENTRY(512, 1) beside_copy(const __grid_constant__ EpArgs a) {
  uint64_t home = static_cast<uint64_t>(a.cases), away = static_cast<uint64_t>(a.step), all = home + away;
  uint64_t bytes = static_cast<uint64_t>(a.cell_bytes), rows = static_cast<uint64_t>(a.peer);
  uint8_t *here = a.heap[a.rank] + a.region[0], *next = a.heap[(a.rank + 1) % a.ranks] + a.region[0];
  for (uint64_t i = static_cast<uint64_t>(warp_id()) * gridDim.x + blockIdx.x; i < all; i += static_cast<uint64_t>(warps_in_block()) * gridDim.x) {
    bool leaves = (i + 1) * away / all != i * away / all;
    uint64_t row = i % rows;
    copy_row(reinterpret_cast<uint4 *>((leaves ? next : here) + (rows + row) * bytes),
             reinterpret_cast<const uint4 *>(here + row * bytes), static_cast<uint32_t>(bytes / 16));
  }
}
