/* Launches the kernels of dispatch and combine. These functions allocate nothing, never wait, and take no lock. The
 * device numbers the calls (ep_number in common/check.cuh), so a captured call can be replayed any number of times. */
#include <string.h>

#include "choice.h"

enum { ALL_OF_IT, FIRST_HALF, SECOND_HALF };

void call_prepare(EpComm *c) {
  EpArgs *a = &c->base;
  const PackHeader *h = c->pack.head;
  memset(a, 0, sizeof *a);
  a->rank = c->options.rank;
  a->ranks = c->options.ranks;
  a->max_tokens = (int32_t)h->max_tokens;
  a->deadline_ns = c->options.deadline_ns;
  a->fault = (EpFault *)(uintptr_t)c->fault_device;
  if (h->flags & PACK_SURVIVORS) a->peers = ((EpSurvival *)(void *)(comm_heap(c) + c->at.survival))->peers;
  a->given_up = (uint32_t *)(void *)(comm_heap(c) + c->at.abort);
  a->skip_a2a = (h->flags & PACK_SKIP) != 0;
  a->allreduce_size = a->skip_a2a ? a->ranks : 1;
  for (int r = 0; r < a->ranks && c->nodes == 1; r++) {
    a->heap[r] = (uint8_t *)(uintptr_t)c->heap[r];
    a->control[r] = (EpControl *)(void *)(a->heap[r] + c->at.control);
  }
  if (c->nodes > 1) {
    a->heap[0] = comm_heap(c);
    a->heap[1] = comm_heap(c) + c->at.world;
    a->control[0] = (EpControl *)(void *)(comm_heap(c) + c->at.control);
  }
  /* Kernels without a state have one counter, their abort word. */
  a->counters = (int32_t *)(void *)(comm_heap(c) + c->at.abort + 4);
}

void comm_forget_calls(EpComm *c) {
  for (int i = 0; i < EPCOMM_MAX_SLOTS; i++) c->slots[i].plan = c->slots[i].begun[DISPATCH] = c->slots[i].begun[COMBINE] = -1;
}

uint8_t *comm_heap(const EpComm *c) { return (uint8_t *)(uintptr_t)c->heap[c->options.rank]; }

/* Returns whether kernels read a copy of the call's ids. The copy has 32 bits for each id, and no ids of lost ranks.
 * Each call of a pack for survivors makes its own copy, because a later dispatch may overwrite that of its dispatch. */
static int other_ids(const EpComm *c) { return (c->pack.head->flags & PACK_SURVIVORS) != 0; }

static const int32_t *ids_of(const EpComm *c, const EpcommCall *call, const Choice *k) {
  return other_ids(c) ? (const int32_t *)comm_on_heap(c, k->at->ids[k->op]) : (const int32_t *)call->topk_ids;
}

static void place_outputs(const EpComm *c, const EpcommCall *call, const Choice *k, EpArgs *a) {
  const SlotAt *at = k->at;
  int own = call->out != NULL;
  a->out = own ? call->out : comm_on_heap(c, at->out);
  a->out_scales = own ? call->out_scales : comm_on_heap(c, at->out_scales);
  a->row_offsets = own ? call->row_offsets : comm_on_heap(c, at->row_offsets);
  a->expert_ids = own ? call->expert_ids : comm_on_heap(c, at->expert_ids);
  a->src_info = own ? call->src_info : comm_on_heap(c, at->src_info);
  a->scale_offsets = own ? call->scale_offsets : comm_on_heap(c, at->scale_offsets);
  a->max_rows = (int64_t)k->dtype->max_rows;
}

/* Returns an area of 4-byte words. An EpArea has at most 16 GiB. */
static EpArea area(const void *at, uint64_t bytes, uint32_t fill) {
  uint64_t words = at == NULL ? 0 : bytes / 4 < UINT32_MAX - 255 ? bytes / 4 : UINT32_MAX - 255;
  EpArea a = {(uint32_t *)(uintptr_t)at, (uint32_t)words, fill};
  return a;
}

/* Lists the outputs that a call overwrites if it gives up a wait. Rows become NaN, and row_offsets becomes 0. In layout
 * rank packed, if the caller gives outputs but not call->rows, their size is not known, and only row_offsets is
 * listed. */
static void place_spoil(const EpComm *c, const EpcommCall *call, const Choice *k, EpArgs *a) {
  const PackHeader *h = c->pack.head;
  const PackDType *d = k->dtype;
  const uint32_t nan = 0xffffffffu;
  PackIndex index = pack_index(h, d);
  uint64_t rows = call->rows != 0 && call->rows < d->max_rows ? call->rows : d->max_rows;
  int by_rank = pack_by_rank(h), few = rows < d->max_rows;
  if (k->op == COMBINE) {
    a->spoil[0] = area(call->combined, 2 * (uint64_t)call->tokens * h->hidden, nan);
    return;
  }
  a->spoil[0] = area(a->row_offsets, 4 * ((uint64_t)h->groups + 1), 0);
  if (call->out != NULL && h->layout == PACK_RANK_PACKED && call->rows == 0) return;
  a->spoil[1] = area(a->out, few ? rows * d->row_bytes : d->out_bytes, nan);
  a->spoil[2] = area(a->out_scales, few ? rows * d->scales * d->scale_size : d->scale_bytes, nan);
  a->spoil[3] = area(a->expert_ids, by_rank ? (call->row_tokens != NULL ? 8 : 4) * rows * h->topk : index.expert_ids, by_rank ? nan : 0);
  a->spoil[4] = area(a->scale_offsets, by_rank ? 4 * rows * h->topk : d->dtype == EPCOMM_NVFP4 ? index.scale_offsets : 0, by_rank ? nan : 0);
}

static void fill_in(const EpComm *c, const EpcommCall *call, const Choice *k, const PackConfig *config, EpArgs *a) {
  const StateAt *s = &k->at->states[config->state];
  *a = c->base;
  a->tokens = call->tokens;
  a->x = call->x;
  a->topk_ids = ids_of(c, call, k);
  a->ids_wide = call->ids_bits == 64 && !other_ids(c);
  a->row_tokens = call->row_tokens;
  a->weights = call->weights;
  a->input_scales = call->input_scale;
  memcpy(a->region, s->region, sizeof a->region);
  place_outputs(c, call, k, a);
  a->y = call->y;
  a->combined = call->combined;
  a->bias = call->bias;
  a->epilogue_scale = call->epilogue_scale;
  a->counters = comm_on_heap(c, s->counters);
  a->round = 1;
  a->round_base = comm_on_heap(c, s->rounds[k->op]);
  place_spoil(c, call, k, a);
}

static DrvResult launch(const EpComm *c, DrvFunction f, uint32_t grid, uint32_t block, uint32_t shared, int early, void *args,
                        DrvStream stream) {
  DrvAttribute attribute;
  DrvLaunch l = {{grid, 1, 1}, {block, 1, 1}, shared, stream, &attribute, 0};
  void *parameters[1] = {args};
  if (early) {
    memset(&attribute, 0, sizeof attribute);
    attribute.id = DRV_ATTRIBUTE_EARLY;
    attribute.value.early = 1;
    l.count = 1;
  }
  return c->driver->launch(&l, f, parameters, NULL);
}

static DrvResult launch_ready(const EpComm *c, const Ready *r, EpArgs *a, int last, int early, DrvStream stream) {
  const PackLaunch *l = r->launch;
  a->sms = l->sms;
  a->wait_sms = l->wait_sms;
  a->count_sms = l->count_sms;
  a->tile_tokens = l->tile_tokens;
  a->chunk_bytes = l->chunk_bytes;
  a->rotate = l->first_own;
  a->pause_ns = l->second_own;
  a->stamp = last;
  return launch(c, r->function, l->grid, l->block, l->shared, early && (l->flags & PACK_PDL), a, stream);
}

static DrvResult copy_ids(const EpComm *c, const EpcommCall *call, const Choice *k, const EpArgs *of, DrvStream stream) {
  union {
    EpIdsArgs ids;
    EpArgs room; /* a launch on the emulated driver copies sizeof(EpArgs) bytes */
  } a;
  memset(&a, 0, sizeof a);
  if (call->ids_bits == 64) a.ids.wide = call->topk_ids;
  else a.ids.ids = call->topk_ids;
  a.ids.copy = comm_on_heap(c, k->at->ids[k->op]);
  a.ids.count = (int64_t)call->tokens * c->pack.head->topk;
  a.ids.experts = (int32_t)c->pack.head->experts;
  a.ids.refused = c->options.debug != 0;
  a.ids.peers = of->peers;
  if (k->op == DISPATCH) a.ids.lost = (EpLost *)(uintptr_t)c->lost_device; /* not for a combine: it would count the
                                                                              same ids again */
  a.ids.fault = of->fault;
  a.ids.counters = of->counters;
  a.ids.given_up = of->given_up;
  a.ids.rank = of->rank;
  a.ids.local_experts = (int32_t)(c->pack.head->experts / c->pack.head->ranks);
  a.ids.lost_refused = c->options.survivors == EPCOMM_REFUSE;
  uint32_t grid = (uint32_t)((a.ids.count + 1023) / 1024);
  return grid == 0 ? 0 : launch(c, c->living, grid < 64 ? grid : 64, 256, 0, 0, &a, stream);
}

static DrvResult compare(const EpComm *c, const EpcommCall *call, const Choice *k, const EpArgs *like, DrvStream stream) {
  EpArgs a = c->base;
  a.counters = like->counters; /* with the call's abort word: if ranks disagree, the call's kernels stop waiting too */
  a.region[0] = k->at->agree;
  a.about = (k->fullest - 1) << 12 | k->plan << 1 | (uint32_t)k->op;
  a.topk_ids = like->topk_ids;
  a.ids_wide = like->ids_wide;
  a.ids = call->tokens * (int32_t)c->pack.head->topk;
  a.experts = (int32_t)c->pack.head->experts;
  a.distinct = pack_by_rank(c->pack.head) ? 0 : (int32_t)c->pack.head->topk; /* 0: a token may name an expert twice */
  return launch(c, c->agree, 1, 32, 0, 0, &a, stream);
}

static DrvResult begin(EpComm *c, const EpcommCall *call, const Choice *k, EpArgs *a, DrvStream stream) {
  DrvResult r = 0;
  if (other_ids(c)) r = copy_ids(c, call, k, a, stream);
  if (r == 0 && c->options.debug) r = compare(c, call, k, a, stream);
  return r;
}

/* Writes the driver's id of a stream to *id, because a new stream may get the handle of a destroyed one. For a stream
 * that captures, the driver has no id, and *id becomes the handle. */
static DrvResult identify(const EpComm *c, DrvStream stream, uint64_t *id) {
  int status = 0;
  DrvResult r = 0;
  *id = (uint64_t)(uintptr_t)stream;
  if (c->options.ordered) return r;
  r = c->driver->stream_capturing(stream, &status);
  return r == 0 && status == 0 ? c->driver->stream_id(stream, id) : r;
}

/* Launches the kernels of a call, or of its first or second half. If one kernel sends and receives, the second
 * half only waits for that kernel. */
static DrvResult issue(EpComm *c, const EpcommCall *call, const Choice *k, int half, DrvStream stream) {
  int op = k->op;
  const PackPlan *plan = &c->pack.plans[k->plan];
  const PackConfig *config = &c->pack.configs[op == DISPATCH ? plan->dispatch : plan->combine];
  const Ready *ready = &c->ready[config->first_launch];
  Slot *slot = &c->slots[call->slot];
  int n = (int)config->launches, from = 0, to = n, early = 1;
  EpArgs a;
  uint64_t id = 0;
  DrvResult r = half == ALL_OF_IT ? 0 : identify(c, stream, &id);
  fill_in(c, call, k, config, &a);
  if (r == 0 && half != SECOND_HALF) r = begin(c, call, k, &a, stream);
  if (half == FIRST_HALF) to = 1;
  if (half == SECOND_HALF) from = 1;
  if (r == 0 && half == SECOND_HALF && slot->sent[op] != id) {
    if (!c->options.ordered) r = c->driver->stream_wait(stream, slot->done[op], 0);
    early = 0;
  }
  for (int i = from; i < to && r == 0; i++) r = launch_ready(c, &ready[i], &a, i == n - 1, early, stream);
  if (half == FIRST_HALF && r == 0) {
    if (!c->options.ordered) r = c->driver->event_record(slot->done[op], stream);
    slot->sent[op] = id;
    slot->begun[op] = (int)k->plan;
  }
  if (half == SECOND_HALF && r == 0) slot->begun[op] = -1;
  return r;
}

/* Checks that a recv has the plan (choice of kernels) of its send. The kernels of another plan could wait forever. */
static EpcommStatus check_begun(EpComm *c, const EpcommCall *call, int begun, int plan) {
  if (begun < 0) return comm_say(c, EPCOMM_INVALID, "slot %d: recv without a send of the same op before it", call->slot);
  if (begun == plan) return EPCOMM_OK;
  return comm_say(c, EPCOMM_INVALID, "slot %d: the send took plan %d, but this recv takes plan %d; pass the same dtype, fullest, routing, "
                  "purpose and outputs", call->slot, begun, plan);
}

static EpcommStatus check_order(EpComm *c, const EpcommCall *call, const Choice *k, int half) {
  Slot *slot = &c->slots[call->slot];
  if (k->op == DISPATCH && half != SECOND_HALF) slot->plan = (int)k->plan;
  if (slot->plan != (int)k->plan && !pack_any_order(c->pack.head))
    return comm_say(c, EPCOMM_INVALID, "slot %d: the dispatch before took plan %d, but this call takes plan %d; pass the same dtype, fullest, "
                    "routing, purpose and outputs", call->slot, slot->plan, (int)k->plan);
  return half == SECOND_HALF ? check_begun(c, call, slot->begun[k->op], (int)k->plan) : EPCOMM_OK;
}

/* Launches a call, even after a fault. After a fault the kernels write NaN to the outputs. */
static EpcommStatus perform(EpComm *c, const EpcommCall *given, int op, int half, DrvStream stream) {
  Choice k;
  EpcommCall call;
  DrvContext before = NULL;
  int faulted = fault_is_set(c);
  EpcommStatus s = choice_take(c, given, &call);
  if (s == EPCOMM_OK) s = choice_of(c, &call, op, &k);
  if (s == EPCOMM_OK) s = choice_check(c, &call, &k);
  if (s == EPCOMM_OK) s = check_order(c, &call, &k, half);
  if (s != EPCOMM_OK) return faulted ? epcomm_fault(c, NULL) : s;
  DrvResult r = c->driver->context_get(&before);
  int foreign = before != c->context;
  if (r == 0 && foreign) r = c->driver->context_set(c->context);
  if (r == 0) r = issue(c, &call, &k, half, stream);
  if (foreign) c->driver->context_set(before);
  if (faulted) return epcomm_fault(c, NULL);
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, op == DISPATCH ? "dispatch" : "combine");
}

EpcommStatus epcomm_dispatch(EpComm *c, const EpcommCall *call, EpcommStream s) { return perform(c, call, DISPATCH, ALL_OF_IT, s); }
EpcommStatus epcomm_dispatch_send(EpComm *c, const EpcommCall *call, EpcommStream s) { return perform(c, call, DISPATCH, FIRST_HALF, s); }
EpcommStatus epcomm_dispatch_recv(EpComm *c, const EpcommCall *call, EpcommStream s) { return perform(c, call, DISPATCH, SECOND_HALF, s); }
EpcommStatus epcomm_combine(EpComm *c, const EpcommCall *call, EpcommStream s) { return perform(c, call, COMBINE, ALL_OF_IT, s); }
EpcommStatus epcomm_combine_send(EpComm *c, const EpcommCall *call, EpcommStream s) { return perform(c, call, COMBINE, FIRST_HALF, s); }
EpcommStatus epcomm_combine_recv(EpComm *c, const EpcommCall *call, EpcommStream s) { return perform(c, call, COMBINE, SECOND_HALF, s); }

EpcommStatus comm_launch(EpComm *c, DrvFunction f, uint32_t grid, uint32_t block, int early, void *args, const char *what,
                         DrvStream stream) {
  return fault_is_set(c) ? epcomm_fault(c, NULL) : comm_launch_now(c, f, grid, block, early, args, what, stream);
}

EpcommStatus comm_launch_now(EpComm *c, DrvFunction f, uint32_t grid, uint32_t block, int early, void *args, const char *what,
                             DrvStream stream) {
  DrvContext before = NULL;
  DrvResult r = c->driver->context_get(&before);
  int foreign = before != c->context;
  if (r == 0 && foreign) r = c->driver->context_set(c->context);
  if (r == 0) r = launch(c, f, grid, block, 0, early, args, stream);
  if (foreign) c->driver->context_set(before);
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, what);
}

EpcommStatus epcomm_barrier(EpComm *c, EpcommStream stream) {
  EpArgs a = c->base;
  return comm_launch(c, c->align, 1, 32, 0, &a, "barrier", stream);
}

EpcommStatus epcomm_stamp(EpComm *c, uint64_t *at, EpcommStream stream) {
  EpArgs a = c->base;
  if (at == NULL || (uintptr_t)at % sizeof *at != 0)
    return comm_say(c, EPCOMM_INVALID, "at: %p must be device memory and a multiple of 8", (void *)at);
  a.stamps = at; /* a.slot stays 0, so every replay writes the same word */
  return comm_launch(c, c->stamp, 1, 32, 0, &a, "stamp", stream);
}

EpcommStatus epcomm_explain(EpComm *c, const EpcommCall *given, EpcommExplanation *out) {
  Choice k;
  EpcommCall call;
  EpcommStatus s = choice_take(c, given, &call);
  if (s == EPCOMM_OK) s = choice_of(c, &call, DISPATCH, &k);
  if (s != EPCOMM_OK) return s;
  const PackPlan *plan = &c->pack.plans[k.plan];
  EpcommExplanation found = {
    .dispatch = pack_text(&c->pack, c->pack.configs[plan->dispatch].key),
    .combine = pack_text(&c->pack, c->pack.configs[plan->combine].key),
    .why = k.plan == k.run->plan ? pack_text(&c->pack, k.run->text)
                                 : "the kernels of this table row write into other ranks' outputs, which must lie on the heap; the given outputs do not",
    .first = (int)k.first,
    .last = (int)k.run->last,
    .plan = (int)k.plan,
  };
  comm_give(out, &found, sizeof found);
  return EPCOMM_OK;
}
