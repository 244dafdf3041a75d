/* fused_silu, fused_silu_fp8, fused_silu_mxfp4: any grid, whole warps. */
#include "silu/activate.cuh"

/* [rows, D] BF16, D a multiple of 8. */
EP_ENTRY(EP_THREADS, 1) fused_silu(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  const int64_t items = silu_rows(a) * (EP_COLS / 8);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < items; i += step) {
    float z[8];
    silu8<false>(a, i / (EP_COLS / 8), static_cast<uint32_t>(i % (EP_COLS / 8)) * 8, z);
    reinterpret_cast<uint4 *>(a.out)[i] = bf16_pack(z);
  }
  pdl_launch();
}

#if EP_COLS % 128 == 0
/* [rows, D] e4m3 and float32 scales [D/128, max_rows], D a multiple of 128. */
EP_ENTRY(EP_THREADS, 1) fused_silu_fp8(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_each_piece(blockIdx.x, gridDim.x, silu_rows(a), [&](int64_t row, uint32_t c) {
    const EpQuantized q = silu_quantize<EP_FP8, false>(a, row, c, 1.0f);
    if (c >= EP_COLS) return;
    *reinterpret_cast<uint2 *>(a.out + row * EP_COLS + c) = q.payload;
    if (c % 128 == 0) reinterpret_cast<uint32_t *>(a.scales)[c / 128 * a.max_rows + row] = q.scale;
  });
  pdl_launch();
}
#endif

#if EP_COLS % 32 == 0
/* [rows, D/2] e2m1 and e8m0 scales [rows, D/32], D a multiple of 32. */
EP_ENTRY(EP_THREADS, 1) fused_silu_mxfp4(const __grid_constant__ EpSiluArgs a) {
  pdl_wait();
  silu_each_piece(blockIdx.x, gridDim.x, silu_rows(a), [&](int64_t row, uint32_t c) {
    const EpQuantized q = silu_quantize<EP_MXFP4, false>(a, row, c, 1.0f);
    if (c >= EP_COLS) return;
    *reinterpret_cast<uint32_t *>(a.out + (row * EP_COLS + c) / 2) = q.payload.x;
    if (c % 32 == 0) a.scales[(row * EP_COLS + c) / 32] = static_cast<uint8_t>(q.scale);
  });
  pdl_launch();
}
#endif
