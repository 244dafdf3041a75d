/* Finds the rows that combine sends back in layout rank. */
#pragma once

#include "common/ids.cuh"
#include "common/started.cuh"
#include "rank/layout.cuh"

static const uint32_t RANK_ROW = 2 * EP_HIDDEN; /* bytes */

EP_DEVICE const uint4 *rank_y(const EpArgs &a, uint64_t row, uint32_t column) {
  return reinterpret_cast<const uint4 *>(reinterpret_cast<const uint8_t *>(a.y) + row * RANK_ROW + column);
}

/* Lane r holds the number of rows from rank r, and the first of these rows. Combine sends no rows to a lost rank. */
struct RankRows {
  uint32_t rows, first;
};
EP_DEVICE RankRows rank_rows(const EpArgs &a, uint32_t lane) {
  if (lane >= EP_RANKS || !ep_alive(a, lane)) return {0, 0};
  uint32_t word = a.row_offsets[lane], most = static_cast<uint32_t>(a.max_tokens);
  RankRows of = {word, lane * most};
  if (EP_PACKED) of = {a.row_offsets[lane + 1] - word, word};
  /* A broken dispatch may write wrong offsets, which must not lead out of y. */
  if (of.rows > most || of.first > a.max_rows - of.rows) of = {0, 0};
  return of;
}
