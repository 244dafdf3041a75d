/* Describes packs (files of compiled kernels) and EpComms. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"

static void describe(const Pack *p, EpcommInfo *out) {
  const PackHeader *h = p->head;
  out->ranks = (int)h->ranks;
  out->hidden = (int)h->hidden;
  out->experts = (int)h->experts;
  out->local_experts = (int)(h->experts / h->ranks);
  out->topk = (int)h->topk;
  out->max_tokens = (int)h->max_tokens;
  out->groups = (int)h->groups;
  out->shared = (h->flags & PACK_SHARED) != 0;
  out->skip_a2a = (h->flags & PACK_SKIP) != 0;
  out->reduced = (h->flags & PACK_REDUCED) != 0;
  out->largest_grid = (int)h->largest_grid;
  out->default_dtype = (int)p->dtypes[0].dtype;
  out->dtypes = 0;
  for (uint32_t i = 0; i < pack_count(p, PACK_DTYPES); i++) out->dtypes |= 1u << p->dtypes[i].dtype;
  for (int i = 0; i < 32; i++) {
    snprintf(out->digest + 2 * i, 3, "%02x", h->digest[i]);
    snprintf(out->abi + 2 * i, 3, "%02x", h->abi[i]);
  }
  out->layout = (int)h->layout;
  out->raw = (h->flags & PACK_RAW) != 0;
  out->survivors = (h->flags & PACK_SURVIVORS) != 0;
  out->nodes = (int)pack_nodes(p);
  if (p->hosts != NULL)
    snprintf(out->nvshmem, sizeof out->nvshmem, "%u.%u.%u", p->hosts->network[0] % 1000, p->hosts->network[1] % 1000,
             p->hosts->network[2] % 1000);
  memcpy(out->arch, h->arch, sizeof out->arch);
  snprintf(out->kernels, sizeof out->kernels, "%s", h->kernels != 0 ? pack_text(p, h->kernels) : out->abi);
}

void comm_give(void *out, const void *whole, size_t bytes) {
  size_t known;
  memcpy(&known, out, sizeof known);
  if (known > bytes) known = bytes;
  if (known > sizeof known) memcpy((char *)out + sizeof known, (const char *)whole + sizeof known, known - sizeof known);
}

int comm_take(void *whole, size_t bytes, size_t least, const void *given) {
  size_t size = 0;
  if (given != NULL) memcpy(&size, given, sizeof size);
  if (size < least) return -1;
  memset(whole, 0, bytes);
  memcpy(whole, given, size < bytes ? size : bytes);
  for (size_t i = bytes; i < size; i++)
    if (((const uint8_t *)given)[i] != 0) return -1;
  return 0;
}

EpcommStatus epcomm_info(EpComm *c, EpcommInfo *out) {
  EpcommInfo i = {.size = sizeof i};
  describe(&c->pack, &i);
  i.rank = c->options.rank;
  i.reduced = i.reduced && c->options.reduced;
  i.in_flight = c->options.in_flight;
  i.default_dtype = (int)c->pack.dtypes[c->dtype_index[0]].dtype;
  i.heap_bytes = c->at.bytes;
  for (int d = 1; d < 5; d++)
    if (c->dtype_index[d] < 0) i.dtypes &= ~(1u << d);
  comm_give(out, &i, sizeof i);
  return EPCOMM_OK;
}

EpcommStatus epcomm_check_pack(const void *data, size_t bytes, EpcommInfo *out, char *text) {
  Pack p;
  char none[EPCOMM_TEXT];
  EpcommInfo i = {.size = sizeof i};
  if (pack_read(&p, data, bytes, text != NULL ? text : none) != 0) return EPCOMM_PACK;
  describe(&p, &i);
  if (out != NULL) comm_give(out, &i, sizeof i);
  pack_free(&p);
  return EPCOMM_OK;
}

EpcommStatus epcomm_outputs(EpComm *c, int slot, int dtype, EpcommOutputs *out) {
  if (slot < 0 || slot >= c->options.in_flight || dtype < 0 || dtype > EPCOMM_NVFP4 || c->dtype_index[dtype] < 0)
    return comm_say(c, EPCOMM_INVALID, "slot or dtype: this EpComm has no slot %d with dtype %d", slot, dtype);
  const PackDType *d = &c->pack.dtypes[c->dtype_index[dtype]];
  const SlotAt *at = &c->at.slots[slot];
  PackIndex index = pack_index(c->pack.head, d);
  uint8_t *heap = comm_heap(c);
  EpcommOutputs o = {
    .out = heap + at->out,
    .out_scales = d->scales > 0 ? heap + at->out_scales : NULL,
    .row_offsets = (uint32_t *)(void *)(heap + at->row_offsets),
    .expert_ids = (int32_t *)(void *)(heap + at->expert_ids),
    .src_info = (int32_t *)(void *)(heap + at->src_info),
    .scale_offsets = d->dtype == EPCOMM_NVFP4 || pack_by_rank(c->pack.head) ? (uint32_t *)(void *)(heap + at->scale_offsets) : NULL,
    .max_rows = d->max_rows,
    .row_bytes = d->row_bytes,
    .out_bytes = d->out_bytes,
    .scale_bytes = d->scale_bytes,
    .scales = (int)d->scales,
    .scale_bytes_each = (int)d->scale_size,
    .row_pad = (int)d->row_pad,
    .expert_ids_bytes = index.expert_ids,
    .src_info_bytes = index.src_info,
    .scale_offsets_bytes = index.scale_offsets,
    .y = c->nodes > 1 && !c->options.own_outputs ? heap + at->y : NULL,
  };
  comm_give(out, &o, sizeof o);
  return EPCOMM_OK;
}

void *epcomm_extra(EpComm *c) {
  return c->options.extra_bytes > 0 ? comm_heap(c) + c->at.extra : NULL;
}

/* Returns the class of a routing. Classify in tune/ep/class.go must return the same class. */
EpcommRouting epcomm_classify(const int64_t *counts, int experts, int ranks) {
  double total = 0, pairs = 0, fullest = 0, load = 0;
  if (counts == NULL || ranks < 1 || experts < 1 || experts % ranks != 0) return EPCOMM_ALL_ROUTINGS;
  for (int e = 0; e < experts; e++) {
    double n = counts[e] > 0 ? (double)counts[e] : 0;
    total += n;
    pairs += n * (n > 1 ? n - 1 : 0) / 2;
    load += n;
    if ((e + 1) % (experts / ranks) != 0) continue;
    if (load > fullest) fullest = load;
    load = 0;
  }
  if (!(total > 0)) return EPCOMM_ALL_ROUTINGS;
  double proven = pairs - 3 * sqrt(pairs), mean = total / ranks;
  double share = proven > 0 ? fmin(1, total * (total - 1) / 2 / proven / experts) : 1;
  double hottest = fmax(1, (fullest - 3 * sqrt(mean)) / mean);
  if (ranks > 1 && hottest >= fmin(1.75, (1.0 + ranks) / 2)) return EPCOMM_HOT_RANK;
  if (share < 0.2) return EPCOMM_CONCENTRATED;
  return share < 0.75 || hottest >= 1.25 ? EPCOMM_SKEWED : EPCOMM_EVEN;
}
