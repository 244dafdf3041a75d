/* Rows of layout rank in memory of the state, between the two kernels of dispatch_expand.
 * rank/layout.cuh includes this file. The regions come after RankRegion and
 * MASKED_WEIGHTS, in the order of declare/expand.go; only this rank uses them. They hold
 * the outputs of layout rank (not packed): R ranks, T = max_tokens, K top-k.
 */
enum RankInner {
  INNER_ROWS = RANK_RETURN + 2, /* [R*T][RANK_PAYLOAD] */
  INNER_SCALES,  /* [R*T][RANK_SCALES] */
  INNER_COUNTS,  /* [R + 1] u32 */
  INNER_EXPERTS, /* [R*T][K] i32 */
  INNER_WEIGHTS, /* [R*T][K] f32. Nobody reads them, because the caller of a combine passes the weights */
  INNER_TOKENS,  /* [R*T][2] i32, then [T] places */
  INNER_SLICES,  /* [blocks][local experts] u64: call << 32 | rows of the expert in the block's slice. Zeroed */
  INNER_ROUTES   /* masked_routes of masked/layout.cuh */
};

template <typename T>
EP_DEVICE T *rank_inner(const EpArgs &a, RankInner region) {
  return reinterpret_cast<T *>(a.heap[a.rank] + a.region[region]);
}

EP_DEVICE uint8_t *rank_left(const EpArgs &a) { return rank_inner<uint8_t>(a, INNER_ROWS); }
EP_DEVICE uint32_t *rank_left_scales(const EpArgs &a) { return rank_inner<uint32_t>(a, INNER_SCALES); }
EP_DEVICE uint32_t *rank_left_counts(const EpArgs &a) { return rank_inner<uint32_t>(a, INNER_COUNTS); }
EP_DEVICE int32_t *rank_left_experts(const EpArgs &a) { return rank_inner<int32_t>(a, INNER_EXPERTS); }
EP_DEVICE uint32_t *rank_left_weights(const EpArgs &a) { return rank_inner<uint32_t>(a, INNER_WEIGHTS); }
EP_DEVICE int32_t *rank_left_tokens(const EpArgs &a) { return rank_inner<int32_t>(a, INNER_TOKENS); }
EP_DEVICE int32_t *rank_places(const EpArgs &a) { return rank_left_tokens(a) + 2 * EP_RANKS * static_cast<int64_t>(a.max_tokens); }
