/* Small kernels that each check one primitive, on the emulator and on GPUs. counters[1] is the number of failed
 * checks, counters[2] the number of all checks. Region 0 is the work area. */
#include "ep/signal.cuh"

#ifndef EP_THREADS
#define EP_THREADS 1024
#endif
/* EP_LITMUS_FENCE=0 leaves out the fence that a signal needs. The race detector must then report a race. */
#ifndef EP_LITMUS_FENCE
#define EP_LITMUS_FENCE 1
#endif

#define EP_LITMUS_WRONG 1
#define EP_LITMUS_CHECKS 2

EP_DEVICE void litmus_report(const EpArgs &a, bool right) {
  red_add_relaxed_gpu(ep_counter(a, EP_LITMUS_CHECKS), 1);
  if (!right) red_add_relaxed_gpu(ep_counter(a, EP_LITMUS_WRONG), 1);
}

/* Tests block_memcpy. Each case copies from its own source cell to its own cell on the peer. A case copies `step`
 * 16-byte vectors more than the case before, and its copy begins at one of 8 offsets in the cell. The host checks the
 * cells. */
EP_ENTRY(EP_THREADS, 1) ep_litmus_memcpy(const __grid_constant__ EpArgs a) {
  const uint64_t cell = static_cast<uint64_t>(a.cell_bytes), cases = static_cast<uint64_t>(a.cases);
  for (uint64_t n = blockIdx.x; n < cases; n += gridDim.x) {
    const uint8_t *from = a.heap[a.rank] + a.region[0] + n * cell;
    uint8_t *to = a.heap[a.peer] + a.region[0] + (cases + n) * cell + 16 * (n % 8);
    const uint32_t bytes = static_cast<uint32_t>(16 + 16 * n * static_cast<uint64_t>(a.step));
    block_memcpy<EP_IN_FLIGHT>(to, from, bytes, threadIdx.x, blockDim.x);
  }
}

EP_ENTRY(EP_THREADS, 1) ep_litmus_scan(const __grid_constant__ EpArgs a) {
  __shared__ uint32_t counts[1024];
  for (uint32_t n = 1 + blockIdx.x; n <= static_cast<uint32_t>(a.sizes); n += gridDim.x) {
    auto value = [n](uint32_t i) { return (i * 2654435761u ^ n * 40503u) & 0xffffu; };
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) counts[i] = value(i);
    __syncthreads();
    block_scan(counts, n);
    if (threadIdx.x == 0) {
      uint32_t sum = 0;
      bool right = true;
      for (uint32_t i = 0; i < n; i++) right &= counts[i] == (sum += value(i));
      litmus_report(a, right);
    }
    __syncthreads();
  }
}

/* Tests message passing. One thread writes eight words and then a flag with release order. Another thread acquires
 * the flag, must then see the words, and answers in the same way. */
EP_ENTRY(EP_THREADS, 1) ep_litmus_pass(const __grid_constant__ EpArgs a) {
  const int32_t scope = a.scope;
  const uint32_t rounds = static_cast<uint32_t>(a.rounds);
  const bool writer = threadIdx.x == 0 && blockIdx.x == 0;
  const bool reader = scope == EP_LITMUS_GPU ? threadIdx.x == 0 && blockIdx.x == 1 : threadIdx.x == 32 && blockIdx.x == 0;
  if (!writer && !reader) return;
  const int32_t box = writer && scope == EP_LITMUS_SYSTEM ? (a.rank + 1) % a.ranks : a.rank;
  uint32_t *words = reinterpret_cast<uint32_t *>(a.heap[box] + a.region[0]);
  uint32_t *flag = words + 32, *answer = words + 64;
  auto load = [scope](const uint32_t *p) {
    return scope == EP_LITMUS_BLOCK ? ld_acquire_cta(p) : scope == EP_LITMUS_GPU ? ld_acquire_gpu(p) : ld_acquire_sys(p);
  };
  auto store = [scope](uint32_t *p, uint32_t v) {
    scope == EP_LITMUS_BLOCK ? st_release_cta(p, v) : scope == EP_LITMUS_GPU ? st_release_gpu(p, v) : st_release_sys(p, v);
  };
  for (uint32_t r = 1; r <= rounds; r++) {
    EpSpin spin;
    if (writer) {
      for (uint32_t i = 0; i < 8; i++) words[i] = r * 8 + i;
      store(flag, r);
    }
    uint32_t got;
    while ((got = load(writer ? answer : flag)) != r)
      if (!spin.again(a, {EP_PHASE_ALIGN, -1, -1}, r, got)) return;
    if (writer) continue;
    bool right = true;
    for (uint32_t i = 0; i < 8; i++) right &= words[i] == r * 8 + i;
    litmus_report(a, right);
    store(answer, r);
  }
}

/* Tests ep_signal_completion. Warp 0 of each block writes 32 words to the next rank and signals. Warp 1 waits for
 * the previous rank's signal, checks the words, resets the signal's word, and answers. */
EP_ENTRY(EP_THREADS, 1) ep_litmus_signal(const __grid_constant__ EpArgs a) {
  const uint64_t box = a.region[0] + blockIdx.x * 1024ull;
  const int32_t next = (a.rank + 1) % a.ranks, previous = (a.rank + a.ranks - 1) % a.ranks;
  const uint32_t lane = lane_id();
  uint64_t *answer = reinterpret_cast<uint64_t *>(a.heap[a.rank] + box + 512);
  for (uint64_t g = 1; g <= static_cast<uint64_t>(a.rounds); g++) {
    bool ok = true;
    if (warp_id() == 0) {
      reinterpret_cast<uint32_t *>(a.heap[next] + box)[lane] = static_cast<uint32_t>(g * 32 + lane);
      __syncwarp();
      uint64_t *word = reinterpret_cast<uint64_t *>(a.heap[next] + box + 256);
      if (lane == 0 && EP_LITMUS_FENCE) ep_signal_completion(word, g);
      if (lane == 0 && !EP_LITMUS_FENCE) st_relaxed_sys(word, g);
      if (lane == 0) ok = ep_await_value(a, answer, {EP_PHASE_DISPATCH_ASYNC, -1, next}, g);
    } else if (warp_id() == 1) {
      uint64_t *word = reinterpret_cast<uint64_t *>(a.heap[a.rank] + box + 256), value = 0;
      if (lane == 0) ok = ep_await_count(a, word, {EP_PHASE_DISPATCH_WAIT, -1, previous}, &value);
      __syncwarp();
      const uint32_t seen = reinterpret_cast<uint32_t *>(a.heap[a.rank] + box)[lane];
      litmus_report(a, !ok || seen == static_cast<uint32_t>(g * 32 + lane));
      __syncwarp();
      if (lane == 0) {
        litmus_report(a, value == g);
        st_relaxed_sys(word, EP_NOT_ARRIVED);
        ep_signal_completion(reinterpret_cast<uint64_t *>(a.heap[previous] + box + 512), g);
      }
    }
    if (!__all_sync(EP_FULL_WARP, ok)) return;
  }
}

/* Tests the conversions with every BF16 value. Word i of the region becomes four bytes of value i: its e4m3 code,
 * its e2m1 code, the e8m0 scale of its magnitude (e8m0_even), and the low byte of value * (1 + 2^-9) in BF16. */
EP_ENTRY(EP_THREADS, 1) ep_litmus_codec(const __grid_constant__ EpArgs a) {
  uint32_t *out = reinterpret_cast<uint32_t *>(a.heap[a.rank] + a.region[0]);
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < 65536; i += gridDim.x * blockDim.x) {
    const float x = __uint_as_float(i << 16);
    out[i] = (cvt_e4m3x2(0.0f, x) & 0xffu) | e2m1(x) << 8 | e8m0_even(fabsf(x)) << 16 |
             (bf16_pair(__fmul_rn(x, 1.001953125f), 0.0f) & 0xffu) << 24;
  }
}

EP_ENTRY(EP_THREADS, 1) ep_litmus_layout(const __grid_constant__ EpArgs a) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  uint64_t *out = reinterpret_cast<uint64_t *>(a.heap[a.rank] + a.region[0]);
  out[0] = EP_MSG_BYTES;
  out[1] = EP_COUNTERS;
  out[2] = EP_SCALES_AT;
  out[3] = EP_TOKEN_BYTES;
  out[4] = EP_IDS_AT;
  out[5] = recv_buf_layout(EP_LOCAL_EXPERTS - 1, EP_SOURCES - 1, 65535, 65536);
  out[6] = recv_count_layout(EP_LOCAL_EXPERTS - 1, EP_RANKS - 1);
  out[7] = combine_buf_layout(65535, EP_ALGO == EP_DEDUP ? EP_RANKS - 1 : EP_TOPK - 1);
  out[8] = send_buf_layout(65535);
  out[9] = sizeof(EpArgs);
}
