/* The operations put, signal and wait between any two ranks. Inside a host they are loads and stores. Between hosts
 * they use hosts/network.cuh.
 *
 * There may be more ranks than EpArgs.heap has entries. So here heap[0] is this rank's own heap, and heap[1] is a table
 * in it. The table has two parts. The first part has, for each rank, the address of its heap on this GPU, or null for a
 * rank of another host. The second part has, for each rank, the number of alignments (ep_align_hosts) that the rank has
 * begun. control[0] is this rank's own control. Memory on other ranks is named by offsets, equal on all ranks. */
#pragma once

#include "common/block.cuh"
#include "common/check.cuh"
#include "common/halves.cuh"
#include "hosts/network.cuh"

EP_DEVICE uint8_t *ep_own_heap(const EpArgs &a) { return a.heap[0]; }

EP_DEVICE uint8_t *ep_peer_heap(const EpArgs &a, int32_t rank) { return reinterpret_cast<uint8_t *const *>(a.heap[1])[rank]; }

EP_DEVICE uint64_t ep_aligned_at(const EpArgs &a, int32_t from) {
  return static_cast<uint64_t>(a.heap[1] - a.heap[0]) + 8ull * static_cast<uint64_t>(a.ranks + from);
}

EP_DEVICE uint64_t *ep_own_word(const EpArgs &a, uint64_t offset) { return reinterpret_cast<uint64_t *>(ep_own_heap(a) + offset); }

/* A copy's target: a rank, an offset, and the word that changes once the bytes have arrived. */
struct EpTarget {
  int32_t rank; /* -1: nothing is copied */
  int32_t op;
  uint64_t to;
  uint64_t word;
  uint64_t value;
};

/* Changes a word of a rank of this host, after everything that the thread wrote or acquired before. */
EP_DEVICE void ep_change(uint8_t *peer, uint64_t word, uint64_t value, int32_t op) {
  uint64_t *at = reinterpret_cast<uint64_t *>(peer + word);
  fence_acq_rel_sys();
  if (op == EP_NET_ADD) {
    add_relaxed_sys(at, value);
  } else {
    st_relaxed_sys(at, value);
  }
}

/* Copies bytes (a multiple of 16), and after their arrival changes the target's word. One warp calls it. */
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

/* Changes another rank's word. Between hosts the change is not ordered after any put. One thread calls it. */
EP_DEVICE void ep_signal(const EpArgs &a, int32_t rank, uint64_t word, uint64_t value, int32_t op = EP_NET_SET) {
  uint8_t *peer = ep_peer_heap(a, rank);
  if (peer == nullptr) {
    net_signal(ep_own_word(a, word), value, op, rank);
  } else {
    ep_change(peer, word, value, op);
  }
}

/* Waits until `there` returns true for a word in this rank's heap. If the deadline passes, returns false, and the
 * thread must leave the kernel. One thread calls it. */
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

/* Waits until a word that never decreases is at least value. One thread calls it. */
EP_DEVICE bool ep_wait(const EpArgs &a, uint64_t word, EpWait what, uint64_t value, uint64_t *got) {
  return ep_wait_for(a, word, what, value, got, [value](uint64_t v) { return v >= value; });
}

/* Waits until the lower half of a counting word has reached `count`, modulo 2^32. */
EP_DEVICE bool ep_wait_counted(const EpArgs &a, uint64_t word, EpWait what, uint32_t count) {
  uint64_t got;
  return ep_wait_for(a, word, what, count, &got, [count](uint64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v) - count) >= 0; });
}

/* Waits until the half of a word from bit `shift` (0 or 32) equals the number of a call. A larger number may be the
 * number of an earlier call, because numbers begin again at 1 after EP_LAST_NUMBER. */
EP_DEVICE bool ep_wait_call(const EpArgs &a, uint64_t word, EpWait what, uint32_t call, uint32_t shift, uint64_t *got) {
  return ep_wait_for(a, word, what, call, got, [call, shift](uint64_t v) { return static_cast<uint32_t>(v >> shift) == call; });
}

EP_DEVICE uint64_t ep_announcement(uint32_t call, uint32_t count) { return static_cast<uint64_t>(call) << 32 | count; }

EP_DEVICE bool ep_await_announced(const EpArgs &a, uint64_t word, EpWait what, uint32_t call, uint32_t *count) {
  uint64_t got;
  if (!ep_wait_call(a, word, what, call, 32, &got)) return false;
  *count = static_cast<uint32_t>(got);
  return true;
}
