/* Tests call numbers that wrap around. */
#include <stdio.h>
#include <stdlib.h>

#include "any.h"
#include "comm.h"
#include "ranks.h"

enum { BASES = 3, FEW = 20 };

static const uint32_t bases[BASES] = {0x7fffffffu - 2, 0xfffffffcu - 3, 0xfffffffeu};

typedef struct Wrap {
  Member *member;
  const Plan *plan;
  GpuStream stream;
} Wrap;

void wrap_begin_at(EpComm *c, uint32_t base) {
  uint32_t *words = malloc(4 * PACK_ROUND_WORDS);
  for (int i = 0; i < PACK_ROUND_WORDS; i++) words[i] = base;
  for (uint32_t s = 0; s < pack_count(&c->pack, PACK_STATES); s++)
    for (int op = 0; op < 2; op++) {
      uint64_t at = c->at.slots[0].states[s].rounds[op];
      if (at != 0) c->driver->upload(c->heap[c->options.rank] + at, words, 4 * PACK_ROUND_WORDS);
    }
  c->driver->context_wait();
  free(words);
}

static int across(Moe *m, int fullest, void *context) {
  Wrap *w = context;
  int bad = 0;
  for (size_t b = 0; b < BASES; b++) {
    if (epcomm_reset(m->comm) != EPCOMM_OK) return ranks_say(m->comm, "reset", EPCOMM_FAULT);
    wrap_begin_at(m->comm, bases[b]);
    if (ranks_joint_result(w->member, 0)) return RANKS_SLOW;
    int calls = b == 1 || w->plan->calls < FEW ? w->plan->calls : FEW;
    for (int n = 0; n < calls && !bad; n++) bad = any_checked(m, (uint64_t)n, fullest, w->stream);
    if (bad) printf("rank %d: call numbers from %u on, %d tokens\n", m->info.rank, bases[b], fullest);
    if (bad) return bad;
  }
  return 0;
}

static int mixed(Moe *m, const Wrap *w) {
  for (int n = 0; n < w->plan->calls; n++) {
    int bad = any_checked(m, (uint64_t)n, 1 + n / 2 * 7 % m->info.max_tokens, w->stream);
    if (bad) return bad;
  }
  return 0;
}

static int with_every_kernel(Member *member, void *plan, int across_ends) {
  EpcommOptions o = ranks_options(member, plan);
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  o.reduced = 1;
  gpu_use(o.device);
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", member->rank, text), 1;
  Wrap w = {member, plan, gpu_stream()};
  Moe *m = moe_new(comm);
  int bad = across_ends ? any_runs(m, across, &w) : mixed(m, &w);
  moe_free(m);
  gpu_stream_free(w.stream);
  if (bad) epcomm_abandon(comm);
  else epcomm_destroy(comm);
  return bad;
}

int test_wrap(Member *member, void *plan) { return with_every_kernel(member, plan, 1); }
int test_mixed(Member *member, void *plan) { return with_every_kernel(member, plan, 0); }
