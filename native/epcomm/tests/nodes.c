/* Tests ranks on several nodes. */
#include <stdio.h>
#include <stdlib.h>

#include "ranks.h"

int test_refusals(Member *member, void *plan) {
  const Plan *p = plan;
  EpcommOptions right = ranks_options(member, p), o = right;
  o.nodes = 1;
  int bad = ranks_refused(member, &o, EPCOMM_PACK, EPCOMM_PACK);
  o.nodes = ranks_is_last(member) ? 1 : right.nodes;
  bad |= ranks_refused(member, &o, EPCOMM_PACK, EPCOMM_PEER);
  o.nodes = member->ranks - 1;
  if (member->ranks > 2) bad |= ranks_refused(member, &o, EPCOMM_INVALID, EPCOMM_INVALID);
  o = right;
  o.size = offsetof(EpcommOptions, nvshmem);
  bad |= ranks_refused(member, &o, EPCOMM_PACK, EPCOMM_PACK);
  o = right;
  o.pack = p->other;
  if (p->other != NULL) bad |= ranks_refused(member, &o, EPCOMM_PACK, EPCOMM_PACK);
  o = right;
  if (ranks_is_last(member)) o.nvshmem = "/no/such/folder";
  bad |= ranks_refused(member, &o, EPCOMM_NETWORK, EPCOMM_PEER);
  if (!gpu_emulated()) return bad;
  if (ranks_is_last(member)) setenv("EMUL_NVSHMEM", "3.4.5", 1);
  bad |= ranks_refused(member, &right, EPCOMM_NETWORK, EPCOMM_PEER);
  if (ranks_is_last(member)) setenv("EMUL_NVSHMEM", "3.8.0", 1);
  return bad;
}

static int broken;

static int breaking_gather(void *member, const void *mine, void *all, size_t bytes) {
  return broken ? 1 : world_gather(member, mine, all, bytes);
}

static EpComm *use(const EpcommOptions *o, const Plan *p) {
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  gpu_use(o->device);
  if (epcomm_create(&comm, o, text) != EPCOMM_OK) return printf("rank %d: %s\n", o->rank, text), NULL;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  int bad = ranks_right(m, p->most, stream);
  moe_free(m);
  gpu_stream_free(stream);
  return bad ? NULL : comm;
}

/* Calls epcomm_destroy while all_gather fails. epcomm_destroy must not free NVSHMEM's memory, because that waits for
 * all ranks. */
int test_left(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  o.all_gather = breaking_gather;
  EpComm *comm = use(&o, plan);
  if (comm == NULL) return 1;
  broken = 1;
  int bad = epcomm_destroy(comm) != EPCOMM_GATHER;
  broken = 0;
  return bad | ranks_refused(member, &o, EPCOMM_NETWORK, EPCOMM_NETWORK);
}

/* Does the same as test_left after the GPU of the last rank has failed. */
int test_crashed(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  EpComm *comm = use(&o, plan);
  if (comm == NULL) return 1;
  if (ranks_is_last(member)) setenv("EMUL_BROKEN", "1", 1);
  int bad = epcomm_destroy(comm) != (ranks_is_last(member) ? EPCOMM_DRIVER : EPCOMM_PEER);
  unsetenv("EMUL_BROKEN");
  return bad | ranks_refused(member, &o, EPCOMM_NETWORK, EPCOMM_NETWORK);
}

static int y_elsewhere(Moe *m, int most, GpuStream stream) {
  int tokens = moe_tokens(m, 1, m->info.rank, most);
  EpcommCall c = moe_call(m, 0, 0, tokens, moe_fullest(m, 1, most), 0);
  moe_inputs(m, 1, tokens, stream);
  int bad = ranks_ended(m->comm, "dispatch", epcomm_dispatch(m->comm, &c, stream), stream);
  if (!bad) bad = moe_experts(m, &c, 1, most, stream);
  if (bad) return bad;
  c.y = m->dy;
  EpcommStatus s = epcomm_combine(m->comm, &c, stream);
  if (s != EPCOMM_INVALID) return ranks_say(m->comm, "combine of rows outside the heap", s);
  c.y = moe_y(m, 0);
  bad = ranks_ended(m->comm, "combine", epcomm_combine(m->comm, &c, stream), stream);
  return bad ? bad : moe_combined(m, &c, 1, stream);
}

int test_unfilled(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  if (ranks_is_last(member)) setenv("EMUL_BROKEN", "1", 1);
  int bad = ranks_refused(member, &o, EPCOMM_DRIVER, EPCOMM_PEER);
  unsetenv("EMUL_BROKEN");
  return bad | ranks_refused(member, &o, EPCOMM_NETWORK, EPCOMM_NETWORK);
}

int test_nodes(Member *member, void *plan) {
  const Plan *p = plan;
  int bad = 0;
  GpuStream stream = NULL;
  for (int turn = 0; turn < 2 && !bad; turn++) {
    EpComm *comm[2] = {ranks_create(member, p, 1, 1, 0), ranks_create(member, p, 1, 0, 1 << 20)};
    if (comm[0] == NULL || comm[1] == NULL) return 1;
    if (stream == NULL) stream = gpu_stream();
    for (int i = 0; i < 2 && !bad; i++) {
      Moe *m = moe_new(comm[i]);
      bad = y_elsewhere(m, p->most, stream) || ranks_right(m, p->most, stream);
      moe_free(m);
    }
    for (int i = 0; i < 2; i++) bad |= epcomm_destroy(comm[i]) != EPCOMM_OK;
  }
  gpu_stream_free(stream);
  return bad;
}
