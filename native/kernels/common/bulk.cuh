/* Asynchronous copies between global and shared memory. ptx.cuh includes this file. */
#pragma once

#include "common/ptx.cuh"

/* Bulk asynchronous copies (sm_90 and later). The number of bytes and both addresses are multiples of 16. */

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

EP_DEVICE void mbar_expect(uint64_t *bar, uint32_t bytes) {
#ifdef EP_EMULATE
  emul_mbar_expect(bar, bytes);
#elif EP_HAS_BULK
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(shared_address(bar)), "r"(bytes) : "memory");
#endif
}

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

/* Does the work of mbar_try, but never waits. */
EP_DEVICE bool mbar_test(uint64_t *bar, uint32_t parity) {
#if !defined(EP_EMULATE) && EP_HAS_BULK
  uint32_t done;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
  return done != 0;
#else
  return mbar_try(bar, parity);
#endif
}

EP_DEVICE void mbar_arrive(uint64_t *bar) {
#ifdef EP_EMULATE
  emul_mbar_expect(bar, 0);
#elif EP_HAS_BULK
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
#endif
}

/* Orders what this thread has read and written before its later bulk loads. */
EP_DEVICE void fence_before_bulk_load() {
#if !defined(EP_EMULATE) && EP_HAS_BULK
  asm volatile("fence.proxy.async;" ::: "memory");
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

/* Orders this thread's writes to shared memory before a later bulk store. */
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

/* Waits until all of this thread's groups of bulk stores, except the n latest, have read shared memory. */
template <int n>
EP_DEVICE void bulk_wait_read() {
#ifdef EP_EMULATE
  emul_bulk_wait(n, false);
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory");
#endif
}

/* Waits until all of this thread's groups of bulk stores are written, except the n latest groups. The thread's later
 * stores then come after these bulk stores. */
template <int n>
EP_DEVICE void bulk_wait_written() {
#ifdef EP_EMULATE
  emul_bulk_wait(n, true);
#elif EP_HAS_BULK
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

/* Asynchronous copies by one lane, from global to shared memory. A lane that reads only its own copies needs no
 * barrier. */

EP_DEVICE void cp_async16(void *shared, const void *global) {
#ifdef EP_EMULATE
  memcpy(shared, global, 16);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
#endif
}

EP_DEVICE void cp_async_commit() {
#ifndef EP_EMULATE
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int n>
EP_DEVICE void cp_async_wait() {
#ifndef EP_EMULATE
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
}
