/* Makes random calls for --seconds, and checks all results. Memory and open files must not grow. */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "any.h"
#include "ranks.h"

enum { STEPS = 40, WARM = 4 };

typedef struct Soak {
  Member *member;
  const Plan *plan;
  EpComm *comm;
  Moe *moe;
  GpuStream streams[2];
  uint64_t random;
  long calls, replays, faults, created;
} Soak;

static uint64_t draw(Soak *s, uint64_t below) {
  s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
  return (s->random >> 33) % below;
}

Holds holds_now(void) {
  Holds h = {gpu_free_bytes(), 0, 0};
  long pages = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d != NULL && readdir(d) != NULL) h.files++;
  if (d != NULL) closedir(d);
  FILE *f = fopen("/proc/self/statm", "r");
  if (f != NULL && fscanf(f, "%*d %ld", &pages) == 1) h.resident = pages * (sysconf(_SC_PAGESIZE) / 1024);
  if (f != NULL) fclose(f);
  return h;
}

int holds_grown(const Member *member, const Holds *was, const Holds *is) {
  int more = is->device + (64u << 20) < was->device || is->files > was->files || is->resident > was->resident + was->resident / 4 + 65536;
  if (more)
    printf("rank %d: free GPU memory %zu MiB, before %zu; open files %d, before %d; host memory %ld MiB, before %ld\n", member->rank, is->device >> 20,
           was->device >> 20, is->files, was->files, is->resident >> 10, was->resident >> 10);
  return more;
}

static int create(Soak *s) {
  EpcommOptions o = ranks_options(s->member, s->plan);
  char text[EPCOMM_TEXT];
  o.reduced = 1;
  o.debug = (int)draw(s, 2);
  gpu_use(o.device);
  s->created++;
  EpcommStatus status = epcomm_create(&s->comm, &o, text);
  if (status != EPCOMM_OK) return printf("rank %d: create: %s\n", s->member->rank, text), 1;
  s->moe = moe_new(s->comm);
  return 0;
}

static int destroy(Soak *s) {
  moe_free(s->moe);
  EpcommStatus status = epcomm_destroy(s->comm);
  return status != EPCOMM_OK ? ranks_say(NULL, "destroy", status) : 0;
}

static int graphs(Soak *s, uint64_t n, int fullest, GpuStream stream) {
  Moe *m = s->moe;
  EpcommCall c = any_call(m, n, fullest);
  gpu_capture(stream);
  EpcommStatus status = epcomm_dispatch(s->comm, &c, stream);
  GpuGraph dispatch = gpu_captured(stream);
  gpu_capture(stream);
  if (status == EPCOMM_OK) status = epcomm_combine(s->comm, &c, stream);
  GpuGraph combine = gpu_captured(stream);
  int bad = status != EPCOMM_OK ? ranks_say(s->comm, "capture", status) : 0, times = 1 + (int)draw(s, 5);
  for (int i = 0; i < times && !bad; i++) {
    moe_inputs(m, n, c.tokens, stream);
    gpu_replay(dispatch, stream);
    bad = ranks_ended(s->comm, "replay of dispatch", EPCOMM_OK, stream);
    if (!bad) bad = any_experts(m, &c, n, stream);
    if (bad) break;
    gpu_replay(combine, stream);
    bad = ranks_ended(s->comm, "replay of combine", EPCOMM_OK, stream);
    if (!bad) bad = any_combined(m, &c, n, stream);
    s->replays++;
  }
  gpu_graph_free(dispatch);
  gpu_graph_free(combine);
  return bad;
}

/* Leaves out a call on one rank. The others must get a fault and NaN. */
static int fault(Soak *s, int fullest, GpuStream stream) {
  Moe *m = s->moe;
  int lazy = (int)draw(s, (uint64_t)s->member->ranks), bad = 0;
  s->faults++;
  if (s->member->rank != lazy) {
    EpcommCall c = moe_call(m, 0, any_dtype(m, 0), fullest, fullest, 0);
    c.routing = EPCOMM_EVEN;
    moe_inputs(m, 1, fullest, stream);
    epcomm_dispatch(s->comm, &c, stream);
    epcomm_combine(s->comm, &c, stream);
    gpu_wait(stream);
    long numbers = any_numbers(m, c.combined, (size_t)fullest * (size_t)m->info.hidden, stream);
    bad = epcomm_fault(s->comm, NULL) != EPCOMM_FAULT || numbers != 0;
    if (bad) printf("rank %d: %ld outputs are not NaN after rank %d left a call out: %s\n", s->member->rank, numbers, lazy, epcomm_error(s->comm));
  }
  EpcommStatus status = epcomm_reset(s->comm);
  return status != EPCOMM_OK ? ranks_say(s->comm, "reset", status) : bad;
}

static int near_end(Soak *s) {
  static const uint32_t ends[] = {0x7fffffffu, 0x80000000u, 0xfffffffcu, 0xffffffffu};
  if (epcomm_reset(s->comm) != EPCOMM_OK) return ranks_say(s->comm, "reset", EPCOMM_FAULT);
  wrap_begin_at(s->comm, ends[draw(s, 4)] - (uint32_t)draw(s, 24));
  return ranks_joint_result(s->member, 0);
}

static int step(Soak *s) {
  uint64_t what = draw(s, 100), n = draw(s, 1 << 20);
  int fullest = 1 + (int)draw(s, (uint64_t)s->moe->info.max_tokens);
  GpuStream stream = s->streams[draw(s, 2)];
  if (what == 0) return fault(s, fullest, stream);
  if (what == 1) return destroy(s) || create(s);
  if (what < 4) return near_end(s);
  if (what < 24) return graphs(s, n, fullest, stream);
  s->calls++;
  return any_checked(s->moe, n, fullest, stream);
}

int test_soak(Member *member, void *plan) {
  Soak s = {.member = member, .plan = plan};
  s.random = (uint64_t)s.plan->seed;
  Holds was = {0, 0, 0}, is = was;
  double start = now();
  int bad = create(&s), go = 1, all[EPCOMM_MAX_RANKS];
  s.streams[0] = gpu_stream(), s.streams[1] = gpu_stream();
  for (int round = 0; go && !bad; round++) {
    for (int i = 0; i < STEPS && !bad; i++) bad = step(&s);
    is = holds_now();
    if (round < WARM) was = is;
    if (!bad) bad = holds_grown(member, &was, &is);
    int mine = bad ? -1 : now() - start < s.plan->seconds;
    if (world_gather(member, &mine, all, sizeof mine) != 0) return bad ? bad : RANKS_SLOW;
    go = all[0] > 0;
    for (int r = 0; r < member->ranks && !bad; r++) bad = all[r] < 0 ? RANKS_SLOW : 0;
  }
  if (member->rank == 0)
    printf("%ld calls, %ld replays, %ld faults, %ld EpComms; %d open files, %ld MiB of host memory\n", s.calls, s.replays, s.faults, s.created, is.files, is.resident >> 10);
  if (bad) epcomm_abandon(s.comm);
  else bad = destroy(&s);
  gpu_stream_free(s.streams[0]);
  gpu_stream_free(s.streams[1]);
  return bad;
}
