/* Tests combines in any order, which layout masked allows. */
#include "any.h"
#include "ranks.h"

typedef struct Own {
  Moe *m;
  EpcommCall call;
  void *at[6];
} Own;

static void own_new(Own *o, EpComm *comm) {
  EpcommOutputs q = {.size = sizeof q};
  epcomm_outputs(comm, 0, EPCOMM_BF16, &q);
  o->m = moe_new(comm);
  uint64_t bytes[6] = {q.out_bytes, q.scale_bytes, 4 * ((uint64_t)o->m->info.groups + 1), q.expert_ids_bytes, q.src_info_bytes,
                       q.scale_offsets_bytes};
  for (int i = 0; i < 6; i++) o->at[i] = gpu_alloc(bytes[i] + 64);
}

static void own_call(Own *o, int tokens, int wide) {
  o->call = moe_call(o->m, 0, EPCOMM_BF16, tokens, 0, wide);
  o->call.out = o->at[0];
  o->call.out_scales = o->at[1];
  o->call.row_offsets = o->at[2];
  o->call.expert_ids = o->at[3];
  o->call.src_info = o->at[4];
  o->call.scale_offsets = o->at[5];
  o->call.y = o->call.out;
}

static void own_free(Own *o) {
  for (int i = 0; i < 6; i++) gpu_free(o->at[i]);
  moe_free(o->m);
}

static int two_calls(Own *own, const Plan *p, int wide, GpuStream stream) {
  static const int order[] = {0, 1, 1, 0};
  EpComm *comm = own[0].m->comm;
  EpcommStatus s = EPCOMM_OK;
  for (int i = 0; i < 2; i++) {
    own_call(&own[i], p->most / (1 + i), wide);
    moe_inputs(own[i].m, (uint64_t)(2 * wide + i), own[i].call.tokens, stream);
    if (s == EPCOMM_OK) s = epcomm_dispatch(comm, &own[i].call, stream);
  }
  for (int i = 0; i < 4; i++)
    if (s == EPCOMM_OK) s = epcomm_combine(comm, &own[order[i]].call, stream);
  int bad = ranks_ended(comm, wide ? "ids of 64 bits" : "ids of 32 bits", s, stream);
  for (int i = 0; i < 2 && !bad; i++) bad = any_combined(own[i].m, &own[i].call, (uint64_t)(2 * wide + i), stream);
  return bad;
}

int test_any_order(Member *member, void *plan) {
  EpComm *comm = ranks_create(member, plan, 1, 0, 0);
  Own own[2] = {{0}, {0}};
  if (comm == NULL) return 1;
  GpuStream stream = gpu_stream();
  for (int i = 0; i < 2; i++) own_new(&own[i], comm);
  int bad = 0;
  for (int wide = 0; wide < 2 && !bad; wide++) bad = two_calls(own, plan, wide, stream);
  for (int i = 0; i < 2; i++) own_free(&own[i]);
  gpu_stream_free(stream);
  epcomm_destroy(comm);
  return bad;
}
