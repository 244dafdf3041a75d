/* Kernels for expanded rows of DeepEP V2: each received row is copied once for each of its experts on this rank.
 * The first expanded row of an expert is a multiple of `align`. The rows of an expert have the order of the received
 * rows. These kernels use no memory of other ranks and wait for no block, so any grid is correct. */
#pragma once

#include "common/block.cuh"
#include "common/dtypes.cuh"
#include "epcomm/normal.cuh"

static const uint32_t EXPAND_THREADS = 512; /* THREADS in native/epcomm/src/expand.c */
static const uint32_t EXPAND_LOADS = 4;

/* The least number of blocks on an SM. With 2 blocks a thread has 64 registers, too few for sm_80. */
#if EP_ARCH && EP_ARCH < 900
#define EXPAND_BLOCKS 1
#else
#define EXPAND_BLOCKS 2
#endif

/* Returns the number of received rows, or 0 if a faulty dispatch wrote too large a number. */
EP_DEVICE int64_t expand_rows(const uint32_t *received, int32_t most) {
  const uint32_t rows = *received;
  return rows <= static_cast<uint32_t>(most) ? rows : 0;
}

struct ExpandCounts {
  uint32_t all[NORMAL_MOST];
  uint32_t next[NORMAL_MOST];
  uint32_t ends[NORMAL_MOST];
  int32_t ids[EXPAND_THREADS];
};

EP_DEVICE int32_t expand_id(const EpPlacesArgs &a, int64_t i) {
  const int64_t id = a.ids[i];
  return id >= 0 && id < a.experts ? static_cast<int32_t>(id) : -1;
}

/* Counts the rows of each expert. Sets s.next[e] to expert e's first row after those of selections before `first`. */
EP_DEVICE void expand_count(const EpPlacesArgs &a, int64_t all, int64_t first, ExpandCounts &s) {
  const uint32_t experts = static_cast<uint32_t>(a.experts), align = static_cast<uint32_t>(a.align);
  for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) s.all[e] = s.next[e] = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
    const int32_t e = expand_id(a, i);
    if (e < 0) continue;
    atomicAdd(&s.all[e], 1u);
    if (i < first) atomicAdd(&s.next[e], 1u);
  }
  __syncthreads();
  for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) s.ends[e] = (s.all[e] + align - 1) / align * align;
  __syncthreads();
  block_scan(s.ends, experts);
  for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) {
    if (e > 0) s.next[e] += s.ends[e - 1];
    if (blockIdx.x == 0) a.counts[e] = static_cast<int32_t>(s.all[e]);
  }
}

/* Assigns rows to 32 selections, with one warp. Lane l holds the expert of selection first + l, or -1. */
EP_DEVICE void expand_assign(const EpPlacesArgs &a, int64_t first, int64_t end, int32_t expert, ExpandCounts &s) {
  const uint32_t same = __match_any_sync(EP_FULL_WARP, expert), before = same & ((1u << lane_id()) - 1);
  const int64_t i = first + lane_id();
  int32_t place = expert >= 0 ? static_cast<int32_t>(s.next[expert] + static_cast<uint32_t>(__popc(before))) : -1;
  __syncwarp();
  if (expert >= 0 && before == 0) s.next[expert] += static_cast<uint32_t>(__popc(same));
  __syncwarp();
  if (i >= end) return;
  if (place >= a.expanded) place = -1;
  a.slots[i] = place;
  if (place >= 0) a.choices[place] = static_cast<int32_t>(i);
}

/* Assigns rows to the selections from `first` to `end`. Only the first warp assigns, in the order of selections, so
 * that every launch gives the same rows. */
EP_DEVICE void expand_assign_run(const EpPlacesArgs &a, int64_t first, int64_t end, ExpandCounts &s) {
  for (int64_t base = first; base < end; base += blockDim.x) {
    __syncthreads();
    s.ids[threadIdx.x] = base + threadIdx.x < end ? expand_id(a, base + threadIdx.x) : -1;
    __syncthreads();
    for (uint32_t j = 0; warp_id() == 0 && j < blockDim.x && base + j < end; j += 32) expand_assign(a, base + j, end, s.ids[j + lane_id()], s);
    __syncwarp();
  }
}

EP_DEVICE void expand_mark_padding(const EpPlacesArgs &a, int64_t all, const ExpandCounts &s) {
  const uint32_t experts = static_cast<uint32_t>(a.experts);
  for (uint32_t e = blockIdx.x; e < experts; e += gridDim.x) {
    const uint32_t begin = e > 0 ? s.ends[e - 1] : 0, end = min(s.ends[e], static_cast<uint32_t>(a.expanded));
    for (uint32_t i = begin + s.all[e] + threadIdx.x; i < end; i += blockDim.x) a.choices[i] = -1;
  }
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = s.ends[experts - 1] + thread; i < a.expanded; i += step) a.choices[i] = -1;
  for (int64_t i = all + thread; i < static_cast<int64_t>(a.rows) * a.topk; i += step) a.slots[i] = -1;
}

/* Computes EpPlacesArgs' outputs. Each block assigns rows to the selections of some consecutive tokens. Each block also
 * counts all selections before its own, so no block waits for another. */
EP_ENTRY(512, 1) ep_places(const __grid_constant__ EpPlacesArgs a) {
  normal_begin();
  __shared__ ExpandCounts s;
  const int64_t rows = expand_rows(a.received, a.rows), each = (rows + gridDim.x - 1) / gridDim.x;
  const int64_t first = min(static_cast<int64_t>(blockIdx.x) * each, rows) * a.topk, end = min(first + each * a.topk, rows * a.topk);
  expand_count(a, rows * a.topk, first, s);
  expand_assign_run(a, first, end, s);
  expand_mark_padding(a, rows * a.topk, s);
}

EP_DEVICE void expand_row(const EpExpandArgs &a, int64_t row) {
  const int32_t slot = lane_id() < static_cast<uint32_t>(a.topk) ? a.slots[row * a.topk + lane_id()] : -1;
  const uint32_t owners = __ballot_sync(EP_FULL_WARP, slot >= 0), vectors = static_cast<uint32_t>(a.row_bytes) / 16;
  if (slot >= 0 && a.weights != nullptr) a.out_weights[slot] = a.weights[row * a.topk + lane_id()];
  const uint4 *in = reinterpret_cast<const uint4 *>(a.x + row * a.row_bytes);
  for (uint32_t base = lane_id(); owners != 0 && base - lane_id() < vectors; base += 32 * EXPAND_LOADS) {
    uint4 v[EXPAND_LOADS];
#pragma unroll
    for (uint32_t j = 0; j < EXPAND_LOADS; j++)
      if (base + 32 * j < vectors) v[j] = ld_once(in + base + 32 * j);
    for (uint32_t todo = owners; todo != 0; todo &= todo - 1) {
      const int64_t to = __shfl_sync(EP_FULL_WARP, slot, __ffs(todo) - 1);
      uint4 *out = reinterpret_cast<uint4 *>(a.out + to * a.row_bytes);
#pragma unroll
      for (uint32_t j = 0; j < EXPAND_LOADS; j++)
        if (base + 32 * j < vectors) out[base + 32 * j] = v[j];
    }
  }
  for (uint32_t todo = owners; a.scales != nullptr && todo != 0; todo &= todo - 1) {
    const int64_t to = __shfl_sync(EP_FULL_WARP, slot, __ffs(todo) - 1);
    for (int64_t i = lane_id(); i < a.groups; i += 32) a.out_scales[to * a.scale_row + i * a.scale_group] = a.scales[row * a.groups + i];
  }
}

EP_DEVICE void expand_zero(const EpExpandArgs &a, int64_t row) {
  uint4 *out = reinterpret_cast<uint4 *>(a.out + row * a.row_bytes);
  for (int32_t i = static_cast<int32_t>(lane_id()); i < a.row_bytes / 16; i += 32) out[i] = make_uint4(0, 0, 0, 0);
  for (int64_t i = lane_id(); a.scales != nullptr && i < a.groups; i += 32) a.out_scales[row * a.scale_row + i * a.scale_group] = 0.0f;
}

EP_ENTRY(512, EXPAND_BLOCKS) ep_expand(const __grid_constant__ EpExpandArgs a) {
  normal_begin();
  const int64_t warp = static_cast<int64_t>(blockIdx.x) * warps_in_block() + warp_id(), warps = static_cast<int64_t>(gridDim.x) * warps_in_block();
  const int64_t rows = expand_rows(a.received, a.rows);
  for (int64_t row = warp; row < rows; row += warps) expand_row(a, row);
  for (int64_t base = 32 * warp; base < a.expanded; base += 32 * warps) {
    const int64_t row = base + lane_id();
    const bool padding = row < a.expanded && a.choices[row] < 0;
    if (padding && a.weights != nullptr) a.out_weights[row] = 0.0f;
    for (uint32_t todo = a.zeros ? __ballot_sync(EP_FULL_WARP, padding) : 0; todo != 0; todo &= todo - 1) expand_zero(a, base + __ffs(todo) - 1);
  }
}

EP_DEVICE void expand_fold_row(const EpFoldArgs &a, int64_t row) {
  const bool has = lane_id() < static_cast<uint32_t>(a.topk);
  const int32_t slot = has ? a.slots[row * a.topk + lane_id()] : -1;
  const uint32_t owners = __ballot_sync(EP_FULL_WARP, slot >= 0), vectors = static_cast<uint32_t>(a.hidden) / 8;
  if (has && a.weights != nullptr) a.out_weights[row * a.topk + lane_id()] = slot >= 0 ? a.weights[slot] : 0.0f;
  const uint4 *in = reinterpret_cast<const uint4 *>(a.x);
  uint4 *out = reinterpret_cast<uint4 *>(a.out) + row * vectors;
  for (uint32_t base = lane_id(); base - lane_id() < vectors; base += 32 * EXPAND_LOADS) {
    float sum[EXPAND_LOADS][8] = {};
    for (uint32_t todo = owners; todo != 0; todo &= todo - 1) {
      const int64_t from = __shfl_sync(EP_FULL_WARP, slot, __ffs(todo) - 1);
#pragma unroll
      for (uint32_t j = 0; j < EXPAND_LOADS; j++)
        if (base + 32 * j < vectors) bf16_accumulate(sum[j], ld_once(in + from * vectors + base + 32 * j), 1.0f);
    }
#pragma unroll
    for (uint32_t j = 0; j < EXPAND_LOADS; j++)
      if (base + 32 * j < vectors) out[base + 32 * j] = bf16_pack(sum[j]);
  }
}

EP_ENTRY(512, EXPAND_BLOCKS) ep_fold(const __grid_constant__ EpFoldArgs a) {
  normal_begin();
  const int64_t warps = static_cast<int64_t>(gridDim.x) * warps_in_block(), rows = expand_rows(a.received, a.rows);
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * warps_in_block() + warp_id(); row < rows; row += warps) expand_fold_row(a, row);
}
