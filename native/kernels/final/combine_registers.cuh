/* Sends a message of combine_final. A warp loads rows to registers. While the warp stores or adds one step, its loads
 * of the next step are in flight. */
#pragma once

#include "final/combine_message.cuh"

/* FIN_WIDTH vectors of one row. */
struct FinPiece {
  uint4 data[FIN_WIDTH];
};
EP_DEVICE FinPiece fin_load_piece(const uint8_t *row, uint32_t column) {
  FinPiece p;
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++) {
    uint32_t at = column + v * 512;
    p.data[v] = make_uint4(0, 0, 0, 0);
    if (fin_in_row(at)) p.data[v] = ld_readonly(reinterpret_cast<const uint4 *>(row + at));
  }
  return p;
}
EP_DEVICE void fin_store_piece(uint8_t *row, uint32_t column, const FinPiece &p) {
#pragma unroll
  for (uint32_t v = 0; v < FIN_WIDTH; v++)
    if (fin_in_row(column + v * 512)) st_relaxed_sys(reinterpret_cast<uint4 *>(row + column + v * 512), p.data[v]);
}

EP_DEVICE FinPiece fin_load_at(const EpArgs &a, const FinReturn &r, FinWalk w, uint64_t *route) {
  *route = __shfl_sync(EP_FULL_WARP, r.route, __ffs(w.left) - 1);
  return fin_load_piece(fin_row(a, *route), w.column);
}

EP_DEVICE void fin_send_sum(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here) {
  uint8_t *slot = fin_return(a, r.source, r.token, a.rank);
  float acc[FIN_WIDTH][8] = {};
  uint64_t route, next_route;
  FinWalk walk = {here, c.lane * 16};
  FinPiece next = fin_load_at(a, r, walk, &next_route);
  const uint32_t pieces = __popc(here) * ((FIN_ROW_BYTES + FIN_STRIDE - 1) / FIN_STRIDE);
  for (uint32_t i = 0; i < pieces; i++) {
    FinPiece piece = next;
    FinWalk at = walk;
    route = next_route;
    walk = fin_step(walk, here);
    if (i + 1 < pieces) next = fin_load_at(a, r, walk, &next_route);
    float weight = __uint_as_float(static_cast<uint32_t>(route >> 32));
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) bf16_accumulate(acc[v], piece.data[v], weight);
    if ((at.left & (at.left - 1)) != 0) continue;
#pragma unroll
    for (uint32_t v = 0; v < FIN_WIDTH; v++) {
      piece.data[v] = bf16_pack(acc[v]);
#pragma unroll
      for (int j = 0; j < 8; j++) acc[v][j] = 0;
    }
    fin_store_piece(slot, at.column, piece);
  }
}

EP_DEVICE void fin_send_rows(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here) {
  for (uint32_t left = here; left != 0; left &= left - 1) {
    int k = __ffs(left) - 1;
    const uint8_t *row = fin_row(a, __shfl_sync(EP_FULL_WARP, r.route, k));
    uint8_t *slot = fin_return(a, r.source, r.token, k);
    FinPiece next = fin_load_piece(row, c.lane * 16);
    for (uint32_t first = 0; first < FIN_ROW_BYTES; first += FIN_STRIDE) {
      FinPiece piece = next;
      uint32_t column = first + c.lane * 16;
      if (first + FIN_STRIDE < FIN_ROW_BYTES) next = fin_load_piece(row, column + FIN_STRIDE);
      fin_store_piece(slot, column, piece);
    }
  }
}

EP_DEVICE void fin_send_terms(const EpArgs &a, const EpCall &c, const FinReturn &r, uint32_t here) {
  if (EP_DIRECT) {
    fin_send_rows(a, c, r, here);
  } else {
    fin_send_sum(a, c, r, here);
  }
}
