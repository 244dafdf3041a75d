/* Tests faults. Every living rank must get an error in time. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

static void pause_for(double seconds) { usleep((useconds_t)(seconds * 1e6)); }

static EpcommStatus call_once(Moe *m, uint64_t n, int most, GpuStream stream) {
  int tokens = moe_tokens(m, n, m->info.rank, most);
  EpcommCall c = moe_call(m, 0, 0, tokens, moe_fullest(m, n, most), 0);
  moe_inputs(m, n, tokens, stream);
  EpcommStatus s = epcomm_dispatch(m->comm, &c, stream);
  gpu_wait(stream);
  if (s == EPCOMM_OK) s = epcomm_combine(m->comm, &c, stream);
  gpu_wait(stream);
  return s != EPCOMM_OK ? s : epcomm_fault(m->comm, NULL);
}

/* Returns 0 if the results of four calls are right. */
int ranks_right(Moe *m, int most, GpuStream stream) {
  for (uint64_t n = 100; n < 104; n++) {
    int tokens = moe_tokens(m, n, m->info.rank, most);
    EpcommCall c = moe_call(m, 0, 0, tokens, moe_fullest(m, n, most), 0);
    moe_inputs(m, n, tokens, stream);
    int bad = ranks_ended(m->comm, "dispatch", epcomm_dispatch(m->comm, &c, stream), stream);
    if (!bad) bad = moe_experts(m, &c, n, most, stream);
    if (!bad) bad = ranks_ended(m->comm, "combine", epcomm_combine(m->comm, &c, stream), stream);
    if (!bad) bad = moe_combined(m, &c, n, stream);
    if (bad) return bad;
  }
  return 0;
}

/* Returns 1 if no rank is gone. */
static int together(Member *member) {
  uint8_t mine = 0, all[64];
  return member->ranks <= 64 && world_gather(member, &mine, all, 1) == 0;
}

int ranks_joint_result(Member *member, int bad) {
  int all[EPCOMM_MAX_RANKS] = {0}, slow = world_gather(member, &bad, all, sizeof bad) != 0;
  for (int r = 0; r < member->ranks; r++) slow |= all[r] != 0;
  return bad != 0 || !slow ? bad : RANKS_SLOW;
}

/* Runs `what` on the last rank, the victim. The other ranks must get an error within twice the deadline plus 3 s. */
static int with_victim(Member *member, const Plan *p, void (*what)(Moe *, Member *, const Plan *, GpuStream), int victim_lives) {
  EpComm *comm = ranks_create(member, p, 1, 0, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  EpcommFault f = {.size = sizeof f};
  EpcommStatus first = call_once(m, 1, p->most, stream);
  int bad = ranks_joint_result(member, first == EPCOMM_OK ? 0 : ranks_say(comm, "the call before", first));
  if (bad) return epcomm_abandon(comm), bad;
  if (member->rank == member->ranks - 1) {
    what(m, member, p, stream);
  } else {
    double start = gpu_seconds();
    EpcommStatus s = call_once(m, 2, p->most, stream);
    double took = gpu_seconds() - start;
    int described = s == EPCOMM_FAULT && epcomm_fault(comm, &f) == EPCOMM_FAULT && f.source == member->ranks - 1 && f.rank == member->rank;
    described &= f.phase >= 2 && f.phase <= 5 && strstr(f.text, f.phase < 4 ? "waited in dispatch, " : "waited in combine, ") != NULL;
    described &= strstr(f.text, f.phase % 2 == 0 ? "sending" : "receiving") != NULL;
    printf("rank %d after %.2f s: %s: %s\n", member->rank, took, epcomm_status_name(s), epcomm_error(comm));
    bad |= !described || took > 2 * p->deadline + 3;
    if (strcmp(p->test, "late") == 0) bad |= !together(member);
    bad |= call_once(m, 3, p->most, stream) != EPCOMM_FAULT;
  }
  if (victim_lives) {
    EpcommStatus s = epcomm_reset(comm);
    bad |= s != EPCOMM_OK ? ranks_say(comm, "reset", s) : ranks_right(m, p->most, stream);
  }
  moe_free(m);
  gpu_stream_free(stream);
  if (victim_lives) epcomm_destroy(comm);
  else epcomm_abandon(comm);
  return bad;
}

static void be_late(Moe *m, Member *member, const Plan *p, GpuStream stream) {
  together(member);
  call_once(m, 2, p->most, stream);
}

static void never_call(Moe *m, Member *member, const Plan *p, GpuStream stream) {
  (void)m, (void)member, (void)p, (void)stream;
}

static void be_killed(Moe *m, Member *member, const Plan *p, GpuStream stream) {
  (void)m, (void)member, (void)stream;
  pause_for(p->deadline / 2);
  raise(SIGKILL);
}

static int test_late(Member *s, void *p) { return with_victim(s, p, be_late, 1); }
static int test_never(Member *s, void *p) { return with_victim(s, p, never_call, 1); }
static int test_killed(Member *s, void *p) { return with_victim(s, p, be_killed, 0); }

int ranks_refused(Member *member, const EpcommOptions *o, EpcommStatus victims, EpcommStatus others) {
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  EpcommStatus want = member->rank == member->ranks - 1 ? victims : others, s = epcomm_create(&comm, o, text);
  printf("rank %d: %s: %s\n", member->rank, epcomm_status_name(s), text);
  return s != want || comm != NULL;
}

int ranks_is_last(const Member *s) { return s->rank == s->ranks - 1; }

static int test_other_pack(Member *member, void *plan) {
  const Plan *p = plan;
  EpcommOptions o = ranks_options(member, p);
  if (ranks_is_last(member)) o.pack = p->other;
  return ranks_refused(member, &o, EPCOMM_DISAGREE, EPCOMM_DISAGREE);
}

static int test_options(Member *member, void *plan) {
  EpcommOptions o[7];
  int bad = 0;
  for (int i = 0; i < 7; i++) o[i] = ranks_options(member, plan);
  if (ranks_is_last(member)) {
    o[0].own_outputs = 1;
    o[1].in_flight = 2;
    o[2].extra_bytes = 4096;
    o[3].routing = EPCOMM_EVEN;
    o[4].dtypes = 1u << EPCOMM_FP8;
    o[5].reduced = 1;
    o[6].debug = 1;
  }
  for (int i = 0; i < 7; i++) bad |= ranks_refused(member, &o[i], EPCOMM_DISAGREE, EPCOMM_DISAGREE);
  return bad;
}

static int test_other_kind(Member *member, void *plan) {
  if (ranks_is_last(member)) setenv("EMUL_ARCH", "80", 1);
  EpcommOptions o = ranks_options(member, plan);
  return ranks_refused(member, &o, EPCOMM_MACHINE, EPCOMM_PEER);
}

static int test_broken(Member *member, void *plan) {
  EpComm *comm = ranks_create(member, plan, 1, 0, 0);
  if (comm == NULL) return 1;
  if (ranks_is_last(member)) setenv("EMUL_BROKEN", "1", 1);
  EpcommStatus s = epcomm_destroy(comm);
  return s != (ranks_is_last(member) ? EPCOMM_DRIVER : EPCOMM_PEER);
}

static int test_truncated(Member *member, void *plan) {
  const Plan *p = plan;
  EpcommOptions o = ranks_options(member, p);
  FILE *f = fopen(p->pack, "rb");
  uint8_t *data = malloc(1 << 26);
  size_t n = f != NULL ? fread(data, 1, 1 << 26, f) : 0;
  if (f != NULL) fclose(f);
  int bad = n < 1000;
  for (int edit = 0; edit < 2 && !bad; edit++) {
    o.pack = NULL;
    o.pack_data = data;
    o.pack_bytes = ranks_is_last(member) && !edit ? n - 100 : n;
    if (ranks_is_last(member) && edit) data[n / 2] ^= 4;
    bad = ranks_refused(member, &o, EPCOMM_PACK, EPCOMM_PEER);
  }
  free(data);
  return bad;
}

/* The last rank calls epcomm_destroy while the other ranks call epcomm_reset. Every rank must get an error. */
static int test_parted(Member *member, void *plan) {
  EpComm *comm = ranks_create(member, plan, 1, 0, 0);
  if (comm == NULL) return 1;
  const int last = ranks_is_last(member);
  EpcommStatus s = last ? epcomm_destroy(comm) : epcomm_reset(comm);
  if (last) return s == EPCOMM_DISAGREE ? 0 : ranks_say(NULL, "destroy while others reset", s);
  int bad = s != EPCOMM_DISAGREE || strstr(epcomm_error(comm), "is in epcomm_destroy, but rank") == NULL;
  printf("rank %d: %s: %s\n", member->rank, epcomm_status_name(s), epcomm_error(comm));
  epcomm_abandon(comm);
  return bad;
}

static int test_disagree(Member *member, void *plan) {
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 1, 1, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  EpcommCall c = moe_call(m, 0, 0, 1, ranks_is_last(member) ? m->info.max_tokens : 1, 0);
  c.routing = EPCOMM_EVEN;
  moe_inputs(m, 1, 1, stream);
  epcomm_dispatch(comm, &c, stream);
  gpu_wait(stream);
  EpcommFault f;
  memset(&f, 0, sizeof f);
  f.size = sizeof f;
  int bad = epcomm_fault(comm, &f) != EPCOMM_FAULT || f.phase != 6;
  printf("rank %d: %s\n", member->rank, f.text);
  if (!bad) bad = epcomm_reset(comm) != EPCOMM_OK ? 1 : ranks_right(m, p->most, stream);
  moe_free(m);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}

/* Passes a bad id on the last rank. Every fault must name that rank. */
static int bad_id(Moe *m, int wide, int64_t id, int most, GpuStream stream) {
  EpcommCall c = moe_call(m, 0, 0, 2, 2, wide);
  EpcommFault f = {.size = sizeof f};
  EpcommOutputs o = {.size = sizeof o};
  uint32_t offsets[2] = {1, 1};
  int last = m->info.ranks - 1;
  moe_inputs(m, 1, 2, stream);
  m->wide[1] = m->info.rank == last ? id : -1;
  m->ids[1] = (int32_t)m->wide[1];
  gpu_upload(m->dwide, m->wide, 16 * (size_t)m->info.topk, stream);
  gpu_upload(m->dids, m->ids, 8 * (size_t)m->info.topk, stream);
  EpcommStatus s = epcomm_dispatch(m->comm, &c, stream);
  gpu_wait(stream);
  int bad = s != EPCOMM_OK || epcomm_fault(m->comm, &f) != EPCOMM_FAULT || f.phase != 6 || f.source != last;
  epcomm_outputs(m->comm, 0, 0, &o);
  gpu_download(offsets, o.row_offsets, sizeof offsets, stream);
  bad |= offsets[0] != 0 || offsets[1] != 0;
  printf("rank %d, %d bits: %s: %s, rows %u\n", m->info.rank, wide ? 64 : 32, epcomm_status_name(s), f.text, offsets[1]);
  if (bad || epcomm_reset(m->comm) != EPCOMM_OK) return 1;
  return ranks_right(m, most, stream);
}

static int test_bad_id(Member *member, void *plan) {
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 1, 1, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  const int64_t wrong[] = {m->info.experts, m->info.experts, 1 << 30, -2};
  int bad = 0;
  for (int i = 0; i < 4 && !bad; i++) bad = bad_id(m, i == 0, wrong[i], p->most, stream);
  moe_free(m);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}

/* Makes `op` on both slots. The last rank begins with slot 1, the other ranks with slot 0. */
static EpcommStatus both_slots(EpComm *comm, EpcommStatus (*op)(EpComm *, const EpcommCall *, EpcommStream), const EpcommCall *calls,
                               GpuStream *streams) {
  EpcommInfo i = {.size = sizeof i};
  epcomm_info(comm, &i);
  EpcommStatus s = EPCOMM_OK;
  for (int j = 0; j < 2; j++) {
    int slot = i.rank == i.ranks - 1 ? 1 - j : j;
    if (s == EPCOMM_OK) s = op(comm, &calls[slot], streams[slot]);
    pause_for(0.02); /* debug mode compares the first calls meanwhile */
  }
  gpu_wait(streams[0]);
  gpu_wait(streams[1]);
  return s != EPCOMM_OK ? s : epcomm_fault(comm, NULL);
}

static int slots_round(Moe **m, uint64_t n, GpuStream *streams) {
  static const int most[] = {2, 12};
  EpcommCall calls[2];
  for (int i = 0; i < 2; i++) {
    int tokens = moe_tokens(m[i], n, m[i]->info.rank, most[i]);
    calls[i] = moe_call(m[i], i, 0, tokens, moe_fullest(m[i], n, most[i]), 0);
    moe_inputs(m[i], n, tokens, streams[i]);
  }
  EpcommStatus s = both_slots(m[0]->comm, epcomm_dispatch, calls, streams);
  if (s != EPCOMM_OK) return ranks_say(m[0]->comm, "dispatch", s);
  for (int i = 0; i < 2; i++)
    if (moe_experts(m[i], &calls[i], n, most[i], streams[i])) return 1;
  s = both_slots(m[0]->comm, epcomm_combine, calls, streams);
  if (s != EPCOMM_OK) return ranks_say(m[0]->comm, "combine", s);
  return moe_combined(m[0], &calls[0], n, streams[0]) || moe_combined(m[1], &calls[1], n, streams[1]);
}

static int test_slots(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  o.in_flight = o.streams = 2;
  o.debug = 1;
  gpu_use(o.device);
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", member->rank, text), 1;
  GpuStream streams[2] = {gpu_stream(), gpu_stream()};
  Moe *m[2] = {moe_new(comm), moe_new(comm)};
  int bad = 0;
  for (uint64_t n = 0; n < 5 && !bad; n++) bad = slots_round(m, n, streams);
  for (int i = 0; i < 2; i++) {
    moe_free(m[i]);
    gpu_stream_free(streams[i]);
  }
  epcomm_destroy(comm);
  return bad;
}

Test faults_find(const char *name, int *victims) {
  static const struct {
    const char *name;
    Test test;
    int dies;
  } tests[] = {{"late", test_late, 0},           {"never", test_never, 0},         {"killed", test_killed, 1},
               {"other-pack", test_other_pack, 0}, {"other-kind", test_other_kind, 0}, {"truncated", test_truncated, 0},
               {"disagree", test_disagree, 0},     {"slots", test_slots, 0},         {"parted", test_parted, 0},
               {"bad-id", test_bad_id, 0},         {"broken", test_broken, 0},         {"options", test_options, 0}};
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
    if (strcmp(name, tests[i].name) != 0) continue;
    *victims = tests[i].dies;
    return tests[i].test;
  }
  return NULL;
}
