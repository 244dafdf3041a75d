/* Launches the kernels for expanded rows of DeepEP V2. */
#include <string.h>

#include "comm.h"
#include "epcomm_deepep.h"

#define THREADS 512 /* EXPAND_THREADS in epcomm/expand.cuh */

static EpcommStatus check(EpComm *c, size_t size, size_t want, const char *name) {
  EpcommStatus s = comm_check_size(c, size, want, name);
  if (s != EPCOMM_OK || c->fold != NULL) return s; /* load.c loads `fold` last, so the others are there, too */
  return comm_say(c, EPCOMM_PACK, "%s: the pack is too old for this call; make the pack again", name);
}

static EpcommStatus within(EpComm *c, const char *name, int n, int least, int most) {
  return n >= least && n <= most ? EPCOMM_OK : comm_say(c, EPCOMM_INVALID, "%s: %d is outside %d to %d", name, n, least, most);
}

static uint32_t blocks_for_rows(const EpComm *c, int rows) {
  int64_t blocks = ((int64_t)rows + THREADS / 32 - 1) / (THREADS / 32), most = 2 * (int64_t)c->sms;
  return blocks < 1 ? 1 : blocks < most ? (uint32_t)blocks : (uint32_t)most;
}

EpcommStatus epcomm_places(EpComm *c, const EpcommPlaces *call, EpcommStream stream) {
  EpcommStatus s = check(c, call->size, sizeof *call, "places");
  if (s == EPCOMM_OK) s = within(c, "topk", call->topk, 1, 32);
  if (s == EPCOMM_OK) s = within(c, "experts", call->experts, 1, 1024);
  if (s == EPCOMM_OK) s = within(c, "align", call->align, 1, 1 << 20);
  if (s == EPCOMM_OK) s = within(c, "rows", call->rows, 0, 1 << 26);
  if (s == EPCOMM_OK) s = within(c, "expanded", call->expanded, 0, 1 << 30);
  if (s != EPCOMM_OK) return s;
  WITH_ROOM(EpPlacesArgs);
  a.of.ids = call->ids;
  a.of.received = call->received;
  a.of.slots = call->slots;
  a.of.choices = call->choices;
  a.of.counts = call->counts;
  a.of.rows = call->rows;
  a.of.topk = call->topk;
  a.of.experts = call->experts;
  a.of.align = call->align;
  a.of.expanded = call->expanded;
  int64_t blocks = ((int64_t)call->rows * call->topk + 2 * THREADS - 1) / (2 * THREADS);
  uint32_t grid = blocks < 1 ? 1 : blocks < c->sms ? (uint32_t)blocks : (uint32_t)c->sms;
  return comm_launch(c, c->place_rows, grid, THREADS, 1, &a, "places", stream);
}

static EpcommStatus check_row(EpComm *c, int32_t topk, const char *name, int32_t length, int32_t vector) {
  EpcommStatus s = within(c, "topk", topk, 1, 32);
  if (s == EPCOMM_OK && (length < vector || length % vector != 0))
    s = comm_say(c, EPCOMM_INVALID, "%s: %d is not a positive multiple of %d", name, length, vector);
  return s;
}

EpcommStatus epcomm_expand(EpComm *c, const EpcommExpand *call, EpcommStream stream) {
  EpcommStatus s = check(c, call->size, sizeof *call, "expand");
  if (s == EPCOMM_OK) s = check_row(c, call->topk, "row_bytes", call->row_bytes, 16);
  if (s != EPCOMM_OK) return s;
  WITH_ROOM(EpExpandArgs);
  a.of.x = call->x;
  a.of.scales = call->scales;
  a.of.weights = call->weights;
  a.of.slots = call->slots;
  a.of.choices = call->choices;
  a.of.received = call->received;
  a.of.out = call->out;
  a.of.out_scales = call->out_scales;
  a.of.out_weights = call->out_weights;
  a.of.scale_row = call->scale_row;
  a.of.scale_group = call->scale_group;
  a.of.rows = call->rows;
  a.of.topk = call->topk;
  a.of.expanded = call->expanded;
  a.of.row_bytes = call->row_bytes;
  a.of.groups = call->groups;
  a.of.zeros = call->zeros;
  return comm_launch(c, c->expand, blocks_for_rows(c, call->rows), THREADS, 1, &a, "expand", stream);
}

EpcommStatus epcomm_fold(EpComm *c, const EpcommFold *call, EpcommStream stream) {
  EpcommStatus s = check(c, call->size, sizeof *call, "fold");
  if (s == EPCOMM_OK) s = check_row(c, call->topk, "hidden", call->hidden, 8);
  if (s != EPCOMM_OK) return s;
  WITH_ROOM(EpFoldArgs);
  a.of.x = call->x;
  a.of.weights = call->weights;
  a.of.slots = call->slots;
  a.of.received = call->received;
  a.of.out = call->out;
  a.of.out_weights = call->out_weights;
  a.of.rows = call->rows;
  a.of.topk = call->topk;
  a.of.hidden = call->hidden;
  return comm_launch(c, c->fold, blocks_for_rows(c, call->rows), THREADS, 1, &a, "fold", stream);
}
