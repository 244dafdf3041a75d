/* Tests calls that give up a wait. Their rows and combined tokens must be NaN, and their row_offsets 0. */
#include <stdio.h>

#include "any.h"
#include "ranks.h"

enum { REPLAYS = 10 };

typedef struct Spoiled {
  Member *member;
  GpuStream stream;
} Spoiled;

static int spoilt(Moe *m, const EpcommCall *c, const char *what, GpuStream stream) {
  EpcommOutputs o = {.size = sizeof o};
  uint32_t offsets[1025] = {0};
  epcomm_outputs(m->comm, 0, c->dtype, &o);
  gpu_wait(stream);
  long combined = any_numbers(m, c->combined, (size_t)c->tokens * (size_t)m->info.hidden, stream);
  long rows = c->dtype == EPCOMM_BF16 ? any_numbers(m, o.out, o.out_bytes / 2, stream) : 0;
  gpu_download(offsets, o.row_offsets, 4 * ((size_t)m->info.groups + 1), stream);
  uint32_t index = 0;
  for (int i = 0; i <= m->info.groups; i++) index |= offsets[i];
  EpcommStatus s = epcomm_fault(m->comm, NULL);
  if (combined == 0 && rows == 0 && index == 0 && s == EPCOMM_FAULT) return 0;
  printf("rank %d, %s of %d tokens: %ld elements of combined and %ld of out are not NaN, index %u, %s\n", m->info.rank, what, c->tokens, combined, rows, index,
         epcomm_status_name(s));
  return 1;
}

static int without_last(Moe *m, const EpcommCall *c, GpuGraph graph, GpuStream stream) {
  int bad = 0;
  for (int i = 0; i < REPLAYS && !bad; i++) {
    moe_inputs(m, (uint64_t)i, c->tokens, stream);
    gpu_fill(c->combined, 1, 2 * (size_t)c->tokens * (size_t)m->info.hidden, stream);
    gpu_replay(graph, stream);
    bad = spoilt(m, c, "replay", stream);
  }
  gpu_fill(c->combined, 1, 2 * (size_t)c->tokens * (size_t)m->info.hidden, stream);
  EpcommStatus s = epcomm_dispatch(m->comm, c, stream), t = epcomm_combine(m->comm, c, stream);
  if (s != EPCOMM_FAULT || t != EPCOMM_FAULT) bad |= ranks_say(m->comm, "a call after the fault", s);
  return bad || spoilt(m, c, "eager call", stream);
}

static int stopped(Moe *m, int fullest, void *context) {
  Spoiled *p = context;
  EpcommCall c = any_whole(m, fullest, 0);
  GpuGraph graph;
  int bad = any_capture(m, &c, p->stream, &graph);
  moe_inputs(m, 1, c.tokens, p->stream);
  gpu_replay(graph, p->stream);
  if (!bad) bad = ranks_ended(m->comm, "replay", EPCOMM_OK, p->stream);
  bad = ranks_joint_result(p->member, bad);
  if (bad) return bad;
  if (!ranks_is_last(p->member)) bad |= without_last(m, &c, graph, p->stream);
  EpcommStatus s = epcomm_reset(m->comm);
  if (s != EPCOMM_OK) return ranks_say(m->comm, "reset", s);
  moe_inputs(m, 2, c.tokens, p->stream);
  gpu_replay(graph, p->stream);
  if (!bad) bad = ranks_ended(m->comm, "replay after reset", EPCOMM_OK, p->stream);
  size_t elements = (size_t)c.tokens * (size_t)m->info.hidden;
  if (!bad && m->info.nodes == 1 && any_numbers(m, c.combined, elements, p->stream) != (long)elements)
    bad = ranks_say(NULL, "replay after reset: some outputs are NaN", EPCOMM_OK);
  for (uint64_t n = 5; n < 8 && !bad; n++) bad = any_checked(m, n, fullest, p->stream);
  gpu_graph_free(graph);
  return bad;
}

int test_spoiled(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  o.reduced = 1;
  gpu_use(o.device);
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", member->rank, text), 1;
  Spoiled p = {member, gpu_stream()};
  Moe *m = moe_new(comm);
  int bad = any_runs(m, stopped, &p);
  moe_free(m);
  gpu_stream_free(p.stream);
  if (bad) epcomm_abandon(comm);
  else epcomm_destroy(comm);
  return bad;
}
