/* Wraps machine operations for which CUDA C++ has no function. A function's name gives the operation, its memory order
 * and its scope. Other files have no inline assembly, so that the same source also runs on a CPU. With EP_EMULATE the
 * functions use atomic builtins, and waits let other threads run.
 *
 * Scopes are cta (block), gpu (device) and sys (all devices and the host). The PTX ISA defines orders and scopes
 * in "Memory Consistency Model". */
#pragma once

#ifdef EP_EMULATE
#include "cuda_emul.h"
#endif
#include "ep_args.h"

#define EP_DEVICE __device__ __forceinline__

/* EP_ASM(emulated, ...) is the statement `emulated` on a CPU, and asm volatile(...) on a GPU. */
#ifdef EP_EMULATE
#define EP_ASM(emulated, ...) emulated
#define EP_DYNAMIC_SHARED(name) uint8_t *name = emul_dynamic_shared()
#define EP_ENTRY(threads, min_blocks) extern "C" void
#define EP_ARCH 0
#else
#define EP_ASM(emulated, ...) asm volatile(__VA_ARGS__)
#define EP_DYNAMIC_SHARED(name) extern __shared__ __align__(128) uint8_t name[]
#define EP_ENTRY(threads, min_blocks) extern "C" __global__ void __launch_bounds__(threads, min_blocks)
#ifdef __CUDA_ARCH__
#define EP_ARCH __CUDA_ARCH__
#else
#define EP_ARCH 0
#endif
#endif

EP_DEVICE uint32_t lane_id() { return threadIdx.x & 31u; }
EP_DEVICE uint32_t warp_id() { return threadIdx.x >> 5; }
EP_DEVICE uint32_t warps_in_block() { return blockDim.x >> 5; }

static const uint32_t EP_FULL_WARP = 0xffffffffu;

#ifdef EP_EMULATE

/* T is a 32- or 64-bit integer. decltype(T()) takes T from p alone, so that v may be a literal. */
#define EP_LD_PTX(name, op, order)                                                                              \
  template <class T>                                                                                            \
  EP_DEVICE T name(const T *p) { emul_reads(p); return __atomic_load_n(p, __ATOMIC_##order); }                  \
  EP_DEVICE uint4 name(const uint4 *p) {                                                                        \
    emul_reads(p);                                                                                              \
    const uint32_t *w = reinterpret_cast<const uint32_t *>(p);                                                  \
    auto word = [w](int i) { return __atomic_load_n(w + i, __ATOMIC_##order); };                                \
    return make_uint4(word(0), word(1), word(2), word(3));                                                      \
  }
#define EP_ST_PTX(name, op, order)                                                                              \
  template <class T>                                                                                            \
  EP_DEVICE void name(T *p, decltype(T()) v) { emul_writes(p); __atomic_store_n(p, v, __ATOMIC_##order); }      \
  EP_DEVICE void name(uint4 *p, uint4 v) {                                                                      \
    emul_writes(p);                                                                                             \
    uint32_t *w = reinterpret_cast<uint32_t *>(p);                                                              \
    __atomic_store_n(w, v.x, __ATOMIC_##order);                                                                 \
    __atomic_store_n(w + 1, v.y, __ATOMIC_##order);                                                             \
    __atomic_store_n(w + 2, v.z, __ATOMIC_##order);                                                             \
    __atomic_store_n(w + 3, v.w, __ATOMIC_##order);                                                             \
  }
#define EP_ADD_PTX(name, op, order)                                                                             \
  template <class T>                                                                                            \
  EP_DEVICE T name(T *p, decltype(T()) v) { emul_updates(p); return __atomic_fetch_add(p, v, __ATOMIC_##order); }

#else

#define EP_LD_ONE(name, op, type, suffix, reg)                                 \
  EP_DEVICE type name(const type *p) {                                         \
    type v;                                                                    \
    asm volatile(op suffix " %0, [%1];" : "=" reg(v) : "l"(p) : "memory");     \
    return v;                                                                  \
  }
#define EP_LD_PTX(name, op, order)                                             \
  EP_LD_ONE(name, op, uint32_t, ".u32", "r")                                   \
  EP_LD_ONE(name, op, int32_t, ".s32", "r")                                    \
  EP_LD_ONE(name, op, uint64_t, ".u64", "l")                                   \
  EP_DEVICE uint4 name(const uint4 *p) {                                       \
    uint4 v;                                                                   \
    asm volatile(op ".v4.u32 {%0, %1, %2, %3}, [%4];"                          \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory"); \
    return v;                                                                  \
  }
#define EP_ST_ONE(name, op, type, suffix, reg)                                 \
  EP_DEVICE void name(type *p, type v) { asm volatile(op suffix " [%0], %1;" ::"l"(p), reg(v) : "memory"); }
#define EP_ST_PTX(name, op, order)                                             \
  EP_ST_ONE(name, op, uint32_t, ".u32", "r")                                   \
  EP_ST_ONE(name, op, int32_t, ".s32", "r")                                    \
  EP_ST_ONE(name, op, uint64_t, ".u64", "l")                                   \
  EP_DEVICE void name(uint4 *p, uint4 v) {                                     \
    asm volatile(op ".v4.u32 [%0], {%1, %2, %3, %4};"                          \
                 ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory"); \
  }
#define EP_ADD_ONE(name, op, type, suffix, reg)                                \
  EP_DEVICE type name(type *p, type v) {                                       \
    type old;                                                                  \
    asm volatile(op suffix " %0, [%1], %2;" : "=" reg(old) : "l"(p), reg(v) : "memory"); \
    return old;                                                                \
  }
#define EP_ADD_PTX(name, op, order)                                            \
  EP_ADD_ONE(name, op, uint32_t, ".u32", "r")                                  \
  EP_ADD_ONE(name, op, int32_t, ".s32", "r")                                   \
  EP_ADD_ONE(name, op, uint64_t, ".u64", "l")

#endif

/* Operations whose PTX does not say `.global` also accept addresses in shared memory. */
EP_LD_PTX(ld_acquire_cta, "ld.acquire.cta", ACQUIRE)
EP_LD_PTX(ld_relaxed_gpu, "ld.relaxed.gpu.global", RELAXED)
EP_LD_PTX(ld_acquire_gpu, "ld.acquire.gpu.global", ACQUIRE)
EP_LD_PTX(ld_relaxed_sys, "ld.relaxed.sys.global", RELAXED)
EP_LD_PTX(ld_acquire_sys, "ld.acquire.sys.global", ACQUIRE)
EP_ST_PTX(st_release_cta, "st.release.cta", RELEASE)
EP_ST_PTX(st_relaxed_gpu, "st.relaxed.gpu.global", RELAXED)
EP_ST_PTX(st_release_gpu, "st.release.gpu.global", RELEASE)
EP_ST_PTX(st_relaxed_sys, "st.relaxed.sys.global", RELAXED)
EP_ST_PTX(st_release_sys, "st.release.sys.global", RELEASE)
EP_ADD_PTX(add_relaxed_gpu, "atom.add.relaxed.gpu.global", RELAXED)
EP_ADD_PTX(add_acq_rel_gpu, "atom.add.acq_rel.gpu.global", ACQ_REL)
EP_ADD_PTX(add_relaxed_sys, "atom.add.relaxed.sys.global", RELAXED)

/* Writes v to *p if *p equals `want`; returns the old value. Relaxed, device scope. */
EP_DEVICE uint32_t cas_relaxed_gpu(uint32_t *p, uint32_t want, uint32_t v) {
#ifdef EP_EMULATE
  emul_updates(p);
  __atomic_compare_exchange_n(p, &want, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return want;
#else
  uint32_t old;
  asm volatile("atom.cas.relaxed.gpu.global.b32 %0, [%1], %2, %3;"
               : "=r"(old) : "l"(p), "r"(want), "r"(v) : "memory");
  return old;
#endif
}

/* Adds without returning the old value, so that the thread does not wait. */
#ifdef EP_EMULATE
#define EP_RED(name, op, order)                                                \
  EP_DEVICE void name(int32_t *p, int32_t v) {                                 \
    emul_updates(p);                                                           \
    __atomic_fetch_add(p, v, __ATOMIC_##order);                                \
  }
#else
#define EP_RED(name, op, order)                                                \
  EP_DEVICE void name(int32_t *p, int32_t v) { asm volatile(op ".s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
#endif
EP_RED(red_add_relaxed_gpu, "red.add.relaxed.gpu.global", RELAXED)
EP_RED(red_add_release_gpu, "red.add.release.gpu.global", RELEASE)

/* Loads input that no thread writes during the kernel. Do not use it for a receive buffer. */
EP_DEVICE uint4 ld_readonly(const uint4 *p) {
#ifdef EP_EMULATE
  return *p;
#else
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
#endif
}

/* Loads a vector that is read only once, and does not keep it in L1. The compiler does not move the load across
 * neighbouring asm volatile statements. */
EP_DEVICE uint4 ld_once(const uint4 *p) {
#ifdef EP_EMULATE
  return *p;
#else
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
#endif
}

EP_DEVICE void fence_acq_rel_gpu() { EP_ASM(emul_fence(), "fence.acq_rel.gpu;" ::: "memory"); }
EP_DEVICE void fence_acq_rel_sys() { EP_ASM(emul_fence(), "fence.acq_rel.sys;" ::: "memory"); }

/* Returns the global timer in ns. It may tick only every 32 ns. */
EP_DEVICE uint64_t globaltimer() {
#ifdef EP_EMULATE
  return emul_time_ns();
#else
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
#endif
}

EP_DEVICE void sleep_ns(uint32_t ns) { EP_ASM(emul_sleep(ns), "nanosleep.u32 %0;" ::"r"(ns)); }

EP_DEVICE void spin_pause() {
#ifdef EP_EMULATE
  emul_spin();
#endif
}

/* Waits until the previous kernel of the stream has ended and its writes are visible. Does nothing before sm_90. */
EP_DEVICE void pdl_wait() {
#if !defined(EP_EMULATE) && EP_ARCH >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel of the stream start. Does nothing before sm_90. */
EP_DEVICE void pdl_launch() {
#if !defined(EP_EMULATE) && EP_ARCH >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* A barrier for `threads` threads of the block, a multiple of 32. `id`, 1 to 15, tells such barriers apart. */
EP_DEVICE void bar_sync(uint32_t id, uint32_t threads) {
  EP_ASM(emul_bar_sync(id, threads), "bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Converts to e4m3 (OCP OFP8 1.0) with integer arithmetic, ties to even, saturating at 448. NaN becomes 0x7f. */
EP_DEVICE uint32_t e4m3_soft(float x) {
  uint32_t bits = __float_as_uint(x);
  uint32_t sign = bits >> 24 & 0x80u;
  uint32_t mag = bits & 0x7fffffffu;
  if (mag > 0x7f800000u) return 0x7fu;
  if (mag >= 0x43e00000u) return sign | 0x7eu;
  if (mag < 0x3c800000u) {
    float steps = __uint_as_float(mag) * 512.0f;
    return sign | static_cast<uint32_t>(rintf(steps));
  }
  uint32_t rounded = mag + 0x7ffffu + (mag >> 20 & 1u);
  uint32_t code = (rounded >> 20) - (120u << 3);
  return sign | (code > 0x7eu ? 0x7eu : code);
}

EP_DEVICE uint32_t cvt_e4m3x2(float hi, float lo) {
#if !defined(EP_EMULATE) && EP_ARCH >= 890
  uint16_t v;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(v) : "f"(hi), "f"(lo));
  return v;
#else
  return e4m3_soft(hi) << 8 | e4m3_soft(lo);
#endif
}

#include "common/bulk.cuh"
