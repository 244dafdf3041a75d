/* Launches the kernels of DeepEP's normal calls, except dispatch and combine. */
#include <string.h>

#include "comm.h"
#include "epcomm_deepep.h"

EpcommStatus comm_check_size(EpComm *c, size_t size, size_t want, const char *name) {
  return size == want ? EPCOMM_OK : comm_say(c, EPCOMM_INVALID, "%s: its member \"size\" must hold the size of the struct", name);
}

static EpcommStatus check_known(EpComm *c, const char *what) {
  /* Old packs lack some kernels. load.c looks the kernels up in order, and stops at the first missing one. Of the
   * kernels that this file launches, give_back is the last in that order. */
  if (c->give_back != NULL) return EPCOMM_OK;
  return comm_say(c, EPCOMM_PACK, "%s: the pack is too old for this call; make the pack again", what);
}

static EpcommStatus check_packed(EpComm *c, const char *what) {
  EpcommStatus s = check_known(c, what);
  if (s != EPCOMM_OK) return s;
  if (c->pack.head->layout != PACK_RANK_PACKED)
    return comm_say(c, EPCOMM_INVALID, "%s: the pack is of another layout than rank:packed", what);
  return EPCOMM_OK;
}

/* Checks that no rank is lost: these kernels wait for all ranks. */
static EpcommStatus check_whole(EpComm *c, const char *what) {
  EpcommStatus s = check_packed(c, what);
  if (s != EPCOMM_OK || !survive_lost(c)) return s;
  return comm_say(c, EPCOMM_INVALID, "%s: it needs every rank, but only the set 0x%llx is alive; use only epcomm_dispatch and epcomm_combine, or "
                  "call epcomm_grow", what, (unsigned long long)c->alive);
}

static void meeting(const EpComm *c, EpMeeting *m) {
  const PackHeader *h = c->pack.head;
  for (int r = 0; r < c->options.ranks; r++) m->heap[r] = c->base.heap[r];
  m->at = c->at.normal;
  m->fault = c->base.fault;
  m->given_up = c->base.given_up;
  m->counters = c->base.counters;
  m->deadline_ns = c->base.deadline_ns;
  m->rank = c->options.rank;
  m->ranks = c->options.ranks;
  m->local_experts = (int32_t)(h->experts / h->ranks);
  m->topk = (int32_t)h->topk;
  m->max_tokens = (int32_t)h->max_tokens;
}

static uint32_t blocks_for(int64_t elements, uint32_t most) {
  int64_t blocks = (elements + 1023) / 1024;
  return blocks < 1 ? 1 : blocks > most ? most : (uint32_t)blocks;
}

EpcommStatus epcomm_layout(EpComm *c, const EpcommLayoutOf *call, EpcommStream stream) {
  EpcommStatus s = comm_check_size(c, call->size, sizeof *call, "layout");
  if (s == EPCOMM_OK) s = check_known(c, "layout");
  if (s != EPCOMM_OK) return s;
  if (call->ranks < 1 || call->experts < call->ranks || call->experts % call->ranks != 0 || call->tokens < 0 || call->topk < 1)
    return comm_say(c, EPCOMM_INVALID, "layout: %d tokens, top-k %d, %d experts, %d ranks: experts must be a multiple of ranks, topk at least 1", call->tokens,
                    call->topk, call->experts, call->ranks);
  WITH_ROOM(EpLayoutArgs);
  a.of.ids = call->topk_ids;
  a.of.ids_bits = call->ids_bits == 64 ? 64 : 32;
  a.of.per_rank = call->per_rank;
  a.of.per_expert = call->per_expert;
  a.of.in_rank = call->in_rank;
  a.of.tokens = call->tokens;
  a.of.topk = call->topk;
  a.of.experts = call->experts;
  a.of.ranks = call->ranks;
  uint32_t grid = (uint32_t)(call->ranks + (call->experts + 31) / 32);
  return comm_launch(c, c->layout, grid, call->tokens <= 256 ? 256 : 1024, 1, &a, "layout", stream);
}

EpcommStatus epcomm_announce(EpComm *c, const EpcommAnnounce *call, EpcommStream stream) {
  EpcommStatus s = comm_check_size(c, call->size, sizeof *call, "announce");
  if (s == EPCOMM_OK) s = check_whole(c, "announce");
  if (s != EPCOMM_OK) return s;
  const PackHeader *h = c->pack.head;
  if (call->tokens < 0 || call->tokens > (int)h->max_tokens)
    return comm_say(c, EPCOMM_INVALID, "tokens: %d is outside 0 to %u, the pack's max_tokens", call->tokens, h->max_tokens);
  if (call->topk < 0 || call->topk > (int)h->topk)
    return comm_say(c, EPCOMM_INVALID, "topk: %d is more than the pack's %u", call->topk, h->topk);
  WITH_ROOM(EpAnnounceArgs);
  meeting(c, &a.of.meeting);
  a.of.per_rank = call->per_rank;
  a.of.per_expert = call->per_expert;
  a.of.before = call->before;
  a.of.told = (uint32_t *)(uintptr_t)c->told_device;
  a.of.ids = call->topk_ids;
  a.of.in_rank = call->in_rank;
  a.of.weights = call->weights;
  a.of.narrow = call->ids;
  a.of.padded = call->weights != NULL ? call->padded : NULL;
  a.of.ids_bits = call->ids_bits == 64 ? 64 : 32;
  a.of.given = call->topk;
  a.of.tokens = call->tokens;
  a.of.align = call->align > 0 ? call->align : 1;
  a.of.worst = call->worst;
  if (call->worst == 0) {
    c->ticket = c->ticket == UINT32_MAX ? 1 : c->ticket + 1;
    a.of.ticket = c->ticket;
  }
  int converts = a.of.narrow != NULL || a.of.padded != NULL;
  uint32_t grid = 1 + (converts ? blocks_for((int64_t)call->tokens * h->topk, 15) : 0);
  return comm_launch(c, c->announce, grid, 512, 1, &a, "announce", stream);
}

EpcommStatus epcomm_told(EpComm *c, EpcommTold *out) {
  EpcommStatus s = comm_check_size(c, out->size, sizeof *out, "told");
  if (s != EPCOMM_OK) return s;
  out->ready = __atomic_load_n(c->told, __ATOMIC_ACQUIRE) == c->ticket;
  out->rows = (int)c->told[1];
  out->fullest = (int)c->told[2];
  out->per_expert = (const uint32_t *)(uintptr_t)c->told + EP_TOLD_ROWS;
  EpcommFault fault = {.size = sizeof fault};
  return out->ready || !fault_is_set(c) ? EPCOMM_OK : epcomm_fault(c, &fault);
}

EpcommStatus epcomm_add_counts(EpComm *c, const uint32_t *counts, int32_t *to, int n, EpcommStream stream) {
  EpcommStatus s = check_known(c, "add_counts");
  if (s != EPCOMM_OK) return s;
  WITH_ROOM(EpAddArgs);
  a.of.counts = counts;
  a.of.to = to;
  a.of.n = n;
  return comm_launch(c, c->add_counts, 1, 256, 1, &a, "add_counts", stream);
}

EpcommStatus epcomm_received(EpComm *c, const EpcommReceived *call, EpcommStream stream) {
  EpcommStatus s = comm_check_size(c, call->size, sizeof *call, "received");
  if (s == EPCOMM_OK) s = check_packed(c, "received");
  if (s != EPCOMM_OK || call->rows == 0) return s;
  WITH_ROOM(EpReceivedArgs);
  a.of.experts = call->expert_ids;
  a.of.weights = (const uint32_t *)(const void *)call->weights;
  a.of.src_info = call->src_info;
  a.of.row_offsets = call->row_offsets;
  a.of.ids = call->ids;
  a.of.cut = call->cut;
  a.of.tokens = call->tokens;
  a.of.rows = call->rows;
  a.of.topk = (int32_t)c->pack.head->topk;
  a.of.given = call->topk;
  a.of.ranks = c->options.ranks;
  return comm_launch(c, c->received, blocks_for((int64_t)call->rows * (call->topk > 0 ? call->topk : 1), 16), 512, 1, &a, "received", stream);
}

EpcommStatus epcomm_return_weights(EpComm *c, const EpcommReturn *call, EpcommStream stream) {
  EpcommStatus s = comm_check_size(c, call->size, sizeof *call, "return_weights");
  if (s == EPCOMM_OK) s = check_whole(c, "return_weights");
  if (s != EPCOMM_OK) return s;
  if (call->topk < 1 || call->topk > (int)c->pack.head->topk)
    return comm_say(c, EPCOMM_INVALID, "topk: %d is outside 1 to %u, the pack's top-k", call->topk, c->pack.head->topk);
  WITH_ROOM(EpReturnArgs);
  meeting(c, &a.of.meeting);
  a.of.weights = call->weights;
  a.of.src_info = call->src_info;
  a.of.row_offsets = call->row_offsets;
  a.of.ids = call->ids;
  a.of.out = call->out;
  a.of.tokens = call->tokens;
  a.of.given = call->topk;
  a.of.max_rows = (int32_t)c->pack.dtypes[0].max_rows;
  return comm_launch(c, c->give_back, EP_NORMAL_BLOCKS, 512, 1, &a, "return_weights", stream);
}
