/* Defines a kernel that stands for the experts in tests of layout rank. In this layout a token has one row for all
 * its experts on a rank. y is the weighted sum of these experts' outputs. The kernel adds in f32 in top-k order, and
 * rounds the sum to BF16. */
#define ep_expert ep_expert_alone /* renames the kernel of the other layouts, which is not used here */
#include "common/expert.cuh"
#undef ep_expert
#include "common/dtypes.cuh"

EP_DEVICE float rank_value(const EpArgs &a, uint64_t row, uint32_t column) {
#if EP_DTYPE == EP_FP8
  const float *scales = reinterpret_cast<const float *>(a.out_scales);
  return expert_e4m3(a.out[row * EP_HIDDEN + column]) * scales[row * (EP_HIDDEN / 128) + column / 128];
#else
  return expert_value(a, {static_cast<int64_t>(row), 0, 0}, static_cast<int32_t>(column));
#endif
}

EP_DEVICE void rank_expert_row(const EpArgs &a, uint64_t row) {
  uint16_t *y = const_cast<uint16_t *>(a.y);
  const float *weights = reinterpret_cast<const float *>(a.scale_offsets);
  for (uint32_t column = threadIdx.x; column < EP_HIDDEN; column += blockDim.x) {
    float x = rank_value(a, row, column), acc = 0;
    for (uint32_t k = 0; k < EP_TOPK; k++) {
      int32_t e = a.expert_ids[row * EP_TOPK + k];
      if (e < 0 || e >= EP_LOCAL_EXPERTS) continue;
      float made = __uint_as_float(static_cast<uint32_t>(expert_bf16(x * expert_gain(a, e + EP_SHARED))) << 16);
      acc = __fadd_rn(acc, __fmul_rn(weights[row * EP_TOPK + k], made));
    }
    y[row * EP_HIDDEN + column] = expert_bf16(acc);
  }
}

/* Computes y for all rows. With EP_PACKED 1 row_offsets holds the first row of each source. With EP_PACKED 0 it holds
 * each source's number of rows. */
EP_ENTRY(1024, 1) ep_expert(const __grid_constant__ EpArgs a) {
  for (uint32_t r = 0; r < EP_RANKS; r++) {
    uint32_t first = EP_PACKED ? a.row_offsets[r] : r * static_cast<uint32_t>(a.max_tokens);
    uint32_t rows = EP_PACKED ? a.row_offsets[r + 1] - first : a.row_offsets[r];
    /* A broken dispatch may write wrong offsets, which must not lead outside the buffers. */
    if (rows > static_cast<uint32_t>(a.max_tokens) || first > a.max_rows - rows) continue;
    for (uint32_t i = blockIdx.x; i < rows; i += gridDim.x) rank_expert_row(a, static_cast<uint64_t>(first) + i);
  }
}
