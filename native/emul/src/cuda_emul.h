/* Defines the parts of CUDA C++ that the device sources use. With them a host compiler compiles these sources:
 *
 *   g++ -std=c++20 -DEP_EMULATE -I native/emul/src -I native/include -I native/kernels ...
 *
 * A block is one OS thread. Its threads are fibers, which switch only inside the functions below. */
#ifndef EP_CUDA_EMUL_H
#define EP_CUDA_EMUL_H

#include <stddef.h>
#include <stdint.h>

/* We declare these functions ourselves, because math.h and string.h would take a third of the compile time. */
extern "C" {
float expf(float) noexcept;
float fabsf(float) noexcept;
float fmaf(float, float, float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float rintf(float) noexcept;
void *memcpy(void *, const void *, size_t) noexcept;
void *memset(void *, int, size_t) noexcept;
}

#define __global__
#define __device__
#define __host__
/* Not always_inline: g++ compiles one copy of a function faster than many. Hidden, so that calls inside a module are
 * direct. */
#define __forceinline__ inline __attribute__((visibility("hidden")))
#define __noinline__ __attribute__((noinline, unused))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local

struct uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct dim3 { uint32_t x, y, z; };

static inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

/* ---- the runtime, in fiber.cpp ---- */

struct EmulThread {
  dim3 thread, block, block_dim, grid_dim;
};

extern "C" {
extern thread_local EmulThread *emul_self;
void emul_point(void); /* may switch to another thread */
/* Device code calls these before each atomic read, write, or read-modify-write. */
void emul_reads(const void *p);
void emul_writes(const void *p);
void emul_updates(const void *p);
void emul_spin(void);
void emul_fence(void);
void emul_sleep(uint32_t ns);
uint64_t emul_time_ns(void);
uint8_t *emul_dynamic_shared(void);
void emul_bar_sync(uint32_t id, uint32_t threads); /* if `threads` is 0: the whole block */
/* Each lane of `mask` passes `in` and gets all lanes' values in out[32]. */
void emul_collect(uint32_t mask, int op, uint64_t in, uint64_t *out);
void emul_mbar_init(uint64_t *bar, uint32_t arrivals);
void emul_mbar_expect(uint64_t *bar, uint32_t bytes);
bool emul_mbar_try(uint64_t *bar, uint32_t parity);
void emul_bulk_load(void *shared, const void *global, uint32_t bytes, uint64_t *bar);
void emul_bulk_store(void *global, const void *shared, uint32_t bytes);
void emul_bulk_commit(void);
/* Waits until bulk stores have read their data from shared memory. If `written`, it waits until the data is written. */
void emul_bulk_wait(uint32_t groups_left, bool written);
}

/* Writes a variable of the OS thread, so that the system allocates the thread's variables, and with them the __shared__
 * variables. With the race detector, this must happen before any fiber runs. */
static thread_local volatile char emul_anchor __attribute__((unused));
extern "C" inline __attribute__((used)) void emul_touch_shared(void) { emul_anchor = 0; }

#define threadIdx (emul_self->thread)
#define blockIdx (emul_self->block)
#define blockDim (emul_self->block_dim)
#define gridDim (emul_self->grid_dim)

/* ---- synchronisation and warp collectives ---- */

enum EmulOp { EMUL_SYNC = 1, EMUL_SHFL, EMUL_VOTE, EMUL_MATCH, EMUL_REDUCE };

static inline void __syncthreads() { emul_bar_sync(0, 0); }
static inline void __syncwarp(uint32_t mask = 0xffffffffu) {
  uint64_t all[32];
  emul_collect(mask, EMUL_SYNC, 0, all);
}

template <class T>
static inline T emul_shuffle(uint32_t mask, T v, int lane) {
  static_assert(sizeof(T) <= 8);
  uint64_t in = 0, all[32];
  memcpy(&in, &v, sizeof v);
  emul_collect(mask, EMUL_SHFL, in, all);
  memcpy(&v, &all[lane & 31], sizeof v);
  return v;
}

/* In the shuffles below, a lane reads only lanes of its own segment of `width` lanes. */
static inline int emul_lane() { return static_cast<int>(threadIdx.x & 31u); }

template <class T>
static inline T __shfl_sync(uint32_t mask, T v, int src, int width = 32) {
  int base = emul_lane() & ~(width - 1);
  return emul_shuffle(mask, v, base + (src & (width - 1)));
}
template <class T>
static inline T __shfl_xor_sync(uint32_t mask, T v, int bits, int width = 32) {
  int lane = emul_lane(), from = lane ^ bits;
  bool inside = (from & ~(width - 1)) <= (lane & ~(width - 1));
  return emul_shuffle(mask, v, inside ? from : lane);
}
template <class T>
static inline T __shfl_up_sync(uint32_t mask, T v, unsigned delta, int width = 32) {
  int lane = emul_lane(), from = lane - static_cast<int>(delta);
  return emul_shuffle(mask, v, from < (lane & ~(width - 1)) ? lane : from);
}

static inline uint32_t __ballot_sync(uint32_t mask, int pred) {
  uint64_t all[32];
  uint32_t bits = 0;
  emul_collect(mask, EMUL_VOTE, pred != 0, all);
  for (int i = 0; i < 32; i++)
    if ((mask >> i & 1u) && all[i]) bits |= 1u << i;
  return bits;
}
static inline int __any_sync(uint32_t mask, int pred) { return __ballot_sync(mask, pred) != 0; }
static inline int __all_sync(uint32_t mask, int pred) { return __ballot_sync(mask, pred) == mask; }

template <class T>
static inline uint32_t __match_any_sync(uint32_t mask, T v) {
  uint64_t in = 0, all[32];
  uint32_t bits = 0;
  memcpy(&in, &v, sizeof v);
  emul_collect(mask, EMUL_MATCH, in, all);
  for (int i = 0; i < 32; i++)
    if ((mask >> i & 1u) && all[i] == in) bits |= 1u << i;
  return bits;
}

template <class T, class F>
static inline T emul_reduce(uint32_t mask, T v, F combine) {
  uint64_t in = 0, all[32];
  memcpy(&in, &v, sizeof v);
  emul_collect(mask, EMUL_REDUCE, in, all);
  bool first = true;
  T acc{};
  for (int i = 0; i < 32; i++) {
    if (!(mask >> i & 1u)) continue;
    T x;
    memcpy(&x, &all[i], sizeof x);
    acc = first ? x : combine(acc, x);
    first = false;
  }
  return acc;
}
template <class T>
static inline T __reduce_add_sync(uint32_t m, T v) { return emul_reduce(m, v, [](T a, T b) { return T(a + b); }); }
template <class T>
static inline T __reduce_max_sync(uint32_t m, T v) { return emul_reduce(m, v, [](T a, T b) { return a > b ? a : b; }); }
template <class T>
static inline T __reduce_or_sync(uint32_t m, T v) { return emul_reduce(m, v, [](T a, T b) { return T(a | b); }); }

static inline int __syncthreads_or(int pred) {
  static thread_local int seen;
  __syncthreads();
  if (threadIdx.x == 0) seen = 0;
  __syncthreads();
  if (pred) seen = 1;
  __syncthreads();
  return seen;
}

/* ---- relaxed atomics, as on the device ---- */

template <class T, class U>
static inline T atomicAdd(T *p, U v) {
  emul_updates(p);
  return __atomic_fetch_add(p, static_cast<T>(v), __ATOMIC_RELAXED);
}
template <class T, class U>
static inline T atomicOr(T *p, U v) {
  emul_updates(p);
  return __atomic_fetch_or(p, static_cast<T>(v), __ATOMIC_RELAXED);
}
template <class T, class F>
static inline T emul_update(T *p, F change) {
  emul_updates(p);
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, change(old), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T, class U>
static inline T atomicMin(T *p, U v) {
  return emul_update(p, [v](T o) { return o < T(v) ? o : T(v); });
}
template <class T, class U>
static inline T atomicMax(T *p, U v) {
  return emul_update(p, [v](T o) { return o > T(v) ? o : T(v); });
}

static inline uint32_t __float_as_uint(float x) { uint32_t v; memcpy(&v, &x, 4); return v; }
static inline float __uint_as_float(uint32_t x) { float v; memcpy(&v, &x, 4); return v; }
static inline int __popc(uint32_t x) { return __builtin_popcount(x); }
static inline int __ffs(uint32_t x) { return __builtin_ffs(static_cast<int>(x)); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __frcp_rn(float a) { return 1.0f / a; }

template <class T>
static inline T min(T a, T b) { return a < b ? a : b; }
template <class T>
static inline T max(T a, T b) { return a > b ? a : b; }
static inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }

#endif
