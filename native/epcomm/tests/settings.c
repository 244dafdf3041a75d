/* Tests options, and on which machines a pack is accepted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "ranks.h"

static int differs(const char *what, int got, int want) {
  if (got == want) return 0;
  printf("%s: %d, want %d\n", what, got, want);
  return 1;
}

static int refused(Member *member, const EpcommOptions *o, EpcommStatus want, const char *words) {
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  EpcommStatus s = epcomm_create(&comm, o, text);
  if (s == want && comm == NULL && strstr(text, words) != NULL) return 0;
  printf("rank %d: %s: %s; want %s, %s\n", member->rank, epcomm_status_name(s), text, epcomm_status_name(want), words);
  if (comm != NULL) epcomm_destroy(comm);
  return 1;
}

static int limits(Member *member, void *plan) {
  EpcommOptions o[14];
  for (int i = 0; i < 14; i++) o[i] = ranks_options(member, plan);
  o[0].in_flight = EPCOMM_MAX_SLOTS + 1;
  o[1].in_flight = -1;
  o[2].streams = 2;
  o[3].routing = EPCOMM_ALL_ROUTINGS + 1;
  o[4].routing = -1;
  o[5].deadline_ns = 999999;
  o[6].extra_bytes = ((uint64_t)1 << 40) + 1;
  o[7].nodes = o[7].ranks + 1;
  o[8].device = -1;
  o[9].max_sms = 1;
  o[10].dtypes = 1u << EPCOMM_BF16 | 1u << EPCOMM_MXFP4;
  o[11].survivors = EPCOMM_DROP;
  o[12].pack_data = o[12].pack;
  o[13].device = 1000;
  static const char *const words[14] = {"in_flight: 9", "in_flight: -1", "streams: 2", "routing: 6", "routing: -1", "less than 1 ms", "extra_bytes",
                                        "nodes: ", "device: -1", "max-sms 1", "dtypes", "survivors", "either", "device: 1000"};
  int bad = 0;
  for (int i = 0; i < 14; i++)
    bad |= refused(member, &o[i], i == 13 ? EPCOMM_MACHINE : i >= 9 && i < 12 ? EPCOMM_PACK : EPCOMM_INVALID, words[i]);
  return bad;
}

static int defaults(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  EpcommInfo i = {.size = sizeof i};
  EpcommOutputs outputs = {.size = sizeof outputs};
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  o.deadline_ns = 0;
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", member->rank, text), 1;
  epcomm_info(comm, &i);
  int bad = differs("the default deadline in ms", (int)(comm->options.deadline_ns / 1000000), 10000);
  bad |= differs("the default in_flight", i.in_flight, 1) | differs("the rank", i.rank, member->rank) | differs("the ranks", i.ranks, member->ranks);
  bad |= differs("local experts of all ranks", i.local_experts * i.ranks, i.experts);
  bad |= differs("dtypes", (int)i.dtypes, 1 << EPCOMM_BF16 | 1 << EPCOMM_FP8) | differs("the default dtype", i.default_dtype, EPCOMM_BF16);
  bad |= differs("a slot beyond in_flight", epcomm_outputs(comm, 1, 0, &outputs), EPCOMM_INVALID);
  bad |= differs("extra memory that nobody asked for", epcomm_extra(comm) != NULL, 0);
  return bad | (epcomm_destroy(comm) != EPCOMM_OK);
}

/* Creates an EpComm for fp8 only, with own_outputs. Calls with another dtype or without outputs must be refused. */
static int one_dtype(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  EpcommInfo i = {.size = sizeof i, .survivors = 77};
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  gpu_use(o.device);
  o.dtypes = 1u << EPCOMM_FP8;
  o.own_outputs = 1;
  i.size = offsetof(EpcommInfo, survivors);
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", member->rank, text), 1;
  epcomm_info(comm, &i);
  int bad = differs("dtypes", (int)i.dtypes, 1 << EPCOMM_FP8) | differs("the default dtype", i.default_dtype, EPCOMM_FP8);
  bad |= differs("a member behind the caller's struct", i.survivors, 77) | differs("the size", (int)i.size, (int)offsetof(EpcommInfo, survivors));
  Moe *m = moe_new(comm);
  EpcommCall c = moe_call(m, 0, EPCOMM_BF16, 1, 1, 0);
  bad |= differs("a call of another dtype", epcomm_dispatch(comm, &c, NULL), EPCOMM_INVALID);
  c.dtype = 0;
  bad |= differs("a call without outputs", epcomm_dispatch(comm, &c, NULL), EPCOMM_INVALID);
  bad |= strstr(epcomm_error(comm), "own_outputs") == NULL;
  moe_free(m);
  return bad | (epcomm_destroy(comm) != EPCOMM_OK);
}

static int mixed_up(void *member, const void *mine, void *all, size_t bytes) {
  const Member *s = member;
  uint8_t *right = malloc((size_t)s->ranks * bytes);
  int failed = world_gather(member, mine, right, bytes);
  for (int r = 0; r < s->ranks; r++) memcpy((uint8_t *)all + (size_t)r * bytes, right + (size_t)(s->ranks - 1 - r) * bytes, bytes);
  free(right);
  return failed;
}

static int gathers(Member *member, void *plan) {
  EpcommOptions o = ranks_options(member, plan);
  o.all_gather = mixed_up;
  return refused(member, &o, EPCOMM_DISAGREE, "where the data of rank");
}

static int test_limits(Member *member, void *plan) { return limits(member, plan) | gathers(member, plan) | defaults(member, plan) | one_dtype(member, plan); }

static EpcommExplanation explained(Moe *m, int fullest, int routing, void *out) {
  EpcommExplanation e = {.size = sizeof e};
  EpcommCall c = moe_call(m, 0, 0, 0, fullest, 0);
  c.routing = routing;
  c.out = out;
  if (out != NULL) c.row_offsets = (uint32_t *)out, c.expert_ids = c.src_info = (int32_t *)out, c.scale_offsets = (uint32_t *)out;
  if (epcomm_explain(m->comm, &c, &e) != EPCOMM_OK) printf("explain: %s\n", epcomm_error(m->comm));
  return e;
}

static int same(const EpcommExplanation *a, const EpcommExplanation *b) {
  return a->plan == b->plan && a->first == b->first && a->last == b->last && strcmp(a->why, b->why) == 0 && strcmp(a->dispatch, b->dispatch) == 0;
}

/* Checks that a call without a routing gets the kernels of routing `stands_for`. Returns the number of token counts for
 * which EPCOMM_EVEN and EPCOMM_ALL_ROUTINGS have different kernels, or -1 after a failure. */
static int without_routing(Member *member, void *plan, int routing, int stands_for) {
  EpcommOptions o = ranks_options(member, plan);
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  gpu_use(o.device);
  o.routing = routing;
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", member->rank, text), -1;
  Moe *m = moe_new(comm);
  int other = 0, bad = 0;
  for (int n = 1; n <= m->info.max_tokens; n++) {
    EpcommExplanation none = explained(m, n, 0, NULL), of = explained(m, n, stands_for, NULL);
    EpcommExplanation even = explained(m, n, EPCOMM_EVEN, NULL), all = explained(m, n, EPCOMM_ALL_ROUTINGS, NULL);
    bad |= !same(&none, &of) || none.first > n || none.last < n;
    other += !same(&even, &all);
  }
  if (bad) printf("options.routing %d: a call without a routing gets other kernels than a call of routing %d\n", routing, stands_for);
  moe_free(m);
  return epcomm_destroy(comm) != EPCOMM_OK || bad ? -1 : other;
}

/* Checks that the ranges of token counts have no gaps. Checks that only outputs that end within epcomm_extra
 * get the kernels for outputs on the heap. */
static int runs(Member *member, void *plan) {
  EpComm *comm = ranks_create(member, plan, 1, 0, 1u << 20);
  if (comm == NULL) return 1;
  EpcommOutputs o = {.size = sizeof o};
  epcomm_outputs(comm, 0, 0, &o);
  Moe *m = moe_new(comm);
  uint8_t *extra = epcomm_extra(comm);
  int bad = 0, elsewhere = 0;
  for (int n = 1; n < m->info.max_tokens; n++) {
    EpcommExplanation e = explained(m, n, EPCOMM_EVEN, NULL), next = explained(m, n + 1, EPCOMM_EVEN, NULL);
    bad |= n < e.last ? !same(&e, &next) : n != e.last || next.first != n + 1;
  }
  if (bad) printf("rank %d: runs of token counts do not follow each other\n", member->rank);
  for (int n = 1; n <= m->info.max_tokens; n++) {
    EpcommExplanation within = explained(m, n, EPCOMM_EVEN, extra), ends = explained(m, n, EPCOMM_EVEN, extra + (1u << 20) - o.out_bytes);
    EpcommExplanation over = explained(m, n, EPCOMM_EVEN, extra + (1u << 20) - o.out_bytes + 16), far = explained(m, n, EPCOMM_EVEN, m->dy);
    if (!same(&within, &ends) || !same(&over, &far)) bad |= printf("rank %d: %d tokens: outputs that end at the end of epcomm_extra, or 16 bytes behind it, get the wrong plan\n", member->rank, n);
    elsewhere += within.plan != far.plan;
  }
  if (elsewhere == 0) bad |= printf("the pack has no plan for outputs elsewhere\n");
  moe_free(m);
  return bad | (epcomm_destroy(comm) != EPCOMM_OK);
}

static int test_answers(Member *member, void *plan) {
  int even = without_routing(member, plan, EPCOMM_EVEN, EPCOMM_EVEN), none = without_routing(member, plan, 0, EPCOMM_ALL_ROUTINGS);
  if (even < 1 || none < 1) return printf("EPCOMM_EVEN and EPCOMM_ALL_ROUTINGS have different kernels for %d token counts with options.routing, for %d without it; want at least 1 each\n", even, none), 1;
  return runs(member, plan);
}

static int of_another_plan(Moe *m) {
  EpcommExplanation first = explained(m, 1, EPCOMM_EVEN, NULL);
  for (int n = 2; n <= m->info.max_tokens; n++)
    if (explained(m, n, EPCOMM_EVEN, NULL).plan != first.plan) return n;
  printf("the pack has only one plan\n");
  return 1;
}

static int refuses(EpComm *comm, EpcommStatus s, const char *words) {
  if (s == EPCOMM_INVALID && strstr(epcomm_error(comm), words) != NULL) return 0;
  printf("%s: %s; want %s\n", epcomm_status_name(s), epcomm_error(comm), words);
  return 1;
}

/* Checks that a recv needs the plan of its send. A combine needs the plan of its dispatch, unless the layout allows
 * any order. */
static int test_fits(Member *member, void *plan) {
  EpComm *comm = ranks_create(member, plan, 1, 0, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  EpcommCall few = moe_call(m, 0, 0, 1, 1, 0), many = moe_call(m, 0, 0, 1, of_another_plan(m), 0);
  EpcommOutputs o = {.size = sizeof o};
  epcomm_outputs(comm, 0, 0, &o);
  int any_order = m->info.layout >= EPCOMM_LAYOUT_MASKED;
  if (any_order) few.y = many.y = o.out;
  few.routing = many.routing = EPCOMM_EVEN;
  moe_inputs(m, 1, 1, stream);
  int bad = epcomm_dispatch_send(comm, &few, stream) != EPCOMM_OK;
  bad |= refuses(comm, epcomm_dispatch_recv(comm, &many, stream), any_order ? "the send took plan" : "the dispatch before took plan");
  bad |= epcomm_dispatch_recv(comm, &few, stream) != EPCOMM_OK;
  bad |= refuses(comm, epcomm_dispatch_recv(comm, &few, stream), "recv without a send");
  if (!any_order) bad |= refuses(comm, epcomm_combine(comm, &many, stream), "the dispatch before took plan");
  bad |= epcomm_combine_send(comm, &few, stream) != EPCOMM_OK;
  bad |= epcomm_combine_recv(comm, &few, stream) != EPCOMM_OK;
  bad |= ranks_ended(comm, "combine", EPCOMM_OK, stream);
  moe_free(m);
  gpu_stream_free(stream);
  return bad | (epcomm_destroy(comm) != EPCOMM_OK);
}

static int moved(void *before, const char *what) {
  if (gpu_current() == before) return 0;
  printf("%s leaves another context current\n", what);
  gpu_use(0);
  return 1;
}

static int test_context(Member *member, void *plan) {
  const Plan *p = plan;
  EpcommOptions o = ranks_options(member, p);
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  gpu_use(o.device);
  GpuStream stream = gpu_stream();
  uint64_t *at = gpu_alloc(8);
  gpu_use((o.device + 1) % o.ranks);
  void *before = gpu_current();
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return printf("rank %d: %s\n", member->rank, text), 1;
  int bad = moved(before, "create");
  gpu_use(o.device);
  Moe *m = moe_new(comm);
  moe_inputs(m, 1, 1, stream);
  gpu_wait(stream);
  EpcommCall c = moe_call(m, 0, 0, 1, 1, 0);
  gpu_use((o.device + 1) % o.ranks);
  EpcommStatus s = epcomm_dispatch(comm, &c, stream);
  bad |= s != EPCOMM_OK || moved(before, "dispatch");
  s = epcomm_combine(comm, &c, stream);
  bad |= s != EPCOMM_OK || moved(before, "combine");
  s = epcomm_barrier(comm, stream);
  bad |= s != EPCOMM_OK || moved(before, "barrier");
  s = epcomm_stamp(comm, at, stream);
  bad |= s != EPCOMM_OK || moved(before, "stamp");
  s = epcomm_reset(comm);
  bad |= s != EPCOMM_OK || moved(before, "reset");
  gpu_use(o.device);
  moe_free(m);
  gpu_free(at);
  gpu_stream_free(stream);
  gpu_use((o.device + 1) % o.ranks);
  s = epcomm_destroy(comm);
  return bad | (s != EPCOMM_OK) | moved(before, "destroy");
}

/* Calls epcomm_stop on an idle rank. The others must end their waits long before the deadline. */
static int test_stop(Member *member, void *plan) {
  const Plan *p = plan;
  EpComm *comm = ranks_create(member, p, 1, 0, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  int bad = 0;
  if (ranks_is_last(member)) {
    bad |= epcomm_stop(comm) != EPCOMM_OK;
  } else {
    EpcommCall c = moe_call(m, 0, 0, 1, 1, 0);
    moe_inputs(m, 1, 1, stream);
    double begin = gpu_seconds();
    EpcommStatus s = epcomm_dispatch(comm, &c, stream);
    gpu_wait(stream);
    double took = gpu_seconds() - begin;
    bad |= took > p->deadline;
    if (bad) printf("rank %d: stopped after %.1f s: %s\n", member->rank, took, epcomm_status_name(s));
  }
  EpcommStatus s = epcomm_reset(comm);
  bad |= s != EPCOMM_OK ? ranks_say(comm, "reset", s) : ranks_right(m, p->most, stream);
  moe_free(m);
  gpu_stream_free(stream);
  return bad | (epcomm_destroy(comm) != EPCOMM_OK);
}

static void for_machine(uint8_t *data, size_t bytes, uint32_t major, uint32_t minor, int exact) {
  PackHeader h;
  memcpy(&h, data, sizeof h);
  h.major = major;
  h.minor = minor;
  h.flags = exact ? h.flags | PACK_EXACT : h.flags & ~(uint32_t)PACK_EXACT;
  memcpy(data, &h, sizeof h);
  sha256(data + PACK_DIGEST_FROM, bytes - PACK_DIGEST_FROM, data + offsetof(PackHeader, digest));
}

/* Checks that a pack is accepted on later GPUs of the generation, unless it is only for one compute capability. */
static int test_machines(Member *member, void *plan) {
  static const struct {
    uint32_t major, minor;
    int exact;
    const char *gpu, *sms;
    EpcommStatus want;
    const char *words;
  } cases[] = {
      {8, 6, 0, "80", "4", EPCOMM_MACHINE, "arch: "},  {8, 0, 0, "86", "4", EPCOMM_OK, ""}, {8, 0, 1, "86", "4", EPCOMM_MACHINE, "arch: "},
      {9, 0, 1, "90", "4", EPCOMM_OK, ""},             {9, 0, 0, "100", "4", EPCOMM_MACHINE, "arch: "},
      {9, 0, 0, "89", "4", EPCOMM_MACHINE, "arch: "},  {9, 0, 1, "90", "3", EPCOMM_MACHINE, "GPU %d has 3; make a pack with --max-sms 3"},
  };
  EpcommOptions o = ranks_options(member, plan);
  FILE *f = fopen(o.pack, "rb");
  uint8_t *data = malloc(1 << 26);
  size_t n = f != NULL ? fread(data, 1, 1 << 26, f) : 0;
  int bad = f == NULL || fclose(f) != 0 || n < sizeof(PackHeader);
  o.pack = NULL;
  o.pack_data = data;
  o.pack_bytes = n;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0] && !bad; i++) {
    EpComm *comm = NULL;
    char text[EPCOMM_TEXT] = "";
    setenv("EMUL_ARCH", cases[i].gpu, 1);
    setenv("EMUL_SMS", cases[i].sms, 1);
    for_machine(data, n, cases[i].major, cases[i].minor, cases[i].exact);
    EpcommStatus s = epcomm_create(&comm, &o, text);
    char words[64];
    snprintf(words, sizeof words, cases[i].words, o.device);
    bad = s != cases[i].want || strstr(text, words) == NULL;
    if (bad) printf("a pack for %u.%u%s on a GPU %s with %s SMs: %s: %s\n", cases[i].major, cases[i].minor, cases[i].exact ? " only" : "",
                    cases[i].gpu, cases[i].sms, epcomm_status_name(s), text);
    if (s == EPCOMM_OK) bad |= epcomm_destroy(comm) != EPCOMM_OK;
  }
  free(data);
  return bad;
}

Test settings_find(const char *name) {
  static const struct {
    const char *name;
    Test test;
  } tests[] = {{"limits", test_limits}, {"answers", test_answers}, {"fits", test_fits}, {"context", test_context}, {"stop", test_stop}, {"machines", test_machines}};
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
    if (strcmp(name, tests[i].name) == 0) return tests[i].test;
  return NULL;
}
