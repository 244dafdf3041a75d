/* epcomm-test tests the library, with threads or processes, on GPUs or on the emulated driver.
 *
 *   epcomm-test PACK TEST [--processes] [--gpus N] [--calls N] [--replays N]
 *               [--most TOKENS] [--dtype N] [--deadline SECONDS] [--other PACK]
 *
 * The pack determines the number of ranks and nodes. With --gpus N, the ranks share N GPUs. TEST is one of:
 *
 * calls      makes eager calls
 * graphs     replays three graphs
 * flight     makes two calls at the same time on two streams; each sends first and receives later
 * outputs    passes the caller's own outputs
 * leak       compares the free device memory after several creations
 * host       measures the host time of a call
 * chain      measures the GPU time of a call in a graph of --calls calls
 * wrap       lets call numbers wrap around
 * mixed      makes calls of all kernels and dtypes
 * spoiled    checks the outputs after a fault
 * soak       makes random calls for --seconds
 * lost       kills --victims ranks at step --at
 * grow       lets lost ranks come back
 * refuse     checks that tokens for lost ranks are refused
 * killing    kills and replaces a rank for --seconds
 * arguments  passes structs of older and later versions of epcomm.h, and tensors that a kernel would misread
 * any-order  combines dispatches in any order
 * late, never, killed, other-pack, other-kind, truncated, disagree, parted, slots, bad-id, broken, options: see faults.c
 * limits, answers, fits, context, stop, machines: see settings.c
 * nodes, refusals, left, crashed, unfilled: see nodes.c
 */
#include "any.h"
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ranks_say(EpComm *comm, const char *what, EpcommStatus status) {
  EpcommFault f = {.size = sizeof f};
  int faulty = comm != NULL && status == EPCOMM_FAULT && epcomm_fault(comm, &f) == EPCOMM_FAULT;
  /* Phase 6 is a check of the debug mode. It also fails if ranks are at different calls because a wait passed its
   * deadline. */
  int deadline = faulty && (f.phase != 6 || (f.source != f.rank && f.want >> 32 != f.got >> 32));
  printf("%s: %s: %s\n", what, epcomm_status_name(status), comm != NULL ? epcomm_error(comm) : "");
  return deadline || status == EPCOMM_GATHER ? RANKS_SLOW : 1;
}

int ranks_ended(EpComm *comm, const char *what, EpcommStatus status, GpuStream stream) {
  gpu_wait(stream);
  if (status == EPCOMM_OK) status = epcomm_fault(comm, NULL);
  return status == EPCOMM_OK ? 0 : ranks_say(comm, what, status);
}

int ranks_device(const Member *member, const Plan *p) { return p->gpus > 0 ? member->rank % p->gpus : member->rank; }

EpcommOptions ranks_options(Member *member, const Plan *p) {
  EpcommOptions o;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  o.pack = p->pack;
  o.rank = member->rank;
  o.ranks = member->ranks;
  o.nodes = p->nodes;
  o.device = ranks_device(member, p);
  o.all_gather = world_gather;
  o.context = member;
  o.deadline_ns = (uint64_t)(p->deadline * 1e9);
  return o;
}

EpComm *ranks_create(Member *member, const Plan *p, int in_flight, int debug, uint64_t extra) {
  EpcommOptions o = ranks_options(member, p);
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  o.in_flight = in_flight;
  o.debug = debug;
  o.extra_bytes = extra;
  gpu_use(o.device);
  EpcommStatus s = epcomm_create(&comm, &o, text);
  if (s != EPCOMM_OK) printf("rank %d: create: %s: %s\n", member->rank, epcomm_status_name(s), text);
  return comm;
}

static int one_call(Moe *m, uint64_t n, int slot, int most, GpuStream stream) {
  int tokens = moe_tokens(m, n, m->info.rank, most);
  EpcommCall c = moe_call(m, slot, any_dtype(m, n), tokens, moe_fullest(m, n, most), n % 3 == 1);
  c.routing = (int)(n % 6);
  moe_inputs(m, n, tokens, stream);
  int bad = ranks_ended(m->comm, "dispatch", epcomm_dispatch(m->comm, &c, stream), stream);
  if (!bad) bad = moe_experts(m, &c, n, most, stream);
  if (!bad) bad = ranks_ended(m->comm, "combine", epcomm_combine(m->comm, &c, stream), stream);
  return bad ? bad : moe_combined(m, &c, n, stream);
}

static int test_calls(Member *member, void *plan) {
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 2, member->ranks > 1 && p->calls < 100, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  int bad = 0;
  for (int n = 0; n < p->calls && !bad; n++) bad = one_call(m, (uint64_t)n, n % 2, p->most, stream);
  moe_free(m);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}

typedef struct Captured {
  uint64_t n;
  EpcommCall call;
  GpuGraph dispatch, combine;
} Captured;

/* Makes a dispatch or a combine: in halves if n is odd. */
static EpcommStatus make(EpComm *comm, const EpcommCall *c, int combine, uint64_t n, GpuStream stream) {
  if (n % 2 == 0) return combine ? epcomm_combine(comm, c, stream) : epcomm_dispatch(comm, c, stream);
  EpcommStatus s = combine ? epcomm_combine_send(comm, c, stream) : epcomm_dispatch_send(comm, c, stream);
  if (s != EPCOMM_OK) return s;
  return combine ? epcomm_combine_recv(comm, c, stream) : epcomm_dispatch_recv(comm, c, stream);
}

static int capture(Moe *m, Captured *g, uint64_t n, int most, GpuStream stream) {
  g->n = n;
  g->call = moe_call(m, 0, any_dtype(m, n), moe_tokens(m, n, m->info.rank, most), moe_fullest(m, n, most), n % 2 == 1);
  gpu_capture(stream);
  EpcommStatus s = make(m->comm, &g->call, 0, n, stream);
  g->dispatch = gpu_captured(stream);
  if (s != EPCOMM_OK) return ranks_say(m->comm, "capture dispatch", s);
  gpu_capture(stream);
  s = make(m->comm, &g->call, 1, n, stream);
  g->combine = gpu_captured(stream);
  return s != EPCOMM_OK ? ranks_say(m->comm, "capture combine", s) : 0;
}

static int replay(Moe *m, const Captured *g, int most, GpuStream stream) {
  moe_inputs(m, g->n, g->call.tokens, stream);
  gpu_replay(g->dispatch, stream);
  int bad = ranks_ended(m->comm, "replay of dispatch", EPCOMM_OK, stream);
  if (!bad) bad = moe_experts(m, &g->call, g->n, most, stream);
  if (bad) return bad;
  gpu_replay(g->combine, stream);
  bad = ranks_ended(m->comm, "replay of combine", EPCOMM_OK, stream);
  return bad ? bad : moe_combined(m, &g->call, g->n, stream);
}

static int test_graphs(Member *member, void *plan) {
  const Plan *p = plan;
  Captured graphs[3];
  EpComm *comm = ranks_create(member, p, 1, 0, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  int bad = 0, counts[] = {p->most, p->most / 2 + 1, 3};
  for (int i = 0; i < 3 && !bad; i++) bad = capture(m, &graphs[i], 1000 + 3 * (uint64_t)i, counts[i], stream);
  for (int i = 0; i < p->replays && !bad; i++) {
    uint64_t h = (uint64_t)i * 0x9e3779b97f4a7c15ull >> 33;
    int which = (int)(h % 4);
    bad = which < 3 ? replay(m, &graphs[which], counts[which], stream) : one_call(m, 5000 + h % 97, 0, p->most, stream);
  }
  for (int i = 0; i < 3; i++) {
    gpu_graph_free(graphs[i].dispatch);
    gpu_graph_free(graphs[i].combine);
  }
  moe_free(m);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}

static int flight_round(Moe **m, uint64_t n, int most, GpuStream ours, GpuStream side) {
  EpcommCall c[2];
  EpcommStatus s = EPCOMM_OK;
  for (int i = 0; i < 2; i++) {
    uint64_t at = 2 * n + (uint64_t)i;
    int tokens = moe_tokens(m[i], at, m[i]->info.rank, most);
    c[i] = moe_call(m[i], i, any_dtype(m[i], n), tokens, moe_fullest(m[i], at, most), 0);
    moe_inputs(m[i], at, tokens, side);
    if (s == EPCOMM_OK) s = epcomm_dispatch_send(m[i]->comm, &c[i], side);
  }
  for (int i = 0; i < 2; i++)
    if (s == EPCOMM_OK) s = epcomm_dispatch_recv(m[i]->comm, &c[i], ours);
  int bad = ranks_ended(m[0]->comm, "dispatch in halves", s, ours);
  if (bad) return bad;
  for (int i = 0; i < 2; i++)
    if (moe_experts(m[i], &c[i], 2 * n + (uint64_t)i, most, ours)) return 1;
  gpu_wait(ours);
  for (int i = 0; i < 2; i++)
    if (s == EPCOMM_OK) s = epcomm_combine_send(m[i]->comm, &c[i], side);
  for (int i = 0; i < 2; i++)
    if (s == EPCOMM_OK) s = epcomm_combine_recv(m[i]->comm, &c[i], ours);
  bad = ranks_ended(m[0]->comm, "combine in halves", s, ours);
  if (bad) return bad;
  s = epcomm_combine_recv(m[0]->comm, &c[0], ours);
  if (s != EPCOMM_INVALID) return ranks_say(m[0]->comm, "a recv without a send", s);
  for (int i = 0; i < 2; i++)
    if (moe_combined(m[i], &c[i], 2 * n + (uint64_t)i, ours)) return 1;
  return 0;
}

static int test_flight(Member *member, void *plan) {
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 2, 0, 0);
  if (comm == NULL) return 1;
  GpuStream ours = gpu_stream(), side = gpu_stream();
  Moe *m[2] = {moe_new(comm), moe_new(comm)};
  int bad = 0;
  for (int n = 0; n < p->calls && !bad; n++) bad = flight_round(m, (uint64_t)n, p->most, ours, side);
  moe_free(m[0]);
  moe_free(m[1]);
  gpu_stream_free(ours);
  gpu_stream_free(side);
  epcomm_destroy(comm);
  return bad;
}

static int test_outputs(Member *member, void *plan) {
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 1, 0, 64u << 20);
  EpcommOutputs o;
  if (comm == NULL) return 1;
  memset(&o, 0, sizeof o);
  o.size = sizeof o;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  int bad = epcomm_outputs(comm, 0, 0, &o) != EPCOMM_OK || o.out_bytes > 64u << 20;
  uint8_t *far = gpu_alloc(o.out_bytes + 256), *scales = gpu_alloc(o.scale_bytes + 256), *small = gpu_alloc(8 * o.max_rows + 65536);
  for (int n = 0; n < p->calls && !bad; n++) {
    int tokens = moe_tokens(m, (uint64_t)n, member->rank, p->most);
    EpcommCall c = moe_call(m, 0, 0, tokens, moe_fullest(m, (uint64_t)n, p->most), 0);
    c.out = n % 2 ? far : epcomm_extra(comm);
    c.out_scales = scales;
    c.row_offsets = (uint32_t *)(void *)small;
    c.expert_ids = (int32_t *)(void *)(small + 16384);
    c.scale_offsets = (uint32_t *)(void *)(small + 32768);
    c.src_info = (int32_t *)(void *)(small + 65536);
    moe_inputs(m, (uint64_t)n, tokens, stream);
    bad = ranks_ended(comm, "dispatch", epcomm_dispatch(comm, &c, stream), stream);
    if (!bad) bad = moe_experts(m, &c, (uint64_t)n, p->most, stream);
    if (!bad) bad = ranks_ended(comm, "combine", epcomm_combine(comm, &c, stream), stream);
    if (!bad) bad = moe_combined(m, &c, (uint64_t)n, stream);
  }
  gpu_free(far);
  gpu_free(scales);
  gpu_free(small);
  moe_free(m);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}

static int test_leak(Member *member, void *plan) {
  const Plan *p = plan;
  gpu_use(ranks_device(member, p));
  size_t after[6];
  int there = 0, bad = 0, n = (int)(sizeof after / sizeof *after);
  for (int i = 0; i < n; i++) {
    EpComm *comm = ranks_create(member, p, 2, 0, 0);
    if (comm == NULL) return 1;
    epcomm_destroy(comm);
    world_gather(member, &there, (int[8]){0}, sizeof there);
    after[i] = gpu_free_bytes();
    world_gather(member, &there, (int[8]){0}, sizeof there);
    bad |= after[i] != after[0]; /* the first creation loads modules, whose memory is never freed */
  }
  for (int i = 0; bad && i < n; i++) printf("rank %d: %zu bytes free after creation %d\n", member->rank, after[i], i + 1);
  if (!bad && member->rank == 0) printf("device memory is equal before and after\n");
  return bad;
}

static int test_host(Member *member, void *plan) {
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 1, 0, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  int tokens = m->info.max_tokens < 8 ? m->info.max_tokens : 8;
  EpcommCall c = moe_call(m, 0, 0, tokens, tokens, 0);
  double best[2] = {1, 1};
  moe_inputs(m, 1, tokens, stream);
  EpcommStatus s = EPCOMM_OK;
  c.routing = EPCOMM_EVEN;
  for (int batch = 0; batch * 50 < p->calls && s == EPCOMM_OK; batch++) {
    double spent[2] = {0, 0};
    for (int i = 0; i < 50 && s == EPCOMM_OK; i++) {
      double t0 = now();
      s = epcomm_dispatch(comm, &c, stream);
      double t1 = now();
      if (s == EPCOMM_OK) s = epcomm_combine(comm, &c, stream);
      spent[0] += t1 - t0;
      spent[1] += now() - t1;
    }
    gpu_wait(stream);
    for (int op = 0; op < 2; op++)
      if (spent[op] / 50 < best[op]) best[op] = spent[op] / 50;
  }
  if (member->rank == 0) printf("host time of a call: dispatch %.2f us, combine %.2f us\n", best[0] * 1e6, best[1] * 1e6);
  int bad = s != EPCOMM_OK ? ranks_say(comm, "call", s) : 0;
  moe_free(m);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}

static int number(const char *name, const char *text) {
  char *end = NULL;
  long n = text != NULL ? strtol(text, &end, 10) : 0;
  if (text == NULL || *end != 0 || n < 0 || n > 100000000) {
    fprintf(stderr, "%s: not a number\n", name);
    exit(2);
  }
  return (int)n;
}

static Plan arguments(int argc, char **argv) {
  Plan p = {.pack = argc > 2 ? argv[1] : NULL, .calls = 20, .replays = 40, .most = 16, .deadline = 10, .seconds = 10, .seed = 1, .victims = 1, .at = "counts", .test = argc > 2 ? argv[2] : ""};
  for (int i = 3; i < argc; i++) {
    const char *name = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(name, "--processes") == 0) p.processes = 1;
    else if (strcmp(name, "--gpus") == 0) p.gpus = number(name, next), i++;
    else if (strcmp(name, "--calls") == 0) p.calls = number(name, next), i++;
    else if (strcmp(name, "--replays") == 0) p.replays = number(name, next), i++;
    else if (strcmp(name, "--most") == 0) p.most = number(name, next), i++;
    else if (strcmp(name, "--dtype") == 0) p.dtype = number(name, next), i++;
    else if (strcmp(name, "--deadline") == 0 && next != NULL) p.deadline = atof(next), i++;
    else if (strcmp(name, "--seconds") == 0 && next != NULL) p.seconds = atof(next), i++;
    else if (strcmp(name, "--seed") == 0) p.seed = number(name, next), i++;
    else if (strcmp(name, "--victims") == 0) p.victims = number(name, next), i++;
    else if (strcmp(name, "--at") == 0 && next != NULL) p.at = next, i++;
    else if (strcmp(name, "--other") == 0 && next != NULL) p.other = next, i++;
    else fprintf(stderr, "unknown argument %s\n", name), exit(2);
  }
  return p;
}

static EpcommInfo info_of(const char *path) {
  static uint8_t data[1 << 26];
  FILE *f = fopen(path, "rb");
  size_t n = f != NULL ? fread(data, 1, sizeof data, f) : 0;
  EpcommInfo info = {.size = sizeof info};
  char text[EPCOMM_TEXT] = "cannot open";
  if (f != NULL) fclose(f);
  if (n > 0 && epcomm_check_pack(data, n, &info, text) == EPCOMM_OK) return info;
  fprintf(stderr, "%s: %s\n", path, text);
  exit(2);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    Test test;
  } tests[] = {{"calls", test_calls}, {"graphs", test_graphs}, {"flight", test_flight}, {"outputs", test_outputs},
               {"leak", test_leak},   {"host", test_host},     {"chain", test_chain}, {"any-order", test_any_order},
               {"arguments", test_arguments}, {"lost", test_lost}, {"grow", test_grow}, {"refuse", test_refuse}, {"killing", test_killing},
               {"wrap", test_wrap},   {"mixed", test_mixed},   {"spoiled", test_spoiled}, {"soak", test_soak},
               {"nodes", test_nodes}, {"refusals", test_refusals}, {"left", test_left},
               {"crashed", test_crashed}, {"unfilled", test_unfilled}};
  Plan p = arguments(argc, argv);
  int dead = 0;
  Test test = faults_find(p.test, &dead);
  if (test == NULL) test = settings_find(p.test);
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
    if (strcmp(p.test, tests[i].name) == 0) test = tests[i].test;
  if (p.pack == NULL || test == NULL) {
    fprintf(stderr, "usage: epcomm-test PACK TEST; the tests are listed in ranks.c\n");
    return 2;
  }
  EpcommInfo info = info_of(p.pack);
  p.ranks = info.ranks;
  p.nodes = info.nodes;
  if (test == test_lost) dead = p.victims;
  uint64_t victims = ((1ull << dead) - 1) << (p.ranks - dead);
  double start = now();
  int bad = world_run(p.ranks, p.processes, victims, test, &p);
  for (int again = 0; bad == RANKS_SLOW && again < 4; again++) {
    p.deadline *= 2;
    printf("%s: once more, with a deadline of %g s\n", p.test, p.deadline);
    fflush(stdout);
    bad = world_run(p.ranks, p.processes, victims, test, &p);
  }
  printf("%s: %s, %d ranks on %d nodes as %s, %.1f s\n", p.test, bad ? "WRONG" : "right", p.ranks, p.nodes,
         p.processes ? "processes" : "threads", now() - start);
  return bad;
}
