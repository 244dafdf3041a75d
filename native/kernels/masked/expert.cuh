/* Defines a kernel that stands for the experts in tests of layout masked. In this layout each expert has a block of
 * rows and a count of the rows in use. */
#define ep_expert ep_expert_alone /* renames the kernel of the other layouts, which is not used here */
#include "common/expert.cuh"
#undef ep_expert

EP_DEVICE float masked_value(const EpArgs &a, uint32_t e, uint32_t room, uint32_t i, uint32_t column) {
  uint64_t row = static_cast<uint64_t>(e) * room + i;
#if EP_DTYPE == EP_FP8
  const float *scales = reinterpret_cast<const float *>(a.out_scales);
  uint64_t at = (static_cast<uint64_t>(e) * (EP_HIDDEN / 128) + column / 128) * room + i;
  return expert_e4m3(a.out[row * EP_HIDDEN + column]) * scales[at];
#else
  return expert_value(a, {static_cast<int64_t>(row), 0, 0}, static_cast<int32_t>(column));
#endif
}

EP_ENTRY(1024, 1) ep_expert(const __grid_constant__ EpArgs a) {
  uint16_t *y = const_cast<uint16_t *>(a.y);
  uint32_t room = EP_RANKS * static_cast<uint32_t>(a.max_tokens);
  for (uint32_t e = 0; e < EP_LOCAL_EXPERTS; e++) {
    uint32_t rows = min(a.row_offsets[e], room); /* a broken dispatch may write too large a count */
    float gain = expert_gain(a, static_cast<int32_t>(e) + EP_SHARED);
    for (uint32_t i = blockIdx.x; i < rows; i += gridDim.x)
      for (uint32_t column = threadIdx.x; column < EP_HIDDEN; column += blockDim.x)
        y[(static_cast<uint64_t>(e) * room + i) * EP_HIDDEN + column] = expert_bf16(masked_value(a, e, room, i, column) * gain);
  }
}
