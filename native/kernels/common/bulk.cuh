/* Asynchronous copies between global and shared memory. ptx.cuh includes this file. */
#pragma once

#include "common/ptx.cuh"

/* Bulk asynchronous copies (sm_90 and later). The number of bytes and both addresses are multiples of 16. */

#if defined(EP_EMULATE) || EP_ARCH >= 900
#define EP_HAS_BULK 1
#else
#define EP_HAS_BULK 0
#endif

/* EP_BULK_ASM runs `emulated` on a CPU, and the assembly on sm_90 and later. On older GPUs it does nothing. */
#if EP_HAS_BULK
#define EP_BULK_ASM(emulated, ...) EP_ASM(emulated, __VA_ARGS__)
#else
#define EP_BULK_ASM(emulated, ...)
#endif

EP_DEVICE uint32_t shared_address(const void *p) {
#ifdef EP_EMULATE
  return 0;
#else
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
#endif
}

EP_DEVICE void mbar_init(uint64_t *bar, uint32_t arrivals) {
  EP_BULK_ASM(emul_mbar_init(bar, arrivals), "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(arrivals) : "memory");
  EP_BULK_ASM(, "fence.mbarrier_init.release.cluster;" ::: "memory");
}

EP_DEVICE void mbar_arrive(uint64_t *bar) {
  EP_BULK_ASM(emul_mbar_expect(bar, 0), "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}

EP_DEVICE void mbar_expect(uint64_t *bar, uint32_t bytes) {
  EP_BULK_ASM(emul_mbar_expect(bar, bytes), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

/* mbar_try returns true if the phase with this parity has ended. It may wait a short time first; mbar_test does not. */
#define EP_MBAR(name, wait)                                                                                       \
  EP_DEVICE bool name(uint64_t *bar, uint32_t parity) {                                                           \
    uint32_t done = 1;                                                                                            \
    EP_BULK_ASM(done = emul_mbar_try(bar, parity),                                                                \
                "{ .reg .pred p; mbarrier." wait ".parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"   \
                : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");                                 \
    return done != 0;                                                                                             \
  }
EP_MBAR(mbar_try, "try_wait")
EP_MBAR(mbar_test, "test_wait")

/* This thread's earlier reads and writes come before its later bulk loads. */
EP_DEVICE void fence_before_bulk_load() { EP_BULK_ASM(, "fence.proxy.async;" ::: "memory"); }

EP_DEVICE void bulk_load(void *shared, const void *global, uint32_t bytes, uint64_t *bar) {
  EP_BULK_ASM(emul_bulk_load(shared, global, bytes, bar),
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
              ::"r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(bar)) : "memory");
}

/* Orders this thread's writes to shared memory before a later bulk store. */
EP_DEVICE void fence_shared_to_bulk() { EP_BULK_ASM(, "fence.proxy.async.shared::cta;" ::: "memory"); }

EP_DEVICE void bulk_store(void *global, const void *shared, uint32_t bytes) {
  EP_BULK_ASM(emul_bulk_store(global, shared, bytes), "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
              ::"l"(global), "r"(shared_address(shared)), "r"(bytes) : "memory");
}

EP_DEVICE void bulk_commit() { EP_BULK_ASM(emul_bulk_commit(), "cp.async.bulk.commit_group;" ::: "memory"); }

/* Waits until all of this thread's groups of bulk stores, except the n latest, have read shared memory. */
template <int n>
EP_DEVICE void bulk_wait_read() { EP_BULK_ASM(emul_bulk_wait(n, false), "cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory"); }

/* Waits until all of this thread's groups of bulk stores are written, except the n latest groups. The thread's later
 * stores then come after these bulk stores. */
template <int n>
EP_DEVICE void bulk_wait_written() {
  EP_BULK_ASM(emul_bulk_wait(n, true), "cp.async.bulk.wait_group %0;" ::"n"(n) : "memory");
  EP_BULK_ASM(, "fence.proxy.async;" ::: "memory");
}

/* Asynchronous copies by one lane, from global to shared memory. A lane that reads only its own copies needs no
 * barrier. */

EP_DEVICE void cp_async16(void *shared, const void *global) {
  EP_ASM(memcpy(shared, global, 16), "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}

EP_DEVICE void cp_async_commit() { EP_ASM(, "cp.async.commit_group;" ::: "memory"); }

template <int n>
EP_DEVICE void cp_async_wait() { EP_ASM(, "cp.async.wait_group %0;" ::"n"(n) : "memory"); }
