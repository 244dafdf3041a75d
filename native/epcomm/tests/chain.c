/* Prints the time that one call adds to a CUDA graph: the largest of the ranks' medians. */
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 1000, WARM = 2 };

/* Queues `fold` calls with barriers, then the same barriers alone. A stamp reads the GPU's clock before, between and
 * after the two parts. */
static EpcommStatus chain(EpComm *comm, const EpcommCall *c, const char *op, int fold, uint64_t *stamps, GpuStream stream) {
  int pair = strcmp(op, "pair") == 0, sends = strcmp(op, "combine") != 0, combines = strcmp(op, "dispatch") != 0;
  EpcommStatus s = epcomm_barrier(comm, stream);
  if (s == EPCOMM_OK && !sends) s = epcomm_dispatch(comm, c, stream);
  if (s == EPCOMM_OK) s = epcomm_barrier(comm, stream);
  if (s == EPCOMM_OK) s = epcomm_stamp(comm, stamps, stream);
  for (int i = 0; i < fold && s == EPCOMM_OK; i++) {
    if (sends) s = epcomm_dispatch(comm, c, stream);
    if (s == EPCOMM_OK && combines) s = epcomm_combine(comm, c, stream);
    if (s == EPCOMM_OK && (!pair || i == fold - 1)) s = epcomm_barrier(comm, stream);
  }
  if (s == EPCOMM_OK) s = epcomm_stamp(comm, stamps + 1, stream);
  for (int i = 0; i < (pair ? 1 : fold) && s == EPCOMM_OK; i++) s = epcomm_barrier(comm, stream);
  return s == EPCOMM_OK ? epcomm_stamp(comm, stamps + 2, stream) : s;
}

static double seconds_of(const uint64_t *stamps, int fold, GpuStream stream) {
  uint64_t at[3];
  gpu_download(at, stamps, sizeof at, stream);
  return ((double)(at[1] - at[0]) - (double)(at[2] - at[1])) / fold / 1e9;
}

static int rising(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the median seconds of a call, or NAN after an error. The median may be negative. */
static double time_of(EpComm *comm, const EpcommCall *c, const char *op, const Plan *p, GpuStream stream) {
  uint64_t *stamps = gpu_alloc(3 * sizeof *stamps);
  double all[ROUNDS], median = NAN;
  int rounds = p->replays < 1 ? 1 : p->replays > ROUNDS ? ROUNDS : p->replays, fold = p->calls < 1 ? 1 : p->calls;
  gpu_capture(stream);
  EpcommStatus s = chain(comm, c, op, fold, stamps, stream);
  GpuGraph graph = gpu_captured(stream);
  for (int i = 0; i < rounds + WARM && s == EPCOMM_OK; i++) {
    gpu_replay(graph, stream);
    gpu_wait(stream);
    s = epcomm_fault(comm, NULL);
    if (i >= WARM) all[i - WARM] = seconds_of(stamps, fold, stream);
  }
  if (s != EPCOMM_OK) {
    ranks_say(comm, op, s);
  } else {
    qsort(all, (size_t)rounds, sizeof *all, rising);
    median = all[rounds / 2];
  }
  gpu_graph_free(graph);
  gpu_free(stamps);
  return median;
}

int test_chain(Member *member, void *plan) {
  static const char *const ops[] = {"dispatch", "combine", "pair"};
  static const int purpose[] = {EPCOMM_FOR_DISPATCH, EPCOMM_FOR_COMBINE, EPCOMM_FOR_PAIR};
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 1, 0, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  EpcommOutputs o = {.size = sizeof o};
  int tokens = p->most < m->info.max_tokens ? p->most : m->info.max_tokens, bad = epcomm_outputs(comm, 0, p->dtype, &o) != EPCOMM_OK;
  gpu_fill(moe_y(m, 0), 0, 2 * o.max_rows * (size_t)m->info.hidden, stream);
  moe_inputs(m, 1, tokens, stream);
  for (int i = 0; i < 3 && !bad; i++) {
    EpcommCall c = moe_call(m, 0, p->dtype, tokens, tokens, 0);
    c.routing = EPCOMM_EVEN;
    c.purpose = purpose[i];
    double mine = time_of(comm, &c, ops[i], p, stream), all[EPCOMM_MAX_RANKS], most = 0;
    bad = isnan(mine) || world_gather(member, &mine, all, sizeof mine) != 0;
    for (int r = 0; r < member->ranks && !bad; r++) most = all[r] > most ? all[r] : most;
    if (member->rank == 0 && !bad) printf("chain: %s, %d tokens, %s: %.2f us\n", ops[i], tokens, p->processes ? "processes" : "threads", most * 1e6);
  }
  moe_free(m);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}
