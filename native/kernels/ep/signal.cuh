/* Signals and waits. A signal is a system-scope release fence and then a relaxed store.
 * A wait is relaxed polling and then one acquire fence. In the upstream code one thread of
 * a rank stores with release order instead. Formally that publishes only the data that this
 * thread itself wrote.
 */
#ifndef EP_SIGNAL_CUH
#define EP_SIGNAL_CUH

#include "ep/layout.cuh"

/* Writes value to another rank's word, after everything that the calling thread wrote or
 * has acquired from others. */
EP_DEVICE void ep_signal_completion(uint64_t *word, uint64_t value) {
  fence_acq_rel_sys();
  st_relaxed_sys(word, value);
}

/* Waits until a word is no longer all ones, and returns its value in *value. Returns
 * false if it gave up. */
EP_DEVICE bool ep_await_count(const EpArgs &a, uint64_t *word, EpWait what, uint64_t *value) {
  EpSpin spin;
  for (;;) {
    *value = ld_relaxed_sys(word);
    if (*value != EP_NOT_ARRIVED) break;
    if (!spin.again(a, what, 0, *value)) return false;
  }
  fence_acq_rel_sys();
  return true;
}

/* Waits until a word that another rank writes holds value. */
EP_DEVICE bool ep_await_value(const EpArgs &a, const uint64_t *word, EpWait what, uint64_t value) {
  EpSpin spin;
  for (;;) {
    uint64_t got = ld_relaxed_sys(word);
    if (got == value) break;
    if (!spin.again(a, what, value, got)) return false;
  }
  fence_acq_rel_sys();
  return true;
}

/* Waits until a counter of this rank holds value. */
EP_DEVICE bool ep_await_counter(const EpArgs &a, const int32_t *counter, EpWait what, int32_t value) {
  EpSpin spin;
  for (;;) {
    int32_t got = ld_relaxed_gpu(counter);
    if (got == value) break;
    if (!spin.again(a, what, static_cast<uint64_t>(value), static_cast<uint64_t>(got))) return false;
  }
  fence_acq_rel_gpu();
  return true;
}

/* Lets thread 0 wait for the whole block, and returns thread 0's result to all threads. */
template <class Wait>
EP_DEVICE bool ep_block_wait(Wait wait) {
  __shared__ int arrived;
  if (threadIdx.x == 0) arrived = wait();
  __syncthreads();
  bool ok = arrived != 0;
  __syncthreads();
  return ok;
}

#endif
