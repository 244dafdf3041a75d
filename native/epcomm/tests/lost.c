/* Tests lost ranks. The last --victims ranks are killed in a call. The others must shrink within two deadlines. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "any.h"
#include "epcomm_deepep.h"
#include "ranks.h"

enum { AFTER = 5 }; /* calls after a shrink */

typedef struct Lost {
  Member *member;
  const Plan *plan;
  EpComm *comm;
  Moe *moe;
  GpuStream stream;
  GpuGraph graph;
  EpcommCall whole;
} Lost;

static uint64_t everyone(const Lost *l) { return (1ull << l->member->ranks) - 1; }

static int replayed(Lost *l, uint64_t n, const char *what) {
  moe_inputs(l->moe, n, l->whole.tokens, l->stream);
  gpu_replay(l->graph, l->stream);
  int bad = ranks_ended(l->comm, what, EPCOMM_OK, l->stream);
  return bad ? bad : any_combined(l->moe, &l->whole, n, l->stream);
}

static EpcommOptions options_of(const Lost *l, int survivors, uint64_t joins) {
  EpcommOptions o = ranks_options(l->member, l->plan);
  o.survivors = survivors;
  o.debug = l->plan->victims > 1;
  o.joins = joins;
  o.reduced = 1;
  return o;
}

static int begin(Lost *l, int survivors, uint64_t joins) {
  EpcommOptions o = options_of(l, survivors, joins);
  char text[EPCOMM_TEXT];
  gpu_use(o.device);
  if (epcomm_create(&l->comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", l->member->rank, text), 1;
  l->stream = gpu_stream();
  l->moe = moe_new(l->comm);
  l->whole = any_whole(l->moe, l->moe->info.max_tokens / 2, 1);
  return any_capture(l->moe, &l->whole, l->stream, &l->graph);
}

static int end(Lost *l, int bad) {
  gpu_graph_free(l->graph);
  moe_free(l->moe);
  gpu_stream_free(l->stream);
  if (bad) epcomm_abandon(l->comm);
  else if (epcomm_destroy(l->comm) != EPCOMM_OK) bad = 1;
  return bad;
}

static void die_during(void) {
  srand((unsigned)getpid());
  usleep((useconds_t)(rand() % 3000));
  raise(SIGKILL);
}

static void die(Lost *l, const char *at) {
  EpcommCall c = l->whole;
  moe_inputs(l->moe, 50, c.tokens, l->stream);
  if (strcmp(at, "counts") == 0) raise(SIGKILL);
  if (strcmp(at, "replay") == 0) gpu_replay(l->graph, l->stream), die_during();
  if (strcmp(at, "halves") == 0 || strcmp(at, "combine-halves") == 0) c.purpose = EPCOMM_FOR_HALVES;
  epcomm_dispatch_send(l->comm, &c, l->stream);
  if (strcmp(at, "halves") == 0) gpu_wait(l->stream), raise(SIGKILL);
  epcomm_dispatch_recv(l->comm, &c, l->stream);
  if (strcmp(at, "rows") == 0) die_during();
  gpu_wait(l->stream);
  if (strcmp(at, "between") == 0) raise(SIGKILL);
  epcomm_combine_send(l->comm, &c, l->stream);
  if (strcmp(at, "combine-halves") == 0) raise(SIGKILL);
  epcomm_combine_recv(l->comm, &c, l->stream);
  die_during();
}

static EpcommStatus calls(Lost *l, const char *at) {
  EpcommCall c = l->whole;
  moe_inputs(l->moe, 50, c.tokens, l->stream);
  gpu_fill(c.combined, 1, 2 * (size_t)c.tokens * (size_t)l->moe->info.hidden, l->stream);
  if (strcmp(at, "replay") == 0) {
    gpu_replay(l->graph, l->stream);
    gpu_wait(l->stream);
    return epcomm_fault(l->comm, NULL);
  }
  if (strcmp(at, "halves") == 0 || strcmp(at, "combine-halves") == 0) c.purpose = EPCOMM_FOR_HALVES;
  EpcommStatus s = epcomm_dispatch_send(l->comm, &c, l->stream);
  if (s == EPCOMM_OK) s = epcomm_dispatch_recv(l->comm, &c, l->stream);
  gpu_wait(l->stream);
  EpcommStatus t = epcomm_combine_send(l->comm, &c, l->stream);
  if (t == EPCOMM_OK || t == EPCOMM_FAULT) t = epcomm_combine_recv(l->comm, &c, l->stream);
  gpu_wait(l->stream);
  return s != EPCOMM_OK ? s : t != EPCOMM_OK ? t : epcomm_fault(l->comm, NULL);
}

/* Makes calls until one call fails. If a rank is killed after it has sent all its rows, the first call succeeds. */
static EpcommStatus until_fault(Lost *l, const char *at, double *start) {
  EpcommStatus s = EPCOMM_OK;
  for (int i = 0; i < 3 && s == EPCOMM_OK; i++) {
    *start = gpu_seconds();
    s = calls(l, at);
  }
  return s;
}

static uint64_t naming_lost(const Moe *m, int tokens) {
  uint64_t n = 0;
  for (int i = 0; i < tokens * m->info.topk; i++) n += m->ids[i] >= 0 && (m->lost >> m->ids[i] / m->info.local_experts & 1);
  return n;
}

static int in_halves(Lost *l, uint64_t n) {
  EpcommCall c = l->whole;
  c.purpose = EPCOMM_FOR_HALVES;
  moe_inputs(l->moe, n, c.tokens, l->stream);
  EpcommStatus s = epcomm_dispatch_send(l->comm, &c, l->stream);
  if (s == EPCOMM_OK) s = epcomm_dispatch_recv(l->comm, &c, l->stream);
  if (s == EPCOMM_OK) s = epcomm_combine_send(l->comm, &c, l->stream);
  if (s == EPCOMM_OK) s = epcomm_combine_recv(l->comm, &c, l->stream);
  int bad = ranks_ended(l->comm, "halves", s, l->stream);
  return bad ? bad : any_combined(l->moe, &c, n, l->stream);
}

static int goes_on(Lost *l, uint64_t from) {
  uint64_t before = 0, dropped = 0, want = 0;
  int bad = 0;
  epcomm_survivors(l->comm, NULL, &before);
  for (uint64_t n = from; n < from + AFTER && !bad; n++) {
    int most = l->moe->info.max_tokens, fullest = n % AFTER == AFTER - 1 || 2 * (int)(n % AFTER + 1) > most ? most : 2 * (int)(n % AFTER + 1);
    bad = any_checked(l->moe, n, fullest, l->stream);
    want += naming_lost(l->moe, any_call(l->moe, n, fullest).tokens);
    if (!bad) bad = replayed(l, n, "replay without the lost ranks");
    want += naming_lost(l->moe, l->whole.tokens);
    if (!bad) bad = in_halves(l, n);
    want += naming_lost(l->moe, l->whole.tokens);
    if (!bad) bad = ranks_ended(l->comm, "barrier", epcomm_barrier(l->comm, l->stream), l->stream);
  }
  epcomm_survivors(l->comm, NULL, &dropped);
  if (bad || dropped - before == want) return bad;
  printf("rank %d: %llu ids were dropped, want %llu\n", l->member->rank, (unsigned long long)(dropped - before), (unsigned long long)want);
  return 1;
}

static int refuses_lost(Lost *l) {
  uint64_t living = everyone(l) & ~l->moe->lost, me = 1ull << l->member->rank;
  int bad = epcomm_shrink(l->comm, everyone(l)) != EPCOMM_INVALID || strstr(epcomm_error(l->comm), "already lost") == NULL;
  bad |= epcomm_shrink(l->comm, living & ~me) != EPCOMM_INVALID;
  if (l->moe->info.layout == EPCOMM_LAYOUT_RANK_PACKED) {
    EpcommAnnounce all = {.size = sizeof all};
    bad |= epcomm_announce(l->comm, &all, l->stream) != EPCOMM_INVALID || strstr(epcomm_error(l->comm), "needs every rank") == NULL;
  }
  if (bad) printf("rank %d: shrink or announce did not refuse: %s\n", l->member->rank, epcomm_error(l->comm));
  return bad;
}

static int survive(Lost *l) {
  const Plan *p = l->plan;
  double start = gpu_seconds();
  EpcommStatus s = until_fault(l, p->at, &start);
  if (s != EPCOMM_FAULT) return ranks_say(l->comm, "calls in which a rank was killed", s);
  size_t elements = (size_t)l->whole.tokens * (size_t)l->moe->info.hidden;
  long numbers = any_numbers(l->moe, l->whole.combined, elements, l->stream);
  if (numbers != 0) return printf("rank %d: %ld outputs are not NaN after the fault\n", l->member->rank, numbers), 1;
  l->moe->lost = everyone(l) & ~((1ull << (l->member->ranks - p->victims)) - 1);
  char why[EPCOMM_TEXT];
  snprintf(why, sizeof why, "%s", epcomm_error(l->comm));
  s = epcomm_shrink(l->comm, everyone(l) & ~l->moe->lost);
  double took = gpu_seconds() - start;
  printf("rank %d, after the kill at %s: %s; shrunk after %.2f s: %s\n", l->member->rank, p->at, why, took, epcomm_status_name(s));
  if (s == EPCOMM_PEER) return ranks_say(NULL, epcomm_error(l->comm), EPCOMM_GATHER);
  if (s != EPCOMM_OK) return ranks_say(l->comm, "shrink", s);
  if (took > 2 * p->deadline) {
    printf("rank %d: the shrink took more than two deadlines\n", l->member->rank);
    return gpu_emulated() ? RANKS_SLOW : 1; /* emulated kernels are slow */
  }
  int bad = refuses_lost(l);
  return bad ? bad : goes_on(l, 100);
}

int test_lost(Member *member, void *plan) {
  Lost l = {.member = member, .plan = plan};
  if (begin(&l, EPCOMM_DROP, 0)) return 1;
  int bad = any_checked(l.moe, 1, l.moe->info.max_tokens, l.stream);
  if (!bad) bad = replayed(&l, 2, "the replay before the kill");
  bad = ranks_joint_result(member, bad);
  if (bad) return end(&l, bad);
  if (member->rank >= member->ranks - l.plan->victims) die(&l, l.plan->at);
  return end(&l, survive(&l));
}

static int refuses(Lost *l) {
  EpcommFault f = {.size = sizeof f};
  EpcommStatus s = epcomm_shrink(l->comm, everyone(l) >> 1);
  if (s != EPCOMM_OK) return ranks_say(l->comm, "shrink", s);
  EpcommCall c = l->whole;
  moe_inputs(l->moe, 7, c.tokens, l->stream);
  s = epcomm_dispatch(l->comm, &c, l->stream);
  gpu_wait(l->stream);
  if (s == EPCOMM_OK) s = epcomm_fault(l->comm, &f);
  int named = naming_lost(l->moe, c.tokens) > 0;
  printf("rank %d: %s\n", l->member->rank, epcomm_error(l->comm));
  if (s != EPCOMM_FAULT || (named && (f.phase != 7 || f.source != l->member->ranks - 1))) return 1;
  return epcomm_reset(l->comm) != EPCOMM_OK;
}

int test_refuse(Member *member, void *plan) {
  Lost l = {.member = member, .plan = plan};
  if (begin(&l, EPCOMM_REFUSE, 0)) return 1;
  l.moe->lost = everyone(&l) & ~(everyone(&l) >> 1);
  int bad = ranks_is_last(member) ? 0 : refuses(&l);
  bad = ranks_joint_result(member, bad);
  if (bad) return end(&l, bad);
  l.moe->lost = 0;
  EpcommStatus s = epcomm_grow(l.comm, everyone(&l));
  return end(&l, s != EPCOMM_OK ? ranks_say(l.comm, "grow", s) : goes_on(&l, 600));
}

/* Combines call n, which was dispatched before the last rank was lost. */
static int combines_old(Lost *l, uint64_t n) {
  int bad = ranks_ended(l->comm, "combine of a dispatch made before the shrink", epcomm_combine(l->comm, &l->whole, l->stream), l->stream);
  return bad ? bad : any_combined(l->moe, &l->whole, n, l->stream);
}

/* Calls epcomm_grow with different sets. */
static int refuses_other_sets(Lost *l) {
  if (l->member->ranks == 2) return 0;
  EpcommStatus s = epcomm_grow(l->comm, l->member->rank == 0 ? everyone(l) & ~2ull : everyone(l));
  if (s == EPCOMM_DISAGREE && strstr(epcomm_error(l->comm), "all ranks must pass one set") != NULL) return 0;
  printf("rank %d: grow with different sets returned %s: %s\n", l->member->rank, epcomm_status_name(s), epcomm_error(l->comm));
  return 1;
}

static int comes_back(Lost *l) {
  int last = ranks_is_last(l->member);
  const uint64_t old = 199;
  moe_inputs(l->moe, old, l->whole.tokens, l->stream);
  int bad = ranks_ended(l->comm, "dispatch", epcomm_dispatch(l->comm, &l->whole, l->stream), l->stream);
  bad = ranks_joint_result(l->member, bad);
  if (bad) return bad;
  EpcommStatus s = EPCOMM_OK;
  if (!last) {
    s = epcomm_shrink(l->comm, everyone(l) >> 1);
    l->moe->lost = everyone(l) & ~(everyone(l) >> 1);
    bad = s != EPCOMM_OK ? ranks_say(l->comm, "shrink", s) : combines_old(l, old);
    if (!bad) bad = goes_on(l, 200);
  }
  bad = ranks_joint_result(l->member, bad ? bad : refuses_other_sets(l));
  if (bad) return bad;
  s = epcomm_grow(l->comm, everyone(l));
  l->moe->lost = 0;
  return s != EPCOMM_OK ? ranks_say(l->comm, "grow", s) : goes_on(l, 300);
}

static int is_lost(Lost *l, const char *at, uint64_t from) {
  if (ranks_is_last(l->member)) die(l, at);
  double start;
  EpcommStatus s = until_fault(l, at, &start);
  if (s != EPCOMM_FAULT) return ranks_say(l->comm, "calls in which a rank was killed", s);
  l->moe->lost = everyone(l) & ~(everyone(l) >> 1);
  s = epcomm_shrink(l->comm, everyone(l) >> 1);
  if (s == EPCOMM_PEER) return ranks_say(NULL, epcomm_error(l->comm), EPCOMM_GATHER);
  return s != EPCOMM_OK ? ranks_say(l->comm, "shrink", s) : goes_on(l, from);
}

static int is_replaced(Lost *l, uint64_t from) {
  EpcommStatus s = epcomm_grow(l->comm, everyone(l));
  l->moe->lost = 0;
  return s != EPCOMM_OK ? ranks_say(l->comm, "grow with a new process", s) : goes_on(l, from);
}

static int join_is_refused(Lost *l) {
  EpcommOptions o = options_of(l, EPCOMM_DROP, everyone(l));
  EpComm *none = NULL;
  char text[EPCOMM_TEXT];
  o.extra_bytes = 4096;
  gpu_use(o.device);
  EpcommStatus s = epcomm_create(&none, &o, text);
  return s == EPCOMM_DISAGREE ? 0 : (printf("rank %d joined with other options: %s\n", l->member->rank, text), 1);
}

static int refuses_join(Lost *l) {
  EpcommStatus s = epcomm_grow(l->comm, everyone(l));
  return s == EPCOMM_DISAGREE ? 0 : (printf("rank %d took in a process with other options: %s\n", l->member->rank, epcomm_status_name(s)), 1);
}

static int first_life(Lost *l) {
  if (begin(l, EPCOMM_DROP, 0)) return 1;
  int bad = ranks_joint_result(l->member, goes_on(l, 1));
  if (!bad) bad = comes_back(l);
  bad = ranks_joint_result(l->member, bad);
  if (!bad) bad = is_lost(l, "counts", 400);
  if (!bad) bad = refuses_join(l);
  if (!bad) bad = is_replaced(l, 400 + AFTER);
  return end(l, bad);
}

/* Runs `life` in a child process, and again if the child is killed. Returns the result of the last child. */
static int run_lives(Member *member, const Plan *plan, int (*life)(Lost *, int again)) {
  for (int again = 0;; again = 1) {
    Lost l = {.member = member, .plan = plan};
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      if (again) world_rejoin(member);
      int bad = life(&l, again);
      fflush(NULL);
      _exit(bad);
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WTERMSIG(status) != SIGKILL) return 99;
  }
}

static int life_of_grow(Lost *l, int again) {
  if (!again) return first_life(l);
  if (join_is_refused(l)) return 1;
  if (begin(l, EPCOMM_DROP, everyone(l))) return 1;
  return end(l, goes_on(l, 400 + AFTER));
}

int test_grow(Member *member, void *plan) {
  Lost l = {.member = member, .plan = plan};
  return ranks_is_last(member) ? run_lives(member, plan, life_of_grow) : first_life(&l);
}

static const char *const steps[] = {"counts", "rows", "between", "combine", "halves", "combine-halves", "replay"};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* Returns the number of the next round, -1 at the end of the test, or -2 if a rank is missing. */
static int next_round(Lost *l, int rounds, double start) {
  int mine = rounds == 0 || now() - start < l->plan->seconds ? rounds : -1, all[EPCOMM_MAX_RANKS] = {0};
  return world_gather(l->member, &mine, all, sizeof mine) != 0 ? -2 : all[0];
}

static int life_of_killing(Lost *l, int again) {
  if (begin(l, EPCOMM_DROP, again ? everyone(l) : 0)) return 1;
  int bad = again ? goes_on(l, 1000 + AFTER) : goes_on(l, 1000), round = bad ? -1 : next_round(l, 0, now());
  if (round >= 0) die(l, steps[round % STEPS]);
  return end(l, bad ? bad : round == -2 ? RANKS_SLOW : 0);
}

/* Kills and replaces the last rank for --seconds. Resources of the others must not grow. */
int test_killing(Member *member, void *plan) {
  Lost l = {.member = member, .plan = plan};
  if (ranks_is_last(member)) return run_lives(member, plan, life_of_killing);
  Holds was = {0, 0, 0}, is = was;
  double start = now();
  int rounds = 0, go = 0, bad = begin(&l, EPCOMM_DROP, 0);
  if (!bad) bad = goes_on(&l, 1000);
  while (!bad && (go = next_round(&l, rounds, start)) >= 0) {
    bad = is_lost(&l, steps[go % STEPS], 1000);
    if (!bad) bad = is_replaced(&l, 1000 + AFTER);
    is = holds_now();
    if (++rounds <= STEPS) was = is;
    if (!bad) bad = holds_grown(member, &was, &is);
  }
  if (member->rank == 0) printf("%d processes killed and replaced; %d open files, %ld MiB of host memory\n", rounds, is.files, is.resident >> 10);
  return end(&l, bad ? bad : go == -2 ? RANKS_SLOW : 0);
}
