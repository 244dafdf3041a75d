/* put, signal and wait between any two ranks. Inside a host they are loads and stores; between hosts they use
 * hosts/network.cuh.
 *
 * There may be more ranks than EpArgs.heap has entries. So in the kernels of this folder heap[0] is this rank's own
 * heap, and heap[1] is a table in this heap. The table consists of two arrays with one entry for each rank. An entry of
 * the first array is the address of the rank's heap on this GPU, or null if the rank is on another host. An entry of
 * the second array counts the start alignments (ep_align_hosts) that the rank has begun. control[0] is this rank's own
 * control.
 *
 * An address in another rank's heap is given by its offset, which is equal on all ranks. */
#pragma once

#include "common/block.cuh"
#include "common/check.cuh"
#include "common/halves.cuh"
#include "hosts/network.cuh"

EP_DEVICE uint8_t *ep_own_heap(const EpArgs &a) { return a.heap[0]; }

/* Returns the address of another rank's heap on this GPU; null for a rank of another host. */
EP_DEVICE uint8_t *ep_peer_heap(const EpArgs &a, int32_t rank) { return reinterpret_cast<uint8_t *const *>(a.heap[1])[rank]; }

/* Returns the offset of the word that rank `from` sets at a start alignment. */
EP_DEVICE uint64_t ep_aligned_at(const EpArgs &a, int32_t from) {
  return static_cast<uint64_t>(a.heap[1] - a.heap[0]) + 8ull * static_cast<uint64_t>(a.ranks + from);
}

EP_DEVICE uint64_t *ep_own_word(const EpArgs &a, uint64_t offset) { return reinterpret_cast<uint64_t *>(ep_own_heap(a) + offset); }

/* The target of a copy: a rank, an offset for the bytes, and the word that changes once they have arrived. */
struct EpTarget {
  int32_t rank; /* -1: nowhere */
  int32_t op;   /* EP_NET_ADD or EP_NET_SET */
  uint64_t to;  /* offset of the bytes */
  uint64_t word;
  uint64_t value;
};

/* Changes a word in the memory of a rank of this host, by a store. Whoever sees the change also sees everything that
 * the thread wrote or acquired before. */
EP_DEVICE void ep_change(uint8_t *peer, uint64_t word, uint64_t value, int32_t op) {
  uint64_t *at = reinterpret_cast<uint64_t *>(peer + word);
  fence_acq_rel_sys();
  if (op == EP_NET_ADD) {
    add_relaxed_sys(at, value);
  } else {
    st_relaxed_sys(at, value);
  }
}

/* Copies bytes (a multiple of 16) and then changes the target's word; one warp calls it. The word never changes
 * before its bytes have arrived. */
template <int in_flight>
EP_DEVICE void ep_put(const EpArgs &a, const EpTarget &t, const void *from, uint32_t bytes) {
  uint8_t *peer = ep_peer_heap(a, t.rank);
  if (peer == nullptr) {
    net_put(ep_own_heap(a) + t.to, from, bytes, ep_own_word(a, t.word), t.value, t.op, t.rank);
    return;
  }
  warp_memcpy<in_flight>(peer + t.to, from, bytes);
  __syncwarp();
  if (lane_id() == 0) ep_change(peer, t.word, t.value, t.op);
}

/* Changes another rank's word; one thread calls it. Between hosts the change is not ordered with any put. */
EP_DEVICE void ep_signal(const EpArgs &a, int32_t rank, uint64_t word, uint64_t value, int32_t op = EP_NET_SET) {
  uint8_t *peer = ep_peer_heap(a, rank);
  if (peer == nullptr) {
    net_signal(ep_own_word(a, word), value, op, rank);
  } else {
    ep_change(peer, word, value, op);
  }
}

/* Waits until `there` returns true for the value of a word in this rank's heap. If the deadline passes, returns
 * false, and the thread must leave the kernel. One thread calls it. (Waits of the network library have no
 * deadline.) */
template <class There>
EP_DEVICE bool ep_wait_for(const EpArgs &a, uint64_t word, EpWait what, uint64_t want, uint64_t *got, There there) {
  uint64_t *at = ep_own_word(a, word);
  EpSpin spin;
  for (;;) {
    *got = ld_relaxed_sys(at);
    if (there(*got)) break;
    if (!spin.again(a, what, want, *got)) return false;
  }
  if (what.source >= 0 && ep_peer_heap(a, what.source) == nullptr) net_seen(at, *got);
  fence_acq_rel_sys();
  return true;
}

/* Waits until a word in this rank's heap is at least value. The word never decreases. One thread calls it. */
EP_DEVICE bool ep_wait(const EpArgs &a, uint64_t word, EpWait what, uint64_t value, uint64_t *got) {
  return ep_wait_for(a, word, what, value, got, [value](uint64_t v) { return v >= value; });
}

/* Waits until the lower half of a word that counts up has reached `count`. The count may begin again at 0. */
EP_DEVICE bool ep_wait_counted(const EpArgs &a, uint64_t word, EpWait what, uint32_t count) {
  uint64_t got;
  return ep_wait_for(a, word, what, count, &got, [count](uint64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v) - count) >= 0; });
}

/* Waits until one half of a word is the number of a call: the lower half if `shift` is 0, the upper half if `shift` is
 * 32. A larger number does not end the wait. It may be old, because the numbers of calls begin again at 1. */
EP_DEVICE bool ep_wait_call(const EpArgs &a, uint64_t word, EpWait what, uint32_t call, uint32_t shift, uint64_t *got) {
  return ep_wait_for(a, word, what, call, got, [call, shift](uint64_t v) { return static_cast<uint32_t>(v >> shift) == call; });
}

/* Returns an announcement: the number of a call in the upper half and a count in the lower half. The next call's
 * announcement overwrites it. */
EP_DEVICE uint64_t ep_announcement(uint32_t call, uint32_t count) { return static_cast<uint64_t>(call) << 32 | count; }

/* Waits for the announcement of a call, and stores its count in *count. One thread calls it. */
EP_DEVICE bool ep_await_announced(const EpArgs &a, uint64_t word, EpWait what, uint32_t call, uint32_t *count) {
  uint64_t got;
  if (!ep_wait_call(a, word, what, call, 32, &got)) return false;
  *count = static_cast<uint32_t>(got);
  return true;
}
