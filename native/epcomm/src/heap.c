/* Computes the offsets in a rank's heap. kernels/cuda/pack/memory.go also computes the bytes of a slot, and must
 * agree. */
#include <string.h>

#include "comm.h"

static uint64_t take(uint64_t *end, uint64_t bytes) {
  uint64_t at = *end;
  *end += (bytes + 255) / 256 * 256;
  return at;
}

static int chosen(const EpComm *c, uint32_t dtype) { return c->dtype_index[c->pack.dtypes[dtype].dtype] == (int)dtype; }

static uint32_t states(const EpComm *c) { return pack_count(&c->pack, PACK_STATES); }
static const PackRegion *region(const EpComm *c, uint32_t state, uint32_t i) {
  return &c->pack.regions[c->pack.states[state].first_region + i];
}

/* Returns the first state that shares the call numbers of `op` with `state`. Ignores dtypes that this EpComm does not
 * use. */
static uint32_t counts_with(const EpComm *c, uint32_t state, int op) {
  uint16_t numbers = c->pack.states[state].numbers[op];
  for (uint32_t j = 0; numbers != 0 && j < state; j++)
    if (chosen(c, c->pack.states[j].dtype) && c->pack.states[j].numbers[op] == numbers) return j;
  return state;
}

/* The memory that a region shares with other regions (PackRegion.area).
 * placed:  1 if an earlier region of the area has an offset
 * covered: 1 if an earlier region of the area is at least as large as this region
 * common:  offset at which all regions of the area begin; if they have halves, offset of their middle
 * most:    bytes of the largest region of the area */
typedef struct Area {
  int placed, covered;
  uint64_t common, most;
} Area;
static Area area_of(const EpComm *c, const SlotAt *at, uint32_t state, uint32_t i) {
  const PackRegion *own = region(c, state, i);
  Area a = {0, 0, 0, own->bytes};
  for (uint32_t j = 0; own->area != 0 && j < states(c); j++)
    for (uint32_t k = 0; chosen(c, c->pack.states[j].dtype) && k < c->pack.states[j].regions; k++) {
      const PackRegion *g = region(c, j, k);
      if (g->area != own->area) continue;
      if (g->bytes > a.most) a.most = g->bytes;
      if (j > state || (j == state && k >= i)) continue;
      a.placed = 1;
      a.common = at->states[j].region[k] + (g->halves ? g->bytes / 2 : 0);
      if (g->bytes >= own->bytes) a.covered = 1;
    }
  return a;
}

static uint64_t layout_region(const EpComm *c, const SlotAt *at, uint32_t state, uint32_t i, uint64_t *end) {
  const PackRegion *own = region(c, state, i);
  Area a = area_of(c, at, state, i);
  if (!a.placed) a.common = take(end, a.most) + (own->halves ? a.most / 2 : 0);
  return a.common - (own->halves ? own->bytes / 2 : 0);
}

static void layout_state(const EpComm *c, SlotAt *slot, uint32_t state, uint64_t *end) {
  const PackState *s = &c->pack.states[state];
  StateAt *at = &slot->states[state];
  for (int op = 0; op < 2; op++) {
    uint32_t first = counts_with(c, state, op);
    at->rounds[op] = first < state ? slot->states[first].rounds[op] : take(end, 4 * PACK_ROUND_WORDS);
  }
  uint32_t first = counts_with(c, state, 0);
  at->counters = first < state ? slot->states[first].counters : take(end, 4 * (uint64_t)s->counters);
  for (uint32_t i = 0; i < s->regions; i++) at->region[i] = layout_region(c, slot, state, i, end);
}

static void layout_slot(const EpComm *c, SlotAt *at, uint64_t *end) {
  const PackHeader *h = c->pack.head;
  uint64_t out = 0, scales = 0, rows = 0;
  PackIndex index = {0, 0, 0};
  for (uint32_t i = 0; i < pack_count(&c->pack, PACK_DTYPES); i++) {
    const PackDType *d = &c->pack.dtypes[i];
    if (!chosen(c, i)) continue;
    if (d->out_bytes > out) out = d->out_bytes;
    if (d->scale_bytes > scales) scales = d->scale_bytes;
    if (d->max_rows > rows) rows = d->max_rows;
    PackIndex of = pack_index(h, d);
    if (of.expert_ids > index.expert_ids) index.expert_ids = of.expert_ids;
    if (of.src_info > index.src_info) index.src_info = of.src_info;
    if (of.scale_offsets > index.scale_offsets) index.scale_offsets = of.scale_offsets;
  }
  if (c->options.own_outputs) {
    out = scales = 0;
    index = (PackIndex){0, 0, 0};
  }
  uint64_t ids = h->flags & PACK_SURVIVORS ? 4 * (uint64_t)h->max_tokens * h->topk : 0;
  for (int op = 0; op < 2; op++) at->ids[op] = take(end, ids);
  at->out = take(end, out);
  at->out_scales = take(end, scales);
  at->row_offsets = take(end, 4 * ((uint64_t)h->groups + 1));
  at->expert_ids = take(end, index.expert_ids);
  at->src_info = take(end, index.src_info);
  at->scale_offsets = take(end, index.scale_offsets);
  if (c->nodes > 1) at->y = take(end, c->options.own_outputs ? 0 : 2 * rows * h->hidden);
  for (uint32_t i = 0; i < states(c); i++)
    if (chosen(c, c->pack.states[i].dtype)) layout_state(c, at, i, end);
}

static uint64_t normal_bytes(const PackHeader *h) {
  uint64_t words = h->ranks + h->experts / h->ranks + 1;
  return EP_NORMAL_HEADER + 8 * 2 * h->ranks * (words + (uint64_t)h->max_tokens * h->topk);
}

void heap_layout(EpComm *c) {
  HeapAt *at = &c->at;
  uint64_t ranks = (uint64_t)c->options.ranks;
  memset(at, 0, sizeof *at);
  at->control = take(&at->bytes, sizeof(EpControl));
  at->abort = take(&at->bytes, 8);
  for (int i = 0; i < c->options.in_flight; i++)
    at->slots[i].agree = take(&at->bytes, 16 * (ranks > EP_MAX_RANKS ? ranks : EP_MAX_RANKS) + 8);
  if (c->nodes > 1) at->world = take(&at->bytes, 16 * ranks);
  if (c->nodes == 1 && c->pack.head->layout == PACK_RANK_PACKED) at->normal = take(&at->bytes, normal_bytes(c->pack.head));
  for (int i = 0; i < c->options.in_flight; i++) layout_slot(c, &at->slots[i], &at->bytes);
  at->extra = take(&at->bytes, c->options.extra_bytes);
  if (c->pack.head->flags & PACK_SURVIVORS) at->survival = take(&at->bytes, sizeof(EpSurvival));
}

static DrvResult fill(const EpComm *c, uint64_t at, uint64_t bytes, unsigned char value) {
  return bytes == 0 ? 0 : c->driver->fill(c->heap[c->options.rank] + at, value, (size_t)bytes);
}

static DrvResult fill_state(const EpComm *c, const SlotAt *slot, uint32_t state) {
  const PackState *s = &c->pack.states[state];
  const StateAt *at = &slot->states[state];
  DrvResult r = 0;
  for (int op = 0; op < 2 && r == 0; op++) r = fill(c, at->rounds[op], 4 * PACK_ROUND_WORDS, 0);
  if (r == 0) r = fill(c, at->counters, 4 * (uint64_t)s->counters, 0);
  for (uint32_t i = 0; i < s->regions && r == 0; i++)
    if (!area_of(c, slot, state, i).covered) r = fill(c, at->region[i], region(c, state, i)->bytes, region(c, state, i)->fill);
  return r;
}

EpcommStatus heap_fill(EpComm *c) {
  DrvResult r = fill(c, 0, c->at.slots[0].ids[0], 0);
  for (int slot = 0; slot < c->options.in_flight; slot++)
    for (uint32_t i = 0; i < states(c) && r == 0; i++)
      if (chosen(c, c->pack.states[i].dtype)) r = fill_state(c, &c->at.slots[slot], i);
  if (r == 0) r = c->driver->context_wait();
  if (r != 0) return comm_driver_error(c, r, "fill the heap");
  return c->nodes > 1 ? network_table(c) : EPCOMM_OK;
}
