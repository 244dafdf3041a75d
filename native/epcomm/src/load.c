/* Loads all kernels before any kernel runs. To load a kernel, the driver may wait for running kernels, and these may
 * wait for another rank. */
#include <stdlib.h>

#include "comm.h"

static EpcommStatus load_module(EpComm *c, uint32_t index) {
  if (c->modules[index] != NULL) return EPCOMM_OK;
  const PackModule *m = &c->pack.modules[index];
  DrvResult r = c->driver->module_load(&c->modules[index], c->pack.cubins + m->offset);
  if (r == 0) return m->flags & PACK_NETWORK ? network_module(c, c->modules[index]) : EPCOMM_OK;
  char words[DRIVER_WORDS];
  driver_describe(c->driver, r, words);
  return comm_say(c, EPCOMM_DRIVER, "load %.120s: %s", pack_text(&c->pack, m->name), words);
}

static EpcommStatus find(EpComm *c, uint32_t module, const char *entry, DrvFunction *out) {
  EpcommStatus s = load_module(c, module);
  if (s != EPCOMM_OK) return s;
  DrvResult r = c->driver->module_function(out, c->modules[module], entry);
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, entry);
}

/* Sets a kernel's attributes. The driver then waits for the device, so call this function before any dispatch. */
static DrvResult ready(const Driver *d, DrvFunction f, uint32_t shared, int *most_threads) {
  int most = 0, local = 0;
  size_t stack = 0;
  DrvResult r = d->function_get(&most, DRV_FUNCTION_SHARED, f);
  if (r == 0 && (int)shared > most) r = d->function_set(f, DRV_FUNCTION_SHARED, (int)shared);
  if (r == 0) r = d->function_get(&local, DRV_FUNCTION_LOCAL, f);
  if (r == 0) r = d->function_get(most_threads, DRV_FUNCTION_THREADS, f);
  if (r == 0) r = d->context_get_limit(&stack, DRV_LIMIT_STACK);
  if (r == 0 && (size_t)local > stack) r = d->context_set_limit(DRV_LIMIT_STACK, (size_t)local);
  return r;
}

/* Checks that all blocks of a grid fit on the GPU at once: they wait for each other. */
static EpcommStatus check_resident(EpComm *c, const PackLaunch *l, DrvFunction f) {
  const char *entry = pack_text(&c->pack, l->entry);
  int threads = 0, blocks = 0;
  DrvResult r = ready(c->driver, f, l->shared, &threads);
  if (r == 0) r = c->driver->function_blocks(&blocks, f, (int)l->block, l->shared);
  if (r != 0) return comm_driver_error(c, r, entry);
  if ((int)l->block > threads)
    return comm_say(c, EPCOMM_MACHINE, "%.60s: a block has %u threads, but on this GPU it can have at most %d", entry, l->block, threads);
  if ((int64_t)blocks * c->sms < (int64_t)l->grid * c->options.streams)
    return comm_say(c, EPCOMM_MACHINE, "%.60s: %u blocks on each of %d streams cannot run at the same time on %d SMs with %d blocks each; "
                    "make a pack with --max-sms %d", entry, l->grid, c->options.streams, c->sms, blocks, c->sms / c->options.streams);
  return EPCOMM_OK;
}

static EpcommStatus load_config(EpComm *c, const PackConfig *config) {
  for (uint32_t i = config->first_launch; i < config->first_launch + config->launches; i++) {
    Ready *r = &c->ready[i];
    r->launch = &c->pack.launches[i];
    EpcommStatus s = find(c, r->launch->module, pack_text(&c->pack, r->launch->entry), &r->function);
    if (s == EPCOMM_OK) s = check_resident(c, r->launch, r->function);
    if (s != EPCOMM_OK) return s;
  }
  return EPCOMM_OK;
}

/* Finds the kernels of normal.c and expand.c. A kernel that an old pack lacks stays NULL. */
static EpcommStatus load_normal(EpComm *c) {
  static const char *const names[] = {"ep_layout", "ep_announce", "ep_add_counts", "ep_received", "ep_return_weights",
                                      "ep_places", "ep_expand", "ep_fold"};
  DrvFunction *into[] = {&c->layout, &c->announce, &c->add_counts, &c->received, &c->give_back, &c->place_rows, &c->expand, &c->fold};
  int threads = 0;
  for (size_t i = 0; i < sizeof into / sizeof *into; i++) {
    if (c->driver->module_function(into[i], c->modules[c->pack.head->calls_module], names[i]) != 0) {
      *into[i] = NULL;
      return EPCOMM_OK;
    }
    DrvResult r = ready(c->driver, *into[i], 0, &threads);
    if (r != 0) return comm_driver_error(c, r, names[i]);
  }
  return EPCOMM_OK;
}

EpcommStatus load_kernels(EpComm *c) {
  const PackHeader *h = c->pack.head;
  int threads = 0;
  c->modules = calloc(pack_count(&c->pack, PACK_MODULES), sizeof *c->modules);
  c->ready = calloc((size_t)pack_count(&c->pack, PACK_LAUNCHES) + 1, sizeof *c->ready);
  if (c->modules == NULL || c->ready == NULL) return comm_say(c, EPCOMM_DRIVER, "no host memory for the kernels");
  EpcommStatus s = find(c, h->align_module, c->nodes > 1 ? "ep_align_hosts" : "ep_align", &c->align);
  if (s == EPCOMM_OK) s = find(c, h->align_module, c->nodes > 1 ? "ep_stamp_hosts" : "ep_stamp", &c->stamp);
  if (s == EPCOMM_OK) s = find(c, h->calls_module, c->nodes > 1 ? "ep_agree_hosts" : "ep_agree", &c->agree);
  int survivors = (h->flags & PACK_SURVIVORS) != 0;
  if (s == EPCOMM_OK && survivors) s = find(c, h->calls_module, "ep_living_ids", &c->living);
  if (s == EPCOMM_OK && survivors) s = find(c, h->calls_module, "ep_meet", &c->meet);
  DrvFunction around[] = {c->align, c->stamp, c->agree, c->living, c->meet};
  for (int i = 0; i < (survivors ? 5 : 3) && s == EPCOMM_OK; i++) {
    DrvResult r = ready(c->driver, around[i], 0, &threads);
    if (r != 0) s = comm_driver_error(c, r, "prepare a kernel");
  }
  if (s == EPCOMM_OK && c->nodes == 1) s = load_normal(c);
  for (uint32_t i = 0; i < pack_count(&c->pack, PACK_CONFIGS) && s == EPCOMM_OK; i++) {
    const PackConfig *config = &c->pack.configs[i];
    if (c->dtype_index[c->pack.dtypes[config->dtype].dtype] == (int)config->dtype) s = load_config(c, config);
  }
  return s;
}

void unload_kernels(EpComm *c) {
  for (uint32_t i = 0; c->modules != NULL && i < pack_count(&c->pack, PACK_MODULES); i++) {
    if (c->modules[i] == NULL) continue;
    if (c->pack.modules[i].flags & PACK_NETWORK) network_drop(c->modules[i]);
    c->driver->module_unload(c->modules[i]);
  }
  free(c->modules);
  free(c->ready);
  c->modules = NULL;
  c->ready = NULL;
}
