/* Moves rows through shared memory with bulk copies (TMA). Each warp has a ring of pieces. Bulk copies need no
 * registers, so that a few SMs can have enough bytes in flight. A link of 400 GB/s with a latency of
 * 2 us needs 800 KB in flight, which are 33 KB on each of 24 SMs.
 *
 * Compile-time: EP_UNIT_BYTES, bytes of a piece of a row; EP_STAGES, pieces that a ring holds. The
 * launch has dynamic shared memory for one piece and then for the rings of all warps. The including
 * file defines RANK_MOVED, the bytes of a row.
 */
#ifndef EP_RANK_RING_CUH
#define EP_RANK_RING_CUH

#include "rank/layout.cuh"

static const uint32_t RANK_AHEAD = EP_STAGES < 3 ? 1 : EP_STAGES * 2 / 3; /* pieces that are being loaded; meanwhile the others are stored */
static const uint32_t RANK_PIECES = (RANK_MOVED + EP_UNIT_BYTES - 1) / EP_UNIT_BYTES; /* pieces of a row */

EP_DEVICE uint32_t rank_piece_at(uint32_t k) { return k % RANK_PIECES * EP_UNIT_BYTES; }
EP_DEVICE uint32_t rank_piece_bytes(uint32_t k) {
  return RANK_MOVED % EP_UNIT_BYTES == 0 ? EP_UNIT_BYTES : min(RANK_MOVED - rank_piece_at(k), EP_UNIT_BYTES);
}

/* The ring of this warp. Only lane 0 copies. */
struct RankRing {
  uint8_t *at;
  uint64_t *full;   /* barriers of the stages */
  uint32_t fetched; /* pieces that were loaded so far */
  uint32_t used;    /* pieces that were stored so far */
};

/* Returns this warp's ring, whose barriers are in `full`. All threads of the block call it; it ends
 * with a barrier. The first piece of the shared memory is filled with ones, which empty a slot. */
EP_DEVICE RankRing rank_ring(uint64_t (&full)[EP_THREADS / 32][EP_STAGES]) {
  EP_DYNAMIC_SHARED(memory);
  for (uint32_t i = threadIdx.x; i < EP_UNIT_BYTES / 16; i += blockDim.x) reinterpret_cast<uint4 *>(memory)[i] = make_uint4(EP_SENTINEL, EP_SENTINEL, EP_SENTINEL, EP_SENTINEL);
  if (lane_id() == 0)
    for (uint32_t i = 0; i < EP_STAGES; i++) mbar_init(&full[warp_id()][i], 1);
  fence_shared_to_bulk();
  __syncthreads();
  return {memory + (1 + warp_id() * EP_STAGES) * EP_UNIT_BYTES, full[warp_id()], 0, 0};
}
EP_DEVICE const uint8_t *rank_ones() {
  EP_DYNAMIC_SHARED(memory);
  return memory;
}

EP_DEVICE void rank_fetch(RankRing &r, const uint8_t *from, uint32_t bytes) {
  uint32_t stage = r.fetched++ % EP_STAGES;
  mbar_expect(r.full + stage, bytes);
  bulk_load(r.at + stage * EP_UNIT_BYTES, from, bytes, r.full + stage);
}

/* Waits until the oldest piece has been loaded, and returns its address. A lane that reads the piece
 * must call it itself. */
EP_DEVICE const uint8_t *rank_fetched(RankRing &r) {
  uint32_t stage = r.used % EP_STAGES, parity = r.used / EP_STAGES & 1;
  r.used++;
  while (!mbar_try(r.full + stage, parity)) {
  }
  return r.at + stage * EP_UNIT_BYTES;
}

/* Copies pieces 0 to n-1. from(k) returns the address of piece k, and to(k, data, bytes) stores the
 * piece with bulk stores. These two run on lane 0 alone. All lanes call it, and all call done(k)
 * after each piece. When done(k) is called, the stores of all pieces up to k are committed, one
 * group for each piece. */
template <class From, class To, class Done>
EP_DEVICE void rank_pump(RankRing &r, uint32_t lane, uint32_t n, From from, To to, Done done) {
  if (lane == 0) {
    bulk_wait_read<0>();
    for (uint32_t k = 0; k < RANK_AHEAD && k < n; k++) rank_fetch(r, from(k), rank_piece_bytes(k));
  }
  for (uint32_t k = 0; k < n; k++) {
    if (lane == 0) {
      to(k, rank_fetched(r), rank_piece_bytes(k));
      bulk_commit();
      if (k + RANK_AHEAD < n) {
        bulk_wait_read<EP_STAGES - RANK_AHEAD>();
        rank_fetch(r, from(k + RANK_AHEAD), rank_piece_bytes(k + RANK_AHEAD));
      }
    }
    done(k);
  }
}

#endif
