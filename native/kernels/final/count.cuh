/* First half of dispatch_final: finds the output rows of each token from the routing of all ranks. It uses no atomics
 * on global memory, so a token gets the same rows in every run. Each sending block has some consecutive tokens. */
#pragma once

#include "common/message.cuh"
#include "final/layout.cuh"

/* The number of warps that count at the same time. The counters of 8 warps fit in shared memory only up to 512
 * experts. */
static const uint32_t FIN_COUNT_WARPS = EP_EXPERTS > 512 ? 4 : 8;
static const bool FIN_TILES = EP_TOKEN_SCALES > 0 && EP_SCALES == 1;
static const uint32_t FIN_COPIES = EP_DIRECT ? EP_TOPK : (EP_RANKS < EP_TOPK ? EP_RANKS : EP_TOPK);

struct FinShared {
  uint32_t running[FIN_COUNT_WARPS][EP_EXPERTS]; /* by warp and expert: rows of the block's earlier warps */
  uint32_t base[EP_EXPERTS];  /* output row of this block's first token for each expert */
  uint32_t start[EP_EXPERTS]; /* by expert: at first this block's rows, later the first row of the group */
  uint32_t tokens[EP_RANKS];
  uint32_t rows;
  uint32_t failed;
  uint8_t *to[EP_THREADS / 32][FIN_COPIES];
};

struct FinRun {
  uint32_t begin, end;
};
EP_DEVICE FinRun fin_share(uint32_t begin, uint32_t end, uint32_t part, uint32_t parts) {
  uint32_t each = ceil_div(end - begin, parts);
  return {min(begin + part * each, end), min(begin + (part + 1) * each, end)};
}
EP_DEVICE FinRun fin_block_tokens(const EpArgs &a, const EpCall &c) {
  return fin_share(0, static_cast<uint32_t>(a.tokens), c.block, c.senders);
}
EP_DEVICE uint32_t fin_count_warps(const EpCall &c) { return min(FIN_COUNT_WARPS, c.warps); }
EP_DEVICE FinRun fin_warp_ids(const EpArgs &a, const EpCall &c) {
  FinRun t = fin_block_tokens(a, c);
  return fin_share(t.begin * EP_TOPK, t.end * EP_TOPK, c.warp, fin_count_warps(c));
}

EP_DEVICE void fin_count(const EpArgs &a, const EpCall &c, FinShared &s) {
  uint32_t counters = fin_count_warps(c);
  for (uint32_t i = threadIdx.x; i < FIN_COUNT_WARPS * EP_EXPERTS; i += blockDim.x) s.running[0][i] = 0;
  for (uint32_t i = threadIdx.x; i < EP_EXPERTS; i += blockDim.x) s.base[i] = 0;
  __syncthreads();
  if (c.warp < counters) {
    FinRun run = fin_warp_ids(a, c);
    ep_tally_ids(a, run.begin + c.lane, 32, run.end, s.running[c.warp]);
  }
  __syncthreads();
  for (uint32_t e = threadIdx.x; e < EP_EXPERTS; e += blockDim.x) {
    uint32_t before = 0;
    for (uint32_t w = 0; w < counters; w++) {
      uint32_t rows = s.running[w][e];
      s.running[w][e] = before;
      before += rows;
    }
    s.start[e] = before;
  }
}

/* Sets s.base to the number of rows of the blocks before this one. Each block counts the ids of earlier blocks itself,
 * because passing counts from block to block takes longer. */
EP_DEVICE void fin_count_before(const EpArgs &a, const EpCall &c, FinShared &s) {
  ep_tally_ids(a, threadIdx.x, blockDim.x, fin_block_tokens(a, c).begin * EP_TOPK, s.base);
  __syncthreads();
}

/* Sends every rank the number of this rank's tokens. A rank that has received this word may write to this rank's
 * output: the store has release order and comes after this rank's reads of the output of earlier calls. A release takes
 * long, so the last sending block starts it early, before it counts. */
EP_DEVICE void fin_signal_tokens(const EpArgs &a, const EpCall &c) {
  if (threadIdx.x >= EP_RANKS) return;
  uint64_t *word = fin_counts(a, static_cast<int>(threadIdx.x), c.number, a.rank) + EP_EXPERTS;
  st_release_sys(word, static_cast<uint64_t>(c.number) << 32 | static_cast<uint32_t>(a.tokens));
}

EP_DEVICE void fin_signal(const EpArgs &a, const EpCall &c, const FinShared &s) {
  for (uint32_t e = threadIdx.x; e < EP_EXPERTS; e += blockDim.x) {
    if (ep_drill_drops(a, static_cast<int32_t>(e))) continue;
    for (int i = 0; i < EP_RANKS; i++) {
      int to = (a.rank + i) % EP_RANKS;
      st_relaxed_sys(fin_counts(a, to, c.number, a.rank) + e, static_cast<uint64_t>(c.number) << 32 | (s.base[e] + s.start[e]));
    }
  }
}

EP_DEVICE void fin_place(const EpArgs &a, const EpCall &c, FinShared &s) {
  if (c.warp >= fin_count_warps(c)) return;
  FinRun run = fin_warp_ids(a, c);
  uint32_t *running = s.running[c.warp];
  int32_t next = run.begin + c.lane < run.end ? ep_load_id(a, run.begin + c.lane) : EP_NO_ID;
  for (uint32_t first = run.begin; first < run.end; first += 32) {
    uint32_t j = first + c.lane;
    int32_t id = ep_is_expert(next) ? next : EP_NO_ID;
    next = j + 32 < run.end ? ep_load_id(a, j + 32) : EP_NO_ID;
    uint32_t same = __match_any_sync(EP_FULL_WARP, id);
    uint32_t before = __popc(same & ((1u << c.lane) - 1)), start = id >= 0 ? running[id] : 0;
    __syncwarp();
    if (id >= 0 && before == 0) running[id] = start + __popc(same);
    if (id >= 0) fin_places(a)[j] = start + before;
    __syncwarp();
  }
}

/* Polls the counts from all ranks for one expert, or the ranks' numbers of tokens. The loads are relaxed, because
 * acquire loads would run one after the other. A fence after the numbers of tokens is the acquire for
 * fin_signal_tokens. */
EP_DEVICE bool fin_wait_count(const EpArgs &a, const EpCall &c, uint32_t word, uint32_t (&count)[EP_RANKS]) {
  EpSpin spin;
  for (;;) {
    int missing = -1;
    uint64_t v[EP_RANKS];
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) v[r] = ld_relaxed_sys(fin_counts(a, a.rank, c.number, r) + word);
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) {
      count[r] = static_cast<uint32_t>(v[r]);
      if (v[r] >> 32 != c.number) missing = r;
    }
    if (missing < 0) {
      if (word == EP_EXPERTS) fence_acq_rel_sys();
      return true;
    }
    int32_t expert = word < EP_EXPERTS ? static_cast<int32_t>(word) : -1;
    if (!spin.again(a, {EP_PHASE_DISPATCH_WAIT, expert, missing}, c.number, 0)) return false;
  }
}

EP_DEVICE void fin_scan_groups(const EpArgs &a, const EpCall &c, FinShared &s) {
  for (uint32_t r = c.warp; r < EP_RANKS; r += c.warps) {
    uint32_t carry = 0;
    for (uint32_t first = 0; first < EP_LOCAL_EXPERTS; first += 32) {
      uint32_t e = first + c.lane, rows = e < EP_LOCAL_EXPERTS ? s.start[r * EP_LOCAL_EXPERTS + e] : 0;
      uint32_t padded = ceil_div(rows, EP_ROW_PAD) * EP_ROW_PAD, end = warp_prefix_sum(padded);
      uint32_t start = carry + end - padded;
      carry += __shfl_sync(EP_FULL_WARP, end, 31);
      if (e >= EP_LOCAL_EXPERTS) continue;
      s.start[r * EP_LOCAL_EXPERTS + e] = start;
      if (r != static_cast<uint32_t>(a.rank)) continue;
      if (e == EP_LOCAL_EXPERTS - 1) s.rows = start + padded;
      if (c.block != 0 || s.failed) continue;
      a.row_offsets[e] = start;
      a.expert_ids[e] = static_cast<int32_t>(e);
      if (e == EP_LOCAL_EXPERTS - 1) a.row_offsets[e + 1] = start + padded;
    }
  }
}

EP_DEVICE void fin_wait_counts(const EpArgs &a, const EpCall &c, FinShared &s) {
  for (uint32_t e = threadIdx.x; e <= EP_EXPERTS; e += blockDim.x) {
    uint32_t count[EP_RANKS], all = 0, before = 0;
    if (!fin_wait_count(a, c, e, count)) s.failed = 1;
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) {
      if (r < a.rank) before += count[r];
      all += count[r];
      if (e == EP_EXPERTS) s.tokens[r] = count[r];
    }
    if (e == EP_EXPERTS) break;
    s.base[e] += before;
    s.start[e] = all;
  }
  __syncthreads();
  fin_scan_groups(a, c, s);
  if (c.block == 0 && threadIdx.x < EP_RANKS) fin_tokens(a)[threadIdx.x] = s.tokens[threadIdx.x];
  __syncthreads();
  for (uint32_t e = threadIdx.x; e < EP_EXPERTS; e += blockDim.x) s.base[e] += s.start[e];
  __syncthreads();
}

/* Finds the numbers of tokens and of rows, for a block that only receives. A thread waits for counts before it waits
 * for numbers of tokens. So if a rank sends nothing, the fault record names an expert whose count is missing. */
EP_DEVICE void fin_wait_tokens(const EpArgs &a, const EpCall &c, FinShared &s) {
  for (uint32_t e = threadIdx.x; e <= EP_EXPERTS; e += blockDim.x) {
    uint32_t count[EP_RANKS];
    if (!fin_wait_count(a, c, e, count)) s.failed = 1;
    uint32_t all = 0;
#pragma unroll
    for (int r = 0; r < EP_RANKS; r++) {
      all += count[r];
      if (e == EP_EXPERTS) s.tokens[r] = count[r];
    }
    if (e / EP_LOCAL_EXPERTS == static_cast<uint32_t>(a.rank)) atomicAdd(&s.rows, ceil_div(all, EP_ROW_PAD) * EP_ROW_PAD);
  }
  __syncthreads();
}
