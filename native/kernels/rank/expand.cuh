/* dispatch_expand is dispatch_rank, followed by a kernel that copies the received rows to
 * the rows of their experts. The rows of one expert lie together, in the order of source
 * ranks and tokens. combine_masked with RANK_INNER brings them back.
 *
 * rank_expand: each block has a slice of the received rows, counts the rows of the slice by
 * expert and tells all blocks. From the counts of the slices before its own, a block knows
 * where its rows go. tile_tokens: the rows of each expert are rounded up to a multiple of
 * it.
 */
#define RANK_INNER
#include "rank/dispatch.cuh"
#include "masked/layout.cuh"

static const uint32_t EXPAND_TILE = 32; /* rows placed at a time */
static const uint32_t EXPAND_NOWHERE = 0xffffffffu;

struct ExpandShared {
  uint32_t first[EP_RANKS + 1]; /* received rows of earlier sources */
  uint32_t all[EP_LOCAL_EXPERTS];
  uint32_t ends[EP_LOCAL_EXPERTS];
  uint32_t next[EP_LOCAL_EXPERTS]; /* of each expert: rows in this slice; later rows in earlier slices; at last its next row */
  int32_t expert[EXPAND_TILE][EP_TOPK];
  uint32_t row[EXPAND_TILE][EP_TOPK];
  uint32_t failed;
};

/* The number of blocks with a slice, and this block's slice: received rows [begin, end),
 * counted over all sources. */
struct ExpandSlice {
  uint32_t number, blocks, begin, end;
};

/* Initialises the shared words and finds the slice; ends with a barrier. If a broken
 * dispatch wrote wrong counts, the slice has no rows. */
EP_DEVICE ExpandSlice expand_slice(const EpArgs &a, ExpandShared &s) {
  if (threadIdx.x == 0) {
    s.failed = s.first[0] = 0;
    for (uint32_t r = 0; r < EP_RANKS; r++) {
      uint32_t rows = rank_left_counts(a)[r];
      s.first[r + 1] = s.first[r] + (rows <= static_cast<uint32_t>(a.max_tokens) ? rows : 0);
    }
  }
  for (uint32_t e = threadIdx.x; e < EP_LOCAL_EXPERTS; e += blockDim.x) s.all[e] = s.next[e] = 0;
  __syncthreads();
  uint32_t rows = s.first[EP_RANKS], blocks = min(gridDim.x, max(rows, 1u)), each = ceil_div(rows, blocks);
  return {ep_round(a), blocks, min(blockIdx.x * each, rows), min((blockIdx.x + 1) * each, rows)};
}

/* The source of received row i. */
EP_DEVICE uint32_t expand_source(const ExpandShared &s, uint32_t i) {
  uint32_t source = 0;
#pragma unroll
  for (uint32_t r = 1; r < EP_RANKS; r++) source += i >= s.first[r];
  return source;
}
/* The place of received row i in layout rank. */
EP_DEVICE uint64_t expand_place(const EpArgs &a, const ExpandShared &s, uint32_t i) {
  uint32_t source = expand_source(s, i);
  return static_cast<uint64_t>(source) * a.max_tokens + i - s.first[source];
}

/* The local expert at top-k position k, or -1. */
EP_DEVICE int32_t expand_expert(const EpArgs &a, uint64_t place, uint32_t k) {
  int32_t e = rank_left_experts(a)[place * EP_TOPK + k];
  return e < EP_LOCAL_EXPERTS ? e : -1;
}

/* Counts the slice and tells the other blocks. */
EP_DEVICE void expand_count(const EpArgs &a, ExpandShared &s, const ExpandSlice &slice) {
  for (uint32_t j = slice.begin * EP_TOPK + threadIdx.x; j < slice.end * EP_TOPK; j += blockDim.x) {
    int32_t e = expand_expert(a, expand_place(a, s, j / EP_TOPK), j % EP_TOPK);
    if (e >= 0) atomicAdd(&s.next[e], 1u);
  }
  __syncthreads();
  uint64_t *mine = rank_inner<uint64_t>(a, INNER_SLICES) + blockIdx.x * EP_LOCAL_EXPERTS;
  for (uint32_t e = threadIdx.x; e < EP_LOCAL_EXPERTS; e += blockDim.x) {
    st_relaxed_gpu(mine + e, static_cast<uint64_t>(slice.number) << 32 | s.next[e]);
    s.next[e] = 0;
  }
  __syncthreads();
}

/* Sums the counts of all slices, and the counts of the slices before this one. */
EP_DEVICE void expand_sum(const EpArgs &a, ExpandShared &s, const ExpandSlice &slice) {
  const uint64_t *words = rank_inner<uint64_t>(a, INNER_SLICES);
  for (uint32_t j = threadIdx.x; j < slice.blocks * EP_LOCAL_EXPERTS; j += blockDim.x) {
    uint32_t e = j % EP_LOCAL_EXPERTS;
    EpSpin spin;
    uint64_t v = ld_relaxed_gpu(words + j);
    while (v >> 32 != slice.number) {
      if (!spin.again(a, {EP_PHASE_DISPATCH_WAIT, a.rank * EP_LOCAL_EXPERTS + static_cast<int32_t>(e), -1}, slice.number, v >> 32)) {
        s.failed = 1;
        break;
      }
      v = ld_relaxed_gpu(words + j);
    }
    uint32_t rows = static_cast<uint32_t>(v);
    atomicAdd(&s.all[e], rows);
    if (j / EP_LOCAL_EXPERTS < blockIdx.x) atomicAdd(&s.next[e], rows);
  }
  __syncthreads();
}

/* Turns the sums into the first row of each expert, and of this slice. The first block
 * writes the index of the output. */
EP_DEVICE void expand_index(const EpArgs &a, ExpandShared &s) {
  const uint32_t pad = static_cast<uint32_t>(a.tile_tokens);
  for (uint32_t e = threadIdx.x; e < EP_LOCAL_EXPERTS; e += blockDim.x) s.ends[e] = ceil_div(s.all[e], pad) * pad;
  __syncthreads();
  block_scan(s.ends, EP_LOCAL_EXPERTS);
  for (uint32_t e = threadIdx.x; e < EP_LOCAL_EXPERTS; e += blockDim.x) {
    uint32_t first = s.ends[e] - ceil_div(s.all[e], pad) * pad;
    s.next[e] += first;
    if (blockIdx.x != 0 || s.failed) continue;
    a.row_offsets[e] = first;
    a.expert_ids[e] = static_cast<int32_t>(e);
    if (e == EP_LOCAL_EXPERTS - 1) a.row_offsets[EP_LOCAL_EXPERTS] = s.ends[e];
  }
  if (blockIdx.x == 0 && threadIdx.x < EP_RANKS)
    masked_messages(a)[threadIdx.x] = static_cast<int32_t>(s.first[threadIdx.x + 1] - s.first[threadIdx.x]);
  __syncthreads();
}

/* Finds the experts' rows for received rows [first, end), at most EXPAND_TILE. One warp
 * handles them in order; a token's experts are distinct. Begins and ends with a barrier. */
EP_DEVICE void expand_place_tile(const EpArgs &a, ExpandShared &s, uint32_t first, uint32_t end) {
  __syncthreads();
  for (uint32_t j = threadIdx.x; j < (end - first) * EP_TOPK; j += blockDim.x)
    s.expert[j / EP_TOPK][j % EP_TOPK] = expand_expert(a, expand_place(a, s, first + j / EP_TOPK), j % EP_TOPK);
  __syncthreads();
  for (uint32_t i = 0; warp_id() == 0 && i < end - first; i++) {
    uint32_t k = lane_id();
    int32_t e = k < EP_TOPK ? s.expert[i][k] : -1;
    if (k < EP_TOPK) s.row[i][k] = e < 0 || s.next[e] >= a.max_rows ? EXPAND_NOWHERE : s.next[e];
    if (e >= 0) s.next[e]++;
    __syncwarp();
  }
  __syncthreads();
}

/* Writes src_info for each row of the tile, and the routes for combine. */
EP_DEVICE void expand_describe(const EpArgs &a, const ExpandShared &s, uint32_t first, uint32_t end) {
  for (uint32_t j = threadIdx.x; j < (end - first) * EP_TOPK; j += blockDim.x) {
    uint32_t i = j / EP_TOPK, k = j % EP_TOPK, row = s.row[i][k], source = expand_source(s, first + i);
    int32_t token = rank_left_tokens(a)[2 * expand_place(a, s, first + i)];
    int32_t *route = masked_route(a, source, first + i - s.first[source]);
    if (k == 0) route[0] = token;
    route[1 + k] = static_cast<int32_t>(row);
    if (row == EXPAND_NOWHERE) continue;
    a.src_info[2 * static_cast<uint64_t>(row)] = token;
    a.src_info[2 * static_cast<uint64_t>(row) + 1] = static_cast<int32_t>(k);
  }
}

/* Copies one unit of a row to the rows of its experts. */
EP_DEVICE void expand_copy(const EpArgs &a, const uint32_t (&rows)[EP_TOPK], uint64_t place, uint32_t unit) {
  uint4 data[RANK_STEP];
  uint32_t scale[RANK_STEP];
#pragma unroll
  for (uint32_t v = 0; v < RANK_STEP; v++) {
    uint32_t vector = (unit * RANK_STEP + v) * 32 + lane_id();
    data[v] = make_uint4(0, 0, 0, 0);
    scale[v] = 0;
    if (rank_inside(vector)) data[v] = ld_readonly(rank_out(a, place) + vector);
    if (rank_has_scale(vector)) scale[v] = *rank_out_scale(a, place, vector);
  }
  for (uint32_t k = 0; k < EP_TOPK; k++) {
    if (rows[k] == EXPAND_NOWHERE) continue;
    uint4 *out = reinterpret_cast<uint4 *>(a.out + static_cast<uint64_t>(rows[k]) * RANK_PAYLOAD);
    uint32_t *scales = reinterpret_cast<uint32_t *>(a.out_scales) + rows[k];
#pragma unroll
    for (uint32_t v = 0; v < RANK_STEP; v++) {
      uint32_t vector = (unit * RANK_STEP + v) * 32 + lane_id();
      if (rank_inside(vector)) out[vector] = data[v];
      if (rank_has_scale(vector)) scales[vector / 8 * a.max_rows] = scale[v];
    }
  }
}

EP_ENTRY(EP_THREADS, 1) rank_expand(const __grid_constant__ EpArgs a) {
  __shared__ ExpandShared s;
  ep_span_begin(a);
  pdl_wait();
  if (ep_block_leaves(a)) return;
  ExpandSlice slice = expand_slice(a, s);
  EP_NUMBER_DONE(a, slice.number);
  if (blockIdx.x < slice.blocks) {
    expand_count(a, s, slice);
    expand_sum(a, s, slice);
    expand_index(a, s);
    for (uint32_t first = slice.begin; first < slice.end && !s.failed; first += EXPAND_TILE) {
      uint32_t end = min(first + EXPAND_TILE, slice.end);
      expand_place_tile(a, s, first, end);
      expand_describe(a, s, first, end);
      for (uint32_t u = warp_id(); u < (end - first) * RANK_UNITS; u += warps_in_block())
        expand_copy(a, s.row[u / RANK_UNITS], expand_place(a, s, first + u / RANK_UNITS), u % RANK_UNITS);
    }
  }
  ep_span_end(a);
}
