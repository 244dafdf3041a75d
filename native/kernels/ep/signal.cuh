/* Signals and waits. A signal is a release fence of system scope and then a relaxed store. A wait polls with
 * relaxed loads and then makes an acquire fence. A signal publishes only data that its thread has written or
 * acquired. */
#pragma once

#include "ep/layout.cuh"

/* Writes value to another rank's word, after all data that the calling thread has written or acquired. */
EP_DEVICE void ep_signal_completion(uint64_t *word, uint64_t value) {
  fence_acq_rel_sys();
  st_relaxed_sys(word, value);
}

/* Waits until a word is not all ones, and stores the word in *value. Returns false if the wait was given up. */
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

/* Waits until another rank has written `value` to a word. */
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

/* Waits until a counter is `value`. Only blocks of this rank change the counter, so device scope is enough. */
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

/* Calls `wait` in thread 0 of the block, and returns its result in all threads. */
template <class Wait>
EP_DEVICE bool ep_block_wait(Wait wait) {
  __shared__ int arrived;
  if (threadIdx.x == 0) arrived = wait();
  __syncthreads();
  bool ok = arrived != 0;
  __syncthreads();
  return ok;
}
