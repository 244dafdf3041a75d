/* Tests structs of older and later versions of epcomm.h, and tensors that a kernel would misread. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ranks.h"

typedef struct LaterCall {
  EpcommCall call;
  uint64_t later;
} LaterCall;

typedef struct LaterOptions {
  EpcommOptions options;
  uint64_t later;
} LaterOptions;

/* Returns 0 if a dispatch returns `status` and a text that contains `words`. */
static int want(EpComm *comm, const EpcommCall *c, EpcommStatus status, const char *words, const char *what) {
  EpcommStatus s = epcomm_dispatch(comm, c, NULL);
  if (s == status && strstr(epcomm_error(comm), words) != NULL) return 0;
  printf("%s: %s, %s; want %s, %s\n", what, epcomm_status_name(s), epcomm_error(comm), epcomm_status_name(status), words);
  return 1;
}

static int refused(Moe *m) {
  LaterCall later = {moe_call(m, 0, 0, 1, 1, 0), 1};
  EpcommCall c = later.call;
  int bad = 0;
  later.call.size = sizeof later;
  bad |= want(m->comm, &later.call, EPCOMM_INVALID, "that this library does not know", "a value that this library does not know");
  c.size = offsetof(EpcommCall, rows) - 8;
  bad |= want(m->comm, &c, EPCOMM_INVALID, "set size to", "a struct smaller than the first");
  c = moe_call(m, 0, 0, 1, 1, 0);
  c.x = (const char *)c.x + 2;
  bad |= want(m->comm, &c, EPCOMM_INVALID, "is not a multiple of 16", "x at an odd place");
  c = moe_call(m, 0, 0, 1, 1, 0);
  c.combined = (char *)c.combined + 8;
  bad |= want(m->comm, &c, EPCOMM_INVALID, "combined", "combined at an odd place");
  c = moe_call(m, 0, 0, 1, 1, 0);
  c.weights = (const float *)(const void *)((const char *)c.weights + 2);
  return bad | want(m->comm, &c, EPCOMM_INVALID, "is not a multiple of 4", "weights at an odd place");
}

static int outside(Moe *m) {
  const int most = m->info.max_tokens;
  EpcommOutputs o = {.size = sizeof o};
  epcomm_outputs(m->comm, 0, 0, &o);
  EpcommCall c[9];
  for (int i = 0; i < 9; i++) c[i] = moe_call(m, 0, 0, 2, 2, 0);
  for (int i = 6; i < 9; i++) {
    c[i].out = o.out;
    c[i].out_scales = o.out;
    c[i].row_offsets = o.row_offsets;
    c[i].expert_ids = o.expert_ids;
    c[i].src_info = o.src_info;
    c[i].scale_offsets = o.row_offsets;
  }
  c[0].fullest = 1;
  c[1].fullest = most + 1;
  c[2].fullest = 0, c[2].tokens = most + 1;
  c[3].slot = 1;
  c[4].ids_bits = 16;
  c[5].purpose = EPCOMM_FOR_HALVES + 1;
  c[6].expert_ids = NULL;
  c[7].src_info = NULL;
  c[8].row_offsets = NULL;
  static const char *const words[9] = {"fullest: 1", "fullest: ", "tokens: ", "slot: 1", "ids_bits: 16", "purpose", "outputs", "outputs", "outputs"};
  int bad = 0;
  for (int i = 0; i < 9; i++) bad |= want(m->comm, &c[i], EPCOMM_INVALID, words[i], words[i]);
  return bad;
}

static int elsewhere(Moe *m, const EpcommOptions *o) {
  EpcommCall c = moe_call(m, 0, 0, 1, 1, 0);
  gpu_use((o->device + 1) % o->ranks);
  void *x = gpu_alloc(4096);
  gpu_use(o->device);
  c.x = x;
  int bad = want(m->comm, &c, EPCOMM_INVALID, "this rank runs on GPU", "x on another GPU");
  gpu_use((o->device + 1) % o->ranks);
  gpu_free(x);
  gpu_use(o->device);
  return bad;
}

static int accepted(Moe *m, GpuStream stream) {
  LaterCall later = {moe_call(m, 0, 0, 1, 1, 0), 0};
  EpcommCall older = later.call;
  later.call.size = sizeof later;
  older.size = offsetof(EpcommCall, rows);
  older.rows = 1;
  moe_inputs(m, 1, 1, stream);
  for (int i = 0; i < 2; i++) {
    const EpcommCall *c = i == 0 ? &older : &later.call;
    EpcommStatus s = epcomm_dispatch(m->comm, c, stream);
    if (s == EPCOMM_OK) s = epcomm_combine(m->comm, c, stream);
    gpu_wait(stream);
    if (s != EPCOMM_OK) return ranks_say(m->comm, i == 0 ? "a struct of an older header" : "a struct of a later header", s);
  }
  return epcomm_fault(m->comm, NULL) != EPCOMM_OK;
}

static int options(Member *member, const Plan *p) {
  LaterOptions later = {ranks_options(member, p), 1};
  EpComm *comm = NULL;
  char text[EPCOMM_TEXT];
  later.options.size = sizeof later;
  int bad = epcomm_create(&comm, &later.options, text) != EPCOMM_INVALID || strstr(text, "does not know must be 0") == NULL;
  later.later = 0;
  if (bad || epcomm_create(&comm, &later.options, text) != EPCOMM_OK) return printf("rank %d, options of a later header: %s\n", member->rank, text), 1;
  return epcomm_destroy(comm) != EPCOMM_OK;
}

int test_arguments(Member *member, void *plan) {
  const Plan *p = plan;
  if (options(member, p)) return 1;
  EpcommOptions o = ranks_options(member, p);
  EpComm *comm = ranks_create(member, p, 1, 1, 0);
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  Moe *m = moe_new(comm);
  int bad = refused(m) | outside(m) | elsewhere(m, &o) | accepted(m, stream);
  moe_free(m);
  gpu_stream_free(stream);
  return bad | (epcomm_destroy(comm) != EPCOMM_OK);
}
