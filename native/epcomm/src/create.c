/* Creates and destroys EpComms. The ranks exchange data several times (see exchange). A rank that had an error still
 * takes part in the later exchanges, because the other ranks wait for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"

#define DEFAULT_DEADLINE_NS 10000000000ull

static EpcommStatus check_options(EpComm *c) {
  const EpcommOptions *o = &c->options;
  if ((o->pack == NULL) == (o->pack_data == NULL))
    return comm_say(c, EPCOMM_INVALID, "pack: give either a path or pack_data");
  if (o->in_flight < 1 || o->in_flight > EPCOMM_MAX_SLOTS)
    return comm_say(c, EPCOMM_INVALID, "in_flight: %d is outside 1 to %d", o->in_flight, EPCOMM_MAX_SLOTS);
  if (o->streams < 1 || o->streams > o->in_flight)
    return comm_say(c, EPCOMM_INVALID, "streams: %d is outside 1 to in_flight (%d); each stream needs a slot of its own", o->streams,
                    o->in_flight);
  if (o->routing < 0 || o->routing > EPCOMM_ALL_ROUTINGS)
    return comm_say(c, EPCOMM_INVALID, "routing: %d is not an EpcommRouting", o->routing);
  if (o->deadline_ns > UINT64_MAX / 4) return comm_say(c, EPCOMM_INVALID, "deadline_ns: more than 146 years; was a negative number passed?");
  if (o->deadline_ns < 1000000) return comm_say(c, EPCOMM_INVALID, "deadline_ns: less than 1 ms; ranks may begin the same call 1 ms apart");
  if (o->extra_bytes > (uint64_t)1 << 40) return comm_say(c, EPCOMM_INVALID, "extra_bytes: more than 1 TiB");
  if (o->nodes < 1 || o->ranks % o->nodes != 0)
    return comm_say(c, EPCOMM_INVALID, "nodes: %d ranks do not divide by %d nodes; every node must have the same number of ranks", o->ranks, o->nodes);
  if (o->device < 0) return comm_say(c, EPCOMM_INVALID, "device: %d is not a CUDA ordinal", o->device);
  return EPCOMM_OK;
}

static EpcommStatus check_nodes(EpComm *c) {
  int asked = c->options.nodes;
  c->nodes = (int)pack_nodes(&c->pack);
  if (c->nodes == asked) return EPCOMM_OK;
  if (c->nodes == 1) return comm_say(c, EPCOMM_PACK, "pack: it was made for one host, but nodes is %d; make a pack with --nodes %d", asked, asked);
  return comm_say(c, EPCOMM_PACK, "pack: it was made for %d nodes, but nodes is %d; create with nodes %d, or make a pack with --nodes %d", c->nodes,
                  asked, c->nodes, asked);
}

static EpcommStatus read_pack(EpComm *c) {
  const EpcommOptions *o = &c->options;
  int bad = o->pack != NULL ? pack_open(&c->pack, o->pack, c->text) : pack_read(&c->pack, o->pack_data, o->pack_bytes, c->text);
  if (bad) return EPCOMM_PACK;
  const PackHeader *h = c->pack.head;
  if ((int)h->ranks != o->ranks)
    return comm_say(c, EPCOMM_PACK, "pack: it was made for %u ranks, not %d", h->ranks, o->ranks);
  if (o->max_sms > 0 && (int)h->largest_grid > o->max_sms)
    return comm_say(c, EPCOMM_PACK, "pack: its calls take up to %u SMs, more than %d; make a pack with --max-sms %d", h->largest_grid,
                    o->max_sms, o->max_sms);
  if (pack_count(&c->pack, PACK_STATES) > COMM_STATES)
    return comm_say(c, EPCOMM_PACK, "pack: it has %u states, but this library takes at most %d",
                    pack_count(&c->pack, PACK_STATES), COMM_STATES);
  return check_nodes(c);
}

static EpcommStatus choose_dtypes(EpComm *c) {
  unsigned had = 0;
  for (int d = 0; d < 5; d++) c->dtype_index[d] = -1;
  for (uint32_t i = 0; i < pack_count(&c->pack, PACK_DTYPES); i++) {
    uint32_t d = c->pack.dtypes[i].dtype;
    had |= 1u << d;
    if (c->options.dtypes != 0 && !(c->options.dtypes & 1u << d)) continue;
    c->dtype_index[d] = (int)i;
    if (c->dtype_index[0] < 0) c->dtype_index[0] = (int)i;
  }
  if (c->dtype_index[0] < 0 || (c->options.dtypes & ~had & ~1u))
    return comm_say(c, EPCOMM_PACK, "dtypes: the pack lacks one of the given dtypes; make a pack with --dtype");
  int reduced = c->options.reduced && (c->pack.head->flags & PACK_REDUCED);
  for (uint32_t i = 0; i < pack_count(&c->pack, PACK_LOOKUPS); i++) {
    const PackLookup *l = &c->pack.lookups[i];
    if ((int)l->reduced == reduced) c->lookups[l->dtype][l->purpose][l->routing] = l;
  }
  for (uint32_t d = 0; d < pack_count(&c->pack, PACK_DTYPES); d++)
    for (int routing = 0; routing < PACK_CLASSES; routing++)
      if (c->lookups[d][EPCOMM_FOR_HALVES][routing] == NULL) c->lookups[d][EPCOMM_FOR_HALVES][routing] = c->lookups[d][EPCOMM_FOR_PAIR][routing];
  return EPCOMM_OK;
}

static EpcommStatus open_device(EpComm *c) {
  const PackHeader *h = c->pack.head;
  int count = 0, major = 0, minor = 0;
  c->driver = driver_open(c->text);
  if (c->driver == NULL) return EPCOMM_DRIVER;
  const Driver *d = c->driver;
  DrvResult r = d->device_count(&count);
  if (r == 0 && c->options.device >= count)
    return comm_say(c, EPCOMM_MACHINE, "device: %d, the driver sees %d GPUs; check CUDA_VISIBLE_DEVICES", c->options.device, count);
  if (r == 0) r = d->device_get(&c->device, c->options.device);
  if (r == 0) r = d->device_attribute(&major, DRV_MAJOR, c->device);
  if (r == 0) r = d->device_attribute(&minor, DRV_MINOR, c->device);
  if (r == 0) r = d->device_attribute(&c->sms, DRV_SMS, c->device);
  if (r != 0) return comm_driver_error(c, r, "read the device's attributes");
  int exact = (h->flags & PACK_EXACT) != 0;
  if (major != (int)h->major || (exact ? minor != (int)h->minor : minor < (int)h->minor))
    return comm_say(c, EPCOMM_MACHINE, "arch: the pack is for %s, but GPU %d has compute capability %d.%d; make a pack for this machine",
                    h->arch, c->options.device, major, minor);
  if ((int)h->largest_grid > c->sms)
    return comm_say(c, EPCOMM_MACHINE, "SMs: the pack's calls take up to %u, but GPU %d has %d; make a pack with --max-sms %d",
                    h->largest_grid, c->options.device, c->sms, c->sms);
  r = d->context_retain(&c->context, c->device);
  if (r == 0) r = d->context_set(c->context);
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "primary context");
}

/* Values that must be the same on all ranks. */
typedef struct Terms {
  uint8_t digest[32], abi[32];
  int32_t ranks, in_flight, reduced, debug, own_outputs;
  uint32_t dtypes, routing;
  uint64_t extra_bytes;
  int32_t survivors;
  uint32_t alive; /* ranks that call epcomm_create or epcomm_grow */
} Terms;

typedef struct Offer {
  Terms terms;
  int32_t plain, pad; /* EpComm.plain, which may differ */
} Offer;

EpcommStatus comm_agree(EpComm *c, EpcommStatus status) {
  Terms mine;
  Offer offer, all[EPCOMM_MAX_RANKS];
  const EpcommOptions *o = &c->options;
  memset(&mine, 0, sizeof mine);
  memset(&offer, 0, sizeof offer);
  memset(all, 0, sizeof all);
  if (status == EPCOMM_OK) {
    memcpy(mine.digest, c->pack.head->digest, 32);
    memcpy(mine.abi, c->pack.head->abi, 32);
  }
  mine.ranks = o->ranks;
  mine.in_flight = o->in_flight;
  mine.reduced = o->reduced;
  mine.debug = o->debug;
  mine.own_outputs = o->own_outputs != 0; /* changes offsets at which peers write */
  mine.dtypes = o->dtypes;
  mine.routing = (uint32_t)o->routing;
  mine.extra_bytes = o->extra_bytes;
  mine.survivors = o->survivors;
  mine.alive = (uint32_t)c->gathers;
  offer.terms = mine;
  offer.plain = c->plain;
  status = exchange(c, STEP_CREATE, status, &offer, all, sizeof offer);
  for (int r = 0; r < o->ranks && status == EPCOMM_OK; r++) {
    const Terms *theirs = &all[r].terms;
    if (!(c->gathers >> r & 1)) continue;
    c->plain |= all[r].plain; /* a new rank shares its heap as the running ranks do */
    if (memcmp(theirs->abi, mine.abi, 32) != 0)
      status = comm_say(c, EPCOMM_DISAGREE, "the packs of ranks %d and %d have different kernels; give all ranks the same file", r, o->rank);
    else if (memcmp(theirs->digest, mine.digest, 32) != 0)
      status = comm_say(c, EPCOMM_DISAGREE, "ranks %d and %d have different packs; give all ranks the same file", r, o->rank);
    else if (theirs->alive != mine.alive)
      status = comm_say(c, EPCOMM_DISAGREE, "rank %d passed the set of ranks 0x%x, but rank %d passed 0x%x; all ranks must pass one set, in options.joins or "
                        "to epcomm_grow", r, theirs->alive, o->rank, mine.alive);
    else if (memcmp(theirs, &mine, sizeof mine) != 0)
      status = comm_say(c, EPCOMM_DISAGREE, "rank %d has other options than rank %d: ranks, in_flight, reduced, debug, own_outputs, "
                        "dtypes, routing, extra_bytes and survivors must be the same", r, o->rank);
  }
  return status;
}

EpcommStatus comm_no_room(EpComm *c, uint64_t free_bytes) {
  return comm_say(c, EPCOMM_MACHINE, "memory: the heap takes %.2f GiB with %d calls in flight, but GPU %d has %.2f GiB free; make a pack "
                  "with fewer --max-tokens, or lower in_flight", (double)c->at.bytes / (1 << 30), c->options.in_flight, c->options.device,
                  (double)free_bytes / (1 << 30));
}

static DrvResult take_mapped(EpComm *c, size_t bytes, void **host, DrvPointer *device) {
  DrvResult r = c->driver->host_alloc(host, bytes, DRV_HOST_PORTABLE | DRV_HOST_MAPPED);
  if (r != 0) {
    *host = NULL;
    return r;
  }
  memset(*host, 0, bytes);
  return c->driver->host_pointer(device, *host, 0);
}

static EpcommStatus take_records(EpComm *c) {
  const Driver *d = c->driver;
  void *fault = NULL, *told = NULL, *lost = NULL;
  DrvResult r = take_mapped(c, sizeof(EpFault), &fault, &c->fault_device);
  c->fault = fault;
  if (r == 0) r = take_mapped(c, 4 * (EP_TOLD_ROWS + c->pack.head->experts), &told, &c->told_device);
  c->told = told;
  if (r == 0 && (c->pack.head->flags & PACK_SURVIVORS)) r = take_mapped(c, sizeof(EpLost), &lost, &c->lost_device);
  c->lost = lost;
  for (int i = 0; i < 2 * c->options.in_flight && r == 0; i++)
    r = d->event_create(&c->slots[i / 2].done[i % 2], DRV_EVENT_NO_TIMING);
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "memory");
}

static EpcommStatus take_memory(EpComm *c) {
  heap_layout(c);
  EpcommStatus s = take_records(c);
  if (c->nodes > 1) s = network_take(c, s);
  else if (s == EPCOMM_OK) s = share_take(c);
  return s == EPCOMM_OK ? heap_fill(c) : s;
}

static EpcommStatus build(EpComm *c) {
  EpcommStatus s = check_options(c);
  if (s == EPCOMM_OK) s = read_pack(c);
  if (s == EPCOMM_OK) s = survive_check(c);
  if (s == EPCOMM_OK) s = choose_dtypes(c);
  if (s == EPCOMM_OK) s = open_device(c);
  if (s == EPCOMM_OK && c->nodes > 1) s = network_open(c);
  s = comm_agree(c, s);
  if (s == EPCOMM_OK && c->nodes > 1) s = network_join(c);
  if (s == EPCOMM_OK) {
    s = take_memory(c);
    if (s == EPCOMM_OK) s = load_kernels(c);
    s = c->nodes > 1 ? exchange(c, STEP_CREATE, s, NULL, NULL, 0) : share_heaps(c, s, c->options.joins != 0);
    if (s == EPCOMM_OK) s = survive_begin(c);
    if (s == EPCOMM_OK) call_prepare(c);
    s = exchange(c, STEP_CREATE, s, NULL, NULL, 0);
  } else if (c->options.joins != 0 && s != EPCOMM_GATHER) {
    s = share_heaps(c, s, 1);
    s = exchange(c, STEP_CREATE, s, NULL, NULL, 0);
  }
  return s;
}

/* Checks that this rank's GPU works. If a GPU is lost, no rank may call NVSHMEM's free, which waits for all GPUs. */
static EpcommStatus check_alive(EpComm *c) {
  DrvResult r = c->context != NULL ? c->driver->context_wait() : 0;
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "wait for the device");
}

/* Frees the rank's memory. The other ranks must no longer use its heap. */
static void take_down(EpComm *c, int meet) {
  const Driver *d = c->driver;
  if (d != NULL && c->context != NULL) d->context_set(c->context);
  share_close(c, ~(uint64_t)0);
  int met = meet && exchange(c, STEP_FREE, check_alive(c), NULL, NULL, 0) == EPCOMM_OK;
  for (int i = 0; i < 2 * EPCOMM_MAX_SLOTS; i++)
    if (c->slots[i / 2].done[i % 2] != NULL) d->event_destroy(c->slots[i / 2].done[i % 2]);
  if (c->pack.data != NULL) unload_kernels(c);
  if (c->fault != NULL) d->host_free((void *)(uintptr_t)c->fault);
  if (c->told != NULL) d->host_free((void *)(uintptr_t)c->told);
  if (c->lost != NULL) d->host_free((void *)(uintptr_t)c->lost);
  if (c->nodes > 1) met ? network_give(c) : network_abandon(c);
  else if (d != NULL) share_give(c);
  pack_free(&c->pack);
}

static void finish(EpComm *c, DrvContext before) {
  if (c->driver != NULL && c->context != NULL) {
    c->driver->context_set(before);
    c->driver->context_release(c->device);
  }
  free(c);
}

static void set_defaults(EpcommOptions *o) {
  if (o->deadline_ns == 0) o->deadline_ns = DEFAULT_DEADLINE_NS;
  if (o->in_flight == 0) o->in_flight = 1;
  if (o->streams == 0) o->streams = 1;
  if (o->nodes == 0) o->nodes = 1;
}

EpcommStatus epcomm_create(EpComm **comm, const EpcommOptions *options, char *text) {
  DrvContext before = NULL;
  char none[EPCOMM_TEXT];
  EpcommOptions o;
  if (text == NULL) text = none;
  *comm = NULL;
  text[0] = 0;
  if (comm_take(&o, sizeof o, offsetof(EpcommOptions, deadline_ns), options) != 0 || o.ranks < 1 || o.ranks > EPCOMM_MAX_RANKS ||
      o.rank < 0 || o.rank >= o.ranks || (o.ranks > 1 && o.all_gather == NULL)) {
    snprintf(text, EPCOMM_TEXT, "options: set size, rank, ranks (1 to %d) and all_gather; a member that this library does not know must be 0",
             EPCOMM_MAX_RANKS);
    return EPCOMM_INVALID;
  }
  EpComm *c = calloc(1, sizeof *c);
  if (c == NULL) {
    snprintf(text, EPCOMM_TEXT, "no host memory");
    return EPCOMM_DRIVER;
  }
  set_defaults(&o);
  c->options = o;
  comm_forget_calls(c);
  c->alive = c->gathers = o.joins != 0 ? o.joins : survive_everyone(c);
  char ignored[EPCOMM_TEXT];
  const Driver *d = driver_open(ignored);
  if (d != NULL) d->context_get(&before);
  EpcommStatus s = build(c);
  c->options.pack = NULL;
  c->options.pack_data = NULL;
  c->options.nvshmem = NULL;
  if (s == EPCOMM_OK) {
    if (d != NULL) d->context_set(before);
    *comm = c;
    return EPCOMM_OK;
  }
  snprintf(text, EPCOMM_TEXT, "%s", c->text);
  /* If one rank fails, the exchanges tell all ranks. So all ranks come here and can free their memory together. */
  take_down(c, c->options.ranks > 1 && s != EPCOMM_GATHER && c->options.joins == 0);
  finish(c, before);
  return s;
}

static EpcommStatus end(EpComm *c, int meet) {
  DrvContext before = NULL;
  if (c == NULL) return EPCOMM_OK;
  c->driver->context_get(&before);
  c->driver->context_set(c->context);
  EpcommStatus s = check_alive(c);
  const int alone = survive_lost(c); /* all_gather would need the lost ranks */
  if (meet && alone && s == EPCOMM_OK) s = survive_part(c);
  if (meet && !alone) s = exchange(c, STEP_DESTROY, s, NULL, NULL, 0);
  take_down(c, meet && !alone && s == EPCOMM_OK);
  finish(c, before);
  return s;
}

EpcommStatus epcomm_destroy(EpComm *c) { return end(c, 1); }

void epcomm_abandon(EpComm *c) { end(c, 0); }
