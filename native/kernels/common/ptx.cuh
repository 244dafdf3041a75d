/* Every machine operation that CUDA C++ has no word for, each behind one small
 * function named after what it does, its memory order and its scope. Kernels
 * use these and never inline assembly of their own, so that the same source
 * also runs on a CPU: with EP_EMULATE each function falls back to an atomic
 * builtin, and any wait gives other threads of the emulation a turn.
 *
 * Scopes: cta (block), gpu (device), sys (all devices and the host).
 * Orders and scopes as in the PTX ISA, "Memory Consistency Model".
 */
#ifndef EP_PTX_CUH
#define EP_PTX_CUH

#ifdef EP_EMULATE
#include "cuda_emul.h"
#endif
#include "ep_args.h"

#define EP_DEVICE __device__ __forceinline__

#ifdef EP_EMULATE
#define EP_DYNAMIC_SHARED(name) uint8_t *name = emul_dynamic_shared()
#define EP_ENTRY(threads, min_blocks) extern "C" void
#define EP_ARCH 0
#else
#define EP_DYNAMIC_SHARED(name) extern __shared__ __align__(128) uint8_t name[]
#define EP_ENTRY(threads, min_blocks) extern "C" __global__ void __launch_bounds__(threads, min_blocks)
#ifdef __CUDA_ARCH__
#define EP_ARCH __CUDA_ARCH__
#else
#define EP_ARCH 0
#endif
#endif

/* ---- who am I ---- */

EP_DEVICE uint32_t lane_id() { return threadIdx.x & 31u; }
EP_DEVICE uint32_t warp_id() { return threadIdx.x >> 5; }
EP_DEVICE uint32_t warps_in_block() { return blockDim.x >> 5; }

static const uint32_t EP_FULL_WARP = 0xffffffffu;

/* ---- loads, stores, atomics: order and scope in the name ---- */

#ifdef EP_EMULATE

#define EP_LD(name, order)                                                             \
  EP_DEVICE uint32_t name(const uint32_t *p) { emul_reads(p); return __atomic_load_n(p, order); } \
  EP_DEVICE int32_t name(const int32_t *p) { emul_reads(p); return __atomic_load_n(p, order); }   \
  EP_DEVICE uint64_t name(const uint64_t *p) { emul_reads(p); return __atomic_load_n(p, order); } \
  EP_DEVICE uint4 name(const uint4 *p) {                                               \
    emul_reads(p);                                                                     \
    const uint32_t *w = reinterpret_cast<const uint32_t *>(p);                         \
    return make_uint4(__atomic_load_n(w, order), __atomic_load_n(w + 1, order),        \
                      __atomic_load_n(w + 2, order), __atomic_load_n(w + 3, order));   \
  }
#define EP_ST(name, order)                                                             \
  EP_DEVICE void name(uint32_t *p, uint32_t v) { emul_writes(p); __atomic_store_n(p, v, order); } \
  EP_DEVICE void name(int32_t *p, int32_t v) { emul_writes(p); __atomic_store_n(p, v, order); }   \
  EP_DEVICE void name(uint64_t *p, uint64_t v) { emul_writes(p); __atomic_store_n(p, v, order); } \
  EP_DEVICE void name(uint4 *p, uint4 v) {                                             \
    emul_writes(p);                                                                    \
    uint32_t *w = reinterpret_cast<uint32_t *>(p);                                     \
    __atomic_store_n(w, v.x, order);                                                   \
    __atomic_store_n(w + 1, v.y, order);                                               \
    __atomic_store_n(w + 2, v.z, order);                                               \
    __atomic_store_n(w + 3, v.w, order);                                               \
  }
#define EP_ADD(name, order)                                                            \
  EP_DEVICE uint32_t name(uint32_t *p, uint32_t v) { emul_updates(p); return __atomic_fetch_add(p, v, order); } \
  EP_DEVICE int32_t name(int32_t *p, int32_t v) { emul_updates(p); return __atomic_fetch_add(p, v, order); }    \
  EP_DEVICE uint64_t name(uint64_t *p, uint64_t v) { emul_updates(p); return __atomic_fetch_add(p, v, order); }

#define EP_MO_RELAXED __ATOMIC_RELAXED
#define EP_MO_ACQUIRE __ATOMIC_ACQUIRE
#define EP_MO_RELEASE __ATOMIC_RELEASE
#define EP_MO_ACQ_REL __ATOMIC_ACQ_REL
#define EP_LD_PTX(name, op, order) EP_LD(name, order)
#define EP_ST_PTX(name, op, order) EP_ST(name, order)
#define EP_ADD_PTX(name, op, order) EP_ADD(name, order)

#else

#define EP_LD_PTX(name, op, order)                                                     \
  EP_DEVICE uint32_t name(const uint32_t *p) {                                         \
    uint32_t v;                                                                        \
    asm volatile(op ".u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");                   \
    return v;                                                                          \
  }                                                                                    \
  EP_DEVICE int32_t name(const int32_t *p) {                                           \
    int32_t v;                                                                         \
    asm volatile(op ".s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");                   \
    return v;                                                                          \
  }                                                                                    \
  EP_DEVICE uint64_t name(const uint64_t *p) {                                         \
    unsigned long long v;                                                              \
    asm volatile(op ".u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");                   \
    return v;                                                                          \
  }                                                                                    \
  EP_DEVICE uint4 name(const uint4 *p) {                                               \
    uint4 v;                                                                           \
    asm volatile(op ".v4.u32 {%0, %1, %2, %3}, [%4];"                                  \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");    \
    return v;                                                                          \
  }
#define EP_ST_PTX(name, op, order)                                                     \
  EP_DEVICE void name(uint32_t *p, uint32_t v) {                                       \
    asm volatile(op ".u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");                     \
  }                                                                                    \
  EP_DEVICE void name(int32_t *p, int32_t v) {                                         \
    asm volatile(op ".s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");                     \
  }                                                                                    \
  EP_DEVICE void name(uint64_t *p, uint64_t v) {                                       \
    asm volatile(op ".u64 [%0], %1;" ::"l"(p), "l"((unsigned long long)v) : "memory"); \
  }                                                                                    \
  EP_DEVICE void name(uint4 *p, uint4 v) {                                             \
    asm volatile(op ".v4.u32 [%0], {%1, %2, %3, %4};"                                  \
                 ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");         \
  }
#define EP_ADD_PTX(name, op, order)                                                    \
  EP_DEVICE uint32_t name(uint32_t *p, uint32_t v) {                                   \
    uint32_t old;                                                                      \
    asm volatile(op ".u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");     \
    return old;                                                                        \
  }                                                                                    \
  EP_DEVICE int32_t name(int32_t *p, int32_t v) {                                      \
    int32_t old;                                                                       \
    asm volatile(op ".s32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");     \
    return old;                                                                        \
  }                                                                                    \
  EP_DEVICE uint64_t name(uint64_t *p, uint64_t v) {                                   \
    unsigned long long old;                                                            \
    asm volatile(op ".u64 %0, [%1], %2;"                                               \
                 : "=l"(old) : "l"(p), "l"((unsigned long long)v) : "memory");         \
    return old;                                                                        \
  }

#endif

/* No state space in the names of block scope: these also take shared memory. */
EP_LD_PTX(ld_volatile, "ld.volatile.global", EP_MO_RELAXED)
EP_LD_PTX(ld_acquire_cta, "ld.acquire.cta", EP_MO_ACQUIRE)
EP_LD_PTX(ld_relaxed_gpu, "ld.relaxed.gpu.global", EP_MO_RELAXED)
EP_LD_PTX(ld_acquire_gpu, "ld.acquire.gpu.global", EP_MO_ACQUIRE)
EP_LD_PTX(ld_relaxed_sys, "ld.relaxed.sys.global", EP_MO_RELAXED)
EP_LD_PTX(ld_acquire_sys, "ld.acquire.sys.global", EP_MO_ACQUIRE)
EP_ST_PTX(st_release_cta, "st.release.cta", EP_MO_RELEASE)
EP_ST_PTX(st_relaxed_gpu, "st.relaxed.gpu.global", EP_MO_RELAXED)
EP_ST_PTX(st_release_gpu, "st.release.gpu.global", EP_MO_RELEASE)
EP_ST_PTX(st_relaxed_sys, "st.relaxed.sys.global", EP_MO_RELAXED)
EP_ST_PTX(st_release_sys, "st.release.sys.global", EP_MO_RELEASE)
EP_ADD_PTX(add_relaxed_cta, "atom.add.relaxed.cta", EP_MO_RELAXED)
EP_ADD_PTX(add_relaxed_gpu, "atom.add.relaxed.gpu.global", EP_MO_RELAXED)
EP_ADD_PTX(add_release_gpu, "atom.add.release.gpu.global", EP_MO_RELEASE)
EP_ADD_PTX(add_acq_rel_gpu, "atom.add.acq_rel.gpu.global", EP_MO_ACQ_REL)
EP_ADD_PTX(add_relaxed_sys, "atom.add.relaxed.sys.global", EP_MO_RELAXED)
EP_ADD_PTX(add_acq_rel_sys, "atom.add.acq_rel.sys.global", EP_MO_ACQ_REL)

/* Swaps in v if *p holds want; returns what it held. Relaxed, device scope. */
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

/* Adds without returning: fire and forget. */
EP_DEVICE void red_add_relaxed_gpu(int32_t *p, int32_t v) {
#ifdef EP_EMULATE
  emul_updates(p);
  __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
#else
  asm volatile("red.add.relaxed.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
#endif
}

EP_DEVICE void red_add_release_gpu(int32_t *p, int32_t v) {
#ifdef EP_EMULATE
  emul_updates(p);
  __atomic_fetch_add(p, v, __ATOMIC_RELEASE);
#else
  asm volatile("red.add.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
#endif
}

/* Read-only input that no thread writes during the kernel; never use it on
 * receive buffers, whose lines a peer may have just replaced. */
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

/* A plain load that stays in program order with asm volatile neighbours and
 * leaves L1 alone: for rows read once. */
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

/* ---- fences ---- */

EP_DEVICE void fence_acq_rel_cta() {
#ifdef EP_EMULATE
  emul_fence();
#else
  asm volatile("fence.acq_rel.cta;" ::: "memory");
#endif
}

EP_DEVICE void fence_acq_rel_gpu() {
#ifdef EP_EMULATE
  emul_fence();
#else
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#endif
}

EP_DEVICE void fence_acq_rel_sys() {
#ifdef EP_EMULATE
  emul_fence();
#else
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/* ---- time ---- */

/* Nanoseconds of the device's global timer; on H200 it ticks every 32 ns. */
EP_DEVICE uint64_t globaltimer() {
#ifdef EP_EMULATE
  return emul_time_ns();
#else
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
#endif
}

EP_DEVICE void sleep_ns(uint32_t ns) {
#ifdef EP_EMULATE
  emul_sleep(ns);
#else
  asm volatile("nanosleep.u32 %0;" ::"r"(ns));
#endif
}

/* What a polling loop does between two looks. */
EP_DEVICE void spin_pause() {
#ifdef EP_EMULATE
  emul_spin();
#endif
}

/* ---- programmatic dependent launch (sm_90 and later, else nothing) ---- */

/* Waits until the previous kernel of the stream has ended and is visible. */
EP_DEVICE void pdl_wait() {
#if !defined(EP_EMULATE) && EP_ARCH >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel of the stream start. */
EP_DEVICE void pdl_launch() {
#if !defined(EP_EMULATE) && EP_ARCH >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* ---- named barriers: part of a block, id 1 to 15, threads a multiple of 32 ---- */

EP_DEVICE void bar_sync(uint32_t id, uint32_t threads) {
#ifdef EP_EMULATE
  emul_bar_sync(id, threads);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

/* ---- bulk asynchronous copies (sm_90 and later) ----
 * bytes and both addresses are multiples of 16. */

#if defined(EP_EMULATE) || EP_ARCH >= 900
#define EP_HAS_BULK 1
#else
#define EP_HAS_BULK 0
#endif

EP_DEVICE uint32_t shared_address(const void *p) {
#ifdef EP_EMULATE
  return 0;
#else
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
#endif
}

EP_DEVICE void mbar_init(uint64_t *bar, uint32_t arrivals) {
#ifdef EP_EMULATE
  emul_mbar_init(bar, arrivals);
#elif EP_HAS_BULK
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(arrivals) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* Arrives and announces bytes that copies will bring. */
EP_DEVICE void mbar_expect(uint64_t *bar, uint32_t bytes) {
#ifdef EP_EMULATE
  emul_mbar_expect(bar, bytes);
#elif EP_HAS_BULK
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(shared_address(bar)), "r"(bytes) : "memory");
#endif
}

/* Whether the phase of this parity has completed. */
EP_DEVICE bool mbar_try(uint64_t *bar, uint32_t parity) {
#ifdef EP_EMULATE
  return emul_mbar_try(bar, parity);
#elif EP_HAS_BULK
  uint32_t done;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
  return done != 0;
#else
  return true;
#endif
}

EP_DEVICE void bulk_load(void *shared, const void *global, uint32_t bytes, uint64_t *bar) {
#ifdef EP_EMULATE
  emul_bulk_load(shared, global, bytes, bar);
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(bar)) : "memory");
#endif
}

/* Orders this thread's writes to shared memory before a bulk store reads them. */
EP_DEVICE void fence_shared_to_bulk() {
#if !defined(EP_EMULATE) && EP_HAS_BULK
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

EP_DEVICE void bulk_store(void *global, const void *shared, uint32_t bytes) {
#ifdef EP_EMULATE
  emul_bulk_store(global, shared, bytes);
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               ::"l"(global), "r"(shared_address(shared)), "r"(bytes) : "memory");
#endif
}

EP_DEVICE void bulk_commit() {
#ifdef EP_EMULATE
  emul_bulk_commit();
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/* Waits until shared memory may be reused: all but n groups were read. */
template <int n>
EP_DEVICE void bulk_wait_read() {
#ifdef EP_EMULATE
  emul_bulk_wait(n, false);
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory");
#endif
}

/* Waits until all but n groups of this thread's bulk stores are written, and
 * orders those before its later ordinary stores. */
template <int n>
EP_DEVICE void bulk_wait_written() {
#ifdef EP_EMULATE
  emul_bulk_wait(n, true);
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

/* ---- asynchronous copies of one lane: global to shared memory past the
 * registers. A lane that reads back only what it copied needs no barrier. */

EP_DEVICE void cp_async16(void *shared, const void *global) {
#ifdef EP_EMULATE
  memcpy(shared, global, 16);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
#endif
}

/* Closes a group of this lane's copies; a group may be empty. */
EP_DEVICE void cp_async_commit() {
#ifndef EP_EMULATE
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until all but the n latest groups of this lane have come. */
template <int n>
EP_DEVICE void cp_async_wait() {
#ifndef EP_EMULATE
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
}

/* Brings memory into L2 without waiting for it; one lane asks for it all. A
 * hint: bytes a multiple of 16. */
EP_DEVICE void prefetch_l2(const void *p, uint32_t bytes) {
#if defined(EP_EMULATE)
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
#else
  for (uint32_t at = 0; at < bytes; at += 128)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const uint8_t *>(p) + at));
#endif
}

/* ---- e4m3: two floats to two bytes, nearest even, saturating at 448 ---- */

/* e4m3 in integer arithmetic (OCP OFP8 1.0): for chips without the conversion
 * and for the CPU. NaN becomes 0x7f. */
EP_DEVICE uint32_t e4m3_soft(float x) {
  uint32_t bits = __float_as_uint(x);
  uint32_t sign = bits >> 24 & 0x80u;
  uint32_t mag = bits & 0x7fffffffu;
  if (mag > 0x7f800000u) return 0x7fu;
  if (mag >= 0x43e00000u) return sign | 0x7eu; /* 448 and beyond */
  if (mag < 0x3c800000u) {                     /* below 2^-6: steps of 2^-9 */
    float steps = __uint_as_float(mag) * 512.0f;
    return sign | static_cast<uint32_t>(rintf(steps));
  }
  uint32_t rounded = mag + 0x7ffffu + (mag >> 20 & 1u);
  uint32_t code = (rounded >> 20) - (120u << 3);
  return sign | (code > 0x7eu ? 0x7eu : code);
}

/* lo in the low byte. */
EP_DEVICE uint32_t cvt_e4m3x2(float hi, float lo) {
#if !defined(EP_EMULATE) && EP_ARCH >= 890
  uint16_t v;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(v) : "f"(hi), "f"(lo));
  return v;
#else
  return e4m3_soft(hi) << 8 | e4m3_soft(lo);
#endif
}

#endif
