/* Reads a pack. It checks every number before use, even if the digest is correct. */
#include "pack.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ep_args.h"
#include "epcomm.h"

#define MAX_PACK ((size_t)1 << 30)
#define MAX_REGION ((uint64_t)1 << 40)
#define MOST_STATES 256

static int refuse(char *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(text, EPCOMM_TEXT, format, args);
  va_end(args);
  return -1;
}

uint32_t pack_nodes(const Pack *pack) { return pack->hosts != NULL ? pack->hosts->nodes : 1; }

uint32_t pack_count(const Pack *pack, int section) { return pack->head->sections[section].count; }

const char *pack_text(const Pack *pack, uint32_t at) { return pack->strings + at; }

static int check_header(const PackHeader *h, size_t bytes, char *text) {
  const uint16_t order = 1;
  uint8_t sum[32];
  if (*(const uint8_t *)&order != 1) return refuse(text, "pack: the file is little-endian, but this machine is not");
  if (bytes < sizeof *h || memcmp(h->magic, PACK_MAGIC, 8) != 0)
    return refuse(text, "pack: the file does not begin with %s; make one with epbench pack", PACK_MAGIC);
  if (h->version < 1 || h->version > PACK_VERSION || (h->header_bytes != sizeof *h && h->header_bytes != sizeof *h + sizeof(PackHosts)) ||
      bytes < h->header_bytes)
    return refuse(text, "pack: the file has format %u, but this library reads format %d; make it again with the epbench of this library", h->version,
                  PACK_VERSION);
  if (h->file_bytes != bytes)
    return refuse(text, "pack: the file has %llu bytes of %llu; it is truncated", (unsigned long long)bytes,
                  (unsigned long long)h->file_bytes);
  sha256((const uint8_t *)h + PACK_DIGEST_FROM, bytes - PACK_DIGEST_FROM, sum);
  if (memcmp(sum, h->digest, sizeof sum) != 0)
    return refuse(text, "pack: the content does not match its digest; the file is damaged or was edited");
  if (h->args_version != EP_ARGS_VERSION)
    return refuse(text, "pack: its kernels take arguments of version %u, but this library passes version %d; build both from the same sources",
                  h->args_version, EP_ARGS_VERSION);
  return 0;
}

int pack_by_rank(const PackHeader *h) { return h->layout == PACK_RANK || h->layout == PACK_RANK_PACKED; }
int pack_any_order(const PackHeader *h) { return h->layout >= PACK_MASKED; }

/* Returns the sizes, in bytes, of expert_ids, src_info and scale_offsets. kernels/cuda/declare/heap.go computes the
 * same sizes. */
PackIndex pack_index(const PackHeader *h, const PackDType *d) {
  uint64_t groups = 4 * (uint64_t)h->groups, beside = 4 * d->max_rows * h->topk;
  uint64_t route = 4 * (uint64_t)h->ranks * ((uint64_t)h->max_tokens * (1 + h->topk) + 1);
  if (h->layout == PACK_MASKED) return (PackIndex){2 * groups * h->ranks, 8 * d->max_rows + route, groups};
  if (pack_by_rank(h)) return (PackIndex){beside, 8 * d->max_rows + 4 * (uint64_t)h->max_tokens, beside};
  return (PackIndex){groups, 8 * d->max_rows, groups};
}

static int check_shape(const Pack *p, char *text) {
  const PackHeader *h = p->head;
  const struct {
    const char *name;
    uint32_t value, least, most;
  } bounds[] = {
      {"ranks", h->ranks, 1, p->hosts != NULL ? PACK_MOST_RANKS : EP_MAX_RANKS},
      {"nodes", pack_nodes(p), p->hosts != NULL ? 2 : 1, h->ranks},
      {"hidden", h->hidden, 1, 65536},          {"experts", h->experts, 1, 65536},
      {"top-k", h->topk, 1, 32},                {"max tokens", h->max_tokens, 1, 1u << 20},
      {"groups", h->groups, 1, 65537},          {"largest grid", h->largest_grid, 1, PACK_ROUND_BLOCKS},
      {"layout", h->layout, 0, PACK_LAYOUTS - 1},
      {"compute capability", h->major, 5, 99},  {"compute capability minor", h->minor, 0, 9},
  };
  for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
    if (bounds[i].value < bounds[i].least || bounds[i].value > bounds[i].most)
      return refuse(text, "pack: %s is %u, outside %u to %u", bounds[i].name, bounds[i].value, bounds[i].least, bounds[i].most);
  if (h->experts % h->ranks != 0) return refuse(text, "pack: %u experts do not divide by %u ranks", h->experts, h->ranks);
  if (h->ranks % pack_nodes(p) != 0) return refuse(text, "pack: %u ranks do not divide by %u nodes", h->ranks, pack_nodes(p));
  if (h->kernels >= h->sections[PACK_STRINGS].count) return refuse(text, "pack: the names of its kernels lie outside the file");
  if (memchr(h->arch, 0, sizeof h->arch) == NULL) return refuse(text, "pack: the architecture's name has no end");
  return 0;
}

static int check_sections(const PackHeader *h, size_t bytes, char *text) {
  static const uint32_t strides[PACK_SECTIONS] = {
      sizeof(PackDType), sizeof(PackState),  sizeof(PackRegion), sizeof(PackModule), sizeof(PackLaunch), sizeof(PackConfig),
      sizeof(PackPlan),  sizeof(PackLookup), sizeof(PackRun),    1,                  1,                  1};
  for (int i = 0; i < PACK_SECTIONS; i++) {
    const PackSection *s = &h->sections[i];
    uint64_t size = (uint64_t)s->count * strides[i];
    if (s->stride != strides[i] || s->offset % 16 != 0 || s->offset < h->header_bytes || s->offset > bytes || size > bytes - s->offset)
      return refuse(text, "pack: section %d lies outside the file", i);
  }
  return 0;
}

static void place_sections(Pack *p) {
  const PackSection *s = p->head->sections;
  p->dtypes = (const PackDType *)(const void *)(p->data + s[PACK_DTYPES].offset);
  p->states = (const PackState *)(const void *)(p->data + s[PACK_STATES].offset);
  p->regions = (const PackRegion *)(const void *)(p->data + s[PACK_REGIONS].offset);
  p->modules = (const PackModule *)(const void *)(p->data + s[PACK_MODULES].offset);
  p->launches = (const PackLaunch *)(const void *)(p->data + s[PACK_LAUNCHES].offset);
  p->configs = (const PackConfig *)(const void *)(p->data + s[PACK_CONFIGS].offset);
  p->plans = (const PackPlan *)(const void *)(p->data + s[PACK_PLANS].offset);
  p->lookups = (const PackLookup *)(const void *)(p->data + s[PACK_LOOKUPS].offset);
  p->runs = (const PackRun *)(const void *)(p->data + s[PACK_RUNS].offset);
  p->strings = (const char *)(p->data + s[PACK_STRINGS].offset);
  p->cubins = p->data + s[PACK_CUBINS].offset;
}

static int within(const Pack *p, int section, uint32_t first, uint32_t n) {
  uint32_t count = pack_count(p, section);
  return first <= count && n <= count - first;
}

static int string_ok(const Pack *p, uint32_t at) { return at < pack_count(p, PACK_STRINGS); }

static int check_memory(const Pack *p, char *text) {
  for (uint32_t i = 0; i < pack_count(p, PACK_DTYPES); i++) {
    const PackDType *d = &p->dtypes[i];
    if (d->dtype < 1 || d->dtype > 4 || d->out_bytes > MAX_REGION || d->scale_bytes > MAX_REGION || d->max_rows > MAX_REGION ||
        d->row_bytes > MAX_REGION || d->max_rows < 1)
      return refuse(text, "pack: dtype %u has impossible sizes", i);
    for (uint32_t j = 0; j < i; j++)
      if (p->dtypes[j].dtype == d->dtype) return refuse(text, "pack: a dtype is listed twice");
  }
  if (pack_count(p, PACK_STATES) > MOST_STATES || pack_count(p, PACK_REGIONS) > MOST_STATES * EP_MAX_REGIONS)
    return refuse(text, "pack: it has %u states and %u regions, but this library takes at most %d and %d",
                  pack_count(p, PACK_STATES), pack_count(p, PACK_REGIONS), MOST_STATES, MOST_STATES * EP_MAX_REGIONS);
  for (uint32_t i = 0; i < pack_count(p, PACK_REGIONS); i++) {
    const PackRegion *g = &p->regions[i];
    if (g->bytes > MAX_REGION || g->halves > 1 || !string_ok(p, g->name) || (g->area != 0 && g->halves && g->bytes % 512 != 0))
      return refuse(text, "pack: region %u has impossible sizes", i);
    for (uint32_t j = 0; j < i; j++)
      if (g->area != 0 && g->area == p->regions[j].area && (g->fill != p->regions[j].fill || g->halves != p->regions[j].halves))
        return refuse(text, "pack: regions %u and %u share memory, but differ in fill or halves", j, i);
  }
  for (uint32_t i = 0; i < pack_count(p, PACK_STATES); i++) {
    const PackState *s = &p->states[i];
    if (s->dtype >= pack_count(p, PACK_DTYPES) || !within(p, PACK_REGIONS, s->first_region, s->regions) ||
        s->regions > EP_MAX_REGIONS || s->counters < 1 || s->counters > 1u << 24 || !string_ok(p, s->name))
      return refuse(text, "pack: state %u has impossible sizes", i);
    for (uint32_t j = 0; j < i; j++)
      if (s->numbers[0] != 0 && s->numbers[0] == p->states[j].numbers[0] && s->counters != p->states[j].counters)
        return refuse(text, "pack: states %u and %u share counters, but differ in their number", j, i);
  }
  return 0;
}

static int check_code(const Pack *p, char *text) {
  uint32_t cubins = pack_count(p, PACK_CUBINS);
  for (uint32_t i = 0; i < pack_count(p, PACK_MODULES); i++) {
    const PackModule *m = &p->modules[i];
    if (m->offset > cubins || m->bytes > cubins - m->offset || m->bytes < 64 || m->offset % 16 != 0 || !string_ok(p, m->name) ||
        m->flags > (p->hosts != NULL ? PACK_NETWORK : 0))
      return refuse(text, "pack: device binary %u lies outside the file, or is of another kind", i);
  }
  for (uint32_t i = 0; i < pack_count(p, PACK_LAUNCHES); i++) {
    const PackLaunch *l = &p->launches[i];
    if (l->module >= pack_count(p, PACK_MODULES) || !string_ok(p, l->entry) || l->grid < 1 || l->grid > p->head->largest_grid ||
        l->block < 1 || l->block > 1024 || l->shared > 1u << 20)
      return refuse(text, "pack: launch %u has impossible sizes", i);
  }
  return p->head->align_module < pack_count(p, PACK_MODULES) && p->head->calls_module < pack_count(p, PACK_MODULES)
             ? 0
             : refuse(text, "pack: a module of helper kernels is missing");
}

static int check_configs(const Pack *p, char *text) {
  for (uint32_t i = 0; i < pack_count(p, PACK_CONFIGS); i++) {
    const PackConfig *c = &p->configs[i];
    if (c->op > 1 || c->dtype >= pack_count(p, PACK_DTYPES) || c->state >= pack_count(p, PACK_STATES) ||
        !within(p, PACK_LAUNCHES, c->first_launch, c->launches) || c->launches < 1 || c->launches > 2 || !string_ok(p, c->key) ||
        p->states[c->state].dtype != c->dtype)
      return refuse(text, "pack: config %u refers to a missing record", i);
  }
  for (uint32_t i = 0; i < pack_count(p, PACK_PLANS); i++) {
    const PackPlan *q = &p->plans[i];
    if (q->dispatch >= pack_count(p, PACK_CONFIGS) || q->combine >= pack_count(p, PACK_CONFIGS) ||
        p->configs[q->dispatch].op != 0 || p->configs[q->combine].op != 1 ||
        p->configs[q->dispatch].state != p->configs[q->combine].state)
      return refuse(text, "pack: plan %u joins configs that do not fit each other", i);
  }
  return 0;
}

static int run_ok(const Pack *p, const PackRun *r, uint32_t dtype) {
  if (r->plan >= pack_count(p, PACK_PLANS) || r->elsewhere >= pack_count(p, PACK_PLANS) || !string_ok(p, r->text)) return 0;
  const PackConfig *far = &p->configs[p->plans[r->elsewhere].dispatch];
  return p->configs[p->plans[r->plan].dispatch].dtype == dtype && far->dtype == dtype && !(far->flags & PACK_PLACES);
}

static int check_lookups(const Pack *p, char *text) {
  uint32_t most = pack_count(p, PACK_DTYPES) * 2 * PACK_PURPOSES * PACK_CLASSES;
  if (pack_count(p, PACK_LOOKUPS) > most) return refuse(text, "pack: %u look-ups, but at most %u can differ", pack_count(p, PACK_LOOKUPS), most);
  for (uint32_t i = 0; i < pack_count(p, PACK_LOOKUPS); i++) {
    const PackLookup *l = &p->lookups[i];
    uint32_t last = 0;
    if (l->dtype >= pack_count(p, PACK_DTYPES) || l->reduced > 1 || l->purpose >= PACK_PURPOSES || l->routing >= PACK_CLASSES ||
        !within(p, PACK_RUNS, l->first_run, l->runs) || l->runs < 1)
      return refuse(text, "pack: look-up %u refers to a missing record", i);
    for (uint32_t j = 0; j < l->runs; j++) {
      const PackRun *r = &p->runs[l->first_run + j];
      if (r->last <= last || !run_ok(p, r, l->dtype)) return refuse(text, "pack: run %u of look-up %u is impossible", j, i);
      last = r->last;
    }
    if (last != p->head->max_tokens) return refuse(text, "pack: look-up %u does not cover all token counts", i);
  }
  for (uint32_t d = 0; d < pack_count(p, PACK_DTYPES); d++)
    for (int purpose = 0; purpose < PACK_NEEDED_PURPOSES; purpose++)
      for (int routing = 0; routing < PACK_CLASSES; routing++)
        for (int reduced = 0; reduced <= ((p->head->flags & PACK_REDUCED) != 0); reduced++)
          if (pack_find(p, d, reduced, purpose, routing, 1, NULL) == NULL) return refuse(text, "pack: a look-up is missing");
  return 0;
}

static int check_all(Pack *p, size_t bytes, char *text) {
  p->head = (const PackHeader *)(const void *)p->data;
  if (check_header(p->head, bytes, text) != 0) return -1;
  if (p->head->header_bytes > sizeof *p->head) p->hosts = (const PackHosts *)(const void *)(p->head + 1);
  if (check_shape(p, text) != 0 || check_sections(p->head, bytes, text) != 0) return -1;
  place_sections(p);
  uint32_t n = pack_count(p, PACK_STRINGS);
  if (n == 0 || p->strings[n - 1] != 0) return refuse(text, "pack: the last string has no end");
  if (pack_count(p, PACK_DTYPES) < 1 || pack_count(p, PACK_DTYPES) > 4 || pack_count(p, PACK_PLANS) > 2047)
    return refuse(text, "pack: too many plans, or no dtype");
  return check_memory(p, text) != 0 || check_code(p, text) != 0 || check_configs(p, text) != 0 || check_lookups(p, text) != 0 ? -1 : 0;
}

int pack_read(Pack *pack, const void *data, size_t bytes, char *text) {
  memset(pack, 0, sizeof *pack);
  if (bytes < sizeof(PackHeader) || bytes > MAX_PACK)
    return refuse(text, "pack: a file of %llu bytes is not a pack", (unsigned long long)bytes);
  pack->data = malloc(bytes);
  if (pack->data == NULL) return refuse(text, "pack: no memory for %llu bytes", (unsigned long long)bytes);
  memcpy(pack->data, data, bytes);
  if (check_all(pack, bytes, text) == 0) return 0;
  pack_free(pack);
  return -1;
}

int pack_open(Pack *pack, const char *path, char *text) {
  FILE *f = fopen(path, "rb");
  if (f == NULL) return refuse(text, "pack: cannot open %.300s", path);
  long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
  uint8_t *data = size > 0 && (size_t)size <= MAX_PACK && fseek(f, 0, SEEK_SET) == 0 ? malloc((size_t)size) : NULL;
  size_t got = data != NULL ? fread(data, 1, (size_t)size, f) : 0;
  fclose(f);
  int r = data != NULL && got == (size_t)size ? pack_read(pack, data, got, text) : refuse(text, "pack: cannot read %.300s", path);
  free(data);
  return r;
}

void pack_free(Pack *pack) {
  free(pack->data);
  memset(pack, 0, sizeof *pack);
}

const PackRun *pack_find(const Pack *p, uint32_t dtype, int reduced, int purpose, int routing, uint32_t tokens, uint32_t *first) {
  for (uint32_t i = 0; i < pack_count(p, PACK_LOOKUPS); i++) {
    const PackLookup *l = &p->lookups[i];
    if (l->dtype != dtype || (int)l->reduced != reduced || (int)l->purpose != purpose || (int)l->routing != routing) continue;
    const PackRun *runs = &p->runs[l->first_run];
    uint32_t lo = 0, hi = l->runs - 1;
    while (lo < hi) {
      uint32_t mid = (lo + hi) / 2;
      if (tokens <= runs[mid].last) hi = mid;
      else lo = mid + 1;
    }
    if (first != NULL) *first = lo > 0 ? runs[lo - 1].last + 1 : 1;
    return &runs[lo];
  }
  return NULL;
}
