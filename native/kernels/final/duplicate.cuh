/* Copies of a row that came, to the rows of the token's other experts on this
 * rank.
 *
 * Compile-time: EP_COPY: EP_VECTOR: lanes load and store 16 bytes at a time;
 * EP_BULK: one asynchronous copy brings a piece of the row to shared memory
 * and one for each further row takes it from there, so that few SMs keep many
 * bytes on their way.
 */
#ifndef EP_FINAL_DUPLICATE_CUH
#define EP_FINAL_DUPLICATE_CUH

#include "final/layout.cuh"

#define EP_VECTOR 0
#define EP_BULK 1

/* Rows of one message: bit k of `here` is top-k position k, whose row lane k
 * holds. The first has the data. */
struct FinRows {
  uint32_t here, row;
};
EP_DEVICE bool fin_copies(const FinRows &r) { return !EP_DIRECT && (r.here & (r.here - 1)) != 0; }
EP_DEVICE uint8_t *fin_out(const EpArgs &a, uint64_t row) { return a.out + row * FIN_PAYLOAD; }
EP_DEVICE const uint8_t *fin_original(const EpArgs &a, const FinRows &r) {
  return fin_out(a, __shfl_sync(EP_FULL_WARP, r.row, __ffs(r.here) - 1));
}

#if EP_COPY == EP_BULK

/* A piece of a row; family_final.go reserves one for each warp. */
static const uint32_t FIN_PIECES = (FIN_PAYLOAD + 8191) / 8192;
static const uint32_t FIN_PIECE = ep_up((FIN_PAYLOAD + FIN_PIECES - 1) / FIN_PIECES, 16);

/* A warp's stage, and the barrier that says that a piece is in it. */
struct FinCopier {
  uint8_t *stage;
  uint64_t *arrived;
  uint32_t parity;
};
EP_DEVICE FinCopier fin_copier(const FinCall &c) {
  EP_DYNAMIC_SHARED(stages);
  __shared__ uint64_t arrived[EP_THREADS / 32];
  if (c.lane == 0) mbar_init(&arrived[c.warp], 1);
  __syncwarp();
  return {stages + c.warp * FIN_PIECE, &arrived[c.warp], 0};
}
EP_DEVICE uint32_t fin_piece_bytes(uint32_t at) { return min(FIN_PIECE, FIN_PAYLOAD - at); }

/* Asks for a piece once no copy reads the stage any more. */
EP_DEVICE void fin_fetch_piece(const FinCall &c, FinCopier &copier, const uint8_t *from, uint32_t at) {
  bulk_wait_read<0>();
  __syncwarp();
  if (c.lane != 0) return;
  fence_to_bulk();
  mbar_expect(copier.arrived, fin_piece_bytes(at));
  bulk_load(copier.stage, from + at, fin_piece_bytes(at), copier.arrived);
}
EP_DEVICE void fin_begin_copies(const EpArgs &a, const FinCall &c, FinCopier &copier, const FinRows &r) {
  fin_fetch_piece(c, copier, fin_original(a, r), 0);
}
/* Each lane stores the piece to its own row. */
EP_DEVICE void fin_finish_copies(const EpArgs &a, const FinCall &c, FinCopier &copier, const FinRows &r) {
  const uint8_t *from = fin_original(a, r);
  bool further = ((r.here & (r.here - 1)) >> c.lane & 1u) != 0;
  for (uint32_t at = 0; at < FIN_PAYLOAD; at += FIN_PIECE) {
    if (at != 0) fin_fetch_piece(c, copier, from, at);
    while (!mbar_try(copier.arrived, copier.parity)) {
    }
    copier.parity ^= 1;
    if (further) bulk_store(fin_out(a, r.row) + at, copier.stage, fin_piece_bytes(at));
    bulk_commit();
  }
}
EP_DEVICE void fin_end_copies() { bulk_wait_written<0>(); }

#else

static const uint32_t FIN_DEPTH = EP_THREADS > 768 ? 4 : 8; /* vectors of a lane in flight */

struct FinCopier {};
EP_DEVICE FinCopier fin_copier(const FinCall &) { return {}; }
EP_DEVICE void fin_begin_copies(const EpArgs &, const FinCall &, FinCopier &, const FinRows &) {}
EP_DEVICE void fin_finish_copies(const EpArgs &a, const FinCall &c, FinCopier &, const FinRows &r) {
  const uint4 *in = reinterpret_cast<const uint4 *>(fin_original(a, r));
  for (uint32_t first = 0; first < FIN_VECTORS; first += 32 * FIN_DEPTH) {
    uint4 data[FIN_DEPTH];
#pragma unroll
    for (uint32_t v = 0; v < FIN_DEPTH; v++) {
      uint32_t vector = first + 32 * v + c.lane;
      if (vector < FIN_VECTORS) data[v] = ld_once(in + vector);
    }
    for (uint32_t left = r.here & (r.here - 1); left != 0; left &= left - 1) {
      uint4 *out = reinterpret_cast<uint4 *>(fin_out(a, __shfl_sync(EP_FULL_WARP, r.row, __ffs(left) - 1)));
#pragma unroll
      for (uint32_t v = 0; v < FIN_DEPTH; v++) {
        uint32_t vector = first + 32 * v + c.lane;
        if (vector < FIN_VECTORS) out[vector] = data[v];
      }
    }
  }
}
EP_DEVICE void fin_end_copies() {}

#endif
#endif
