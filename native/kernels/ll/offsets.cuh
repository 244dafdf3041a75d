/* For the layout named `expert`: finds where each source's rows of an expert begin in the output. */
#pragma once

#include "common/block.cuh"
#include "common/dtypes.cuh"

/* Replaces each count in `rows` by the first row of its segment. A segment is the rows of one source for one expert.
 * One warp calls it. With `publish` it also writes row_offsets and expert_ids. */
EP_DEVICE void ll_offsets(const EpArgs &a, uint32_t (&rows)[EP_RANKS][EP_LOCAL_EXPERTS], uint32_t lane, bool publish) {
  uint32_t start = 0;
  for (uint32_t first = 0; first < EP_LOCAL_EXPERTS; first += 32) {
    uint32_t e = first + lane, total = 0;
    for (int r = 0; r < EP_RANKS; r++) total += e < EP_LOCAL_EXPERTS ? rows[r][e] : 0;
    uint32_t padded = ceil_div(total, EP_ROW_PAD) * EP_ROW_PAD, end = warp_prefix_sum(padded);
    uint32_t row = start + end - padded;
    start += __shfl_sync(EP_FULL_WARP, end, 31);
    if (e >= EP_LOCAL_EXPERTS) continue;
    if (publish) {
      a.row_offsets[e] = row;
      a.expert_ids[e] = static_cast<int32_t>(e);
    }
    for (int r = 0; r < EP_RANKS; r++) {
      uint32_t count = rows[r][e];
      rows[r][e] = row;
      row += count;
    }
  }
  if (publish && lane == 0) a.row_offsets[EP_LOCAL_EXPERTS] = start;
}
