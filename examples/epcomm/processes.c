/* Runs dispatch and combine of one layer, with one process for each GPU.
 *
 *   cc -Inative/epcomm/include examples/epcomm/processes.c -Lbin/epcomm -lepcomm -ldl
 *   ./a.out model.pack
 *
 * An engine would pass its own all-gather, and call the CUDA runtime where this example calls gpu.h.
 */
#include <epcomm.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h" /* in native/epcomm/gpu */

typedef struct Shared {
  int wrote[8], read[8];
  unsigned char data[8][4096];
} Shared;

typedef struct Rank {
  Shared *shared;
  int rank, ranks, turn;
} Rank;

static void await(const int *turns, int ranks, int turn) {
  for (int r = 0; r < ranks; r++)
    while (__atomic_load_n(&turns[r], __ATOMIC_ACQUIRE) < turn) sched_yield();
}

static int all_gather(void *context, const void *mine, void *all, size_t bytes) {
  Rank *me = context;
  if (bytes > sizeof me->shared->data[0]) return 1;
  me->turn++;
  memcpy(me->shared->data[me->rank], mine, bytes);
  __atomic_store_n(&me->shared->wrote[me->rank], me->turn, __ATOMIC_RELEASE);
  await(me->shared->wrote, me->ranks, me->turn);
  for (int r = 0; r < me->ranks; r++) memcpy((char *)all + (size_t)r * bytes, me->shared->data[r], bytes);
  __atomic_store_n(&me->shared->read[me->rank], me->turn, __ATOMIC_RELEASE);
  await(me->shared->read, me->ranks, me->turn);
  return 0;
}

static int fail(const char *what, const char *text) {
  fprintf(stderr, "%s: %s\n", what, text);
  return 1;
}

/* Runs one layer. All values are 1 and a token's weights add up to 1, so every combined value must be 1. */
static int layer(EpComm *comm, const EpcommInfo *info, int tokens) {
  size_t hidden = (size_t)info->hidden, topk = (size_t)info->topk, n = (size_t)tokens;
  GpuStream stream = gpu_stream();
  EpcommOutputs rows = {0};
  rows.size = sizeof rows;
  epcomm_outputs(comm, 0, EPCOMM_BF16, &rows);
  uint16_t *x = malloc(2 * n * hidden);
  int32_t *ids = malloc(4 * n * topk);
  float *weights = malloc(4 * n * topk);
  for (size_t i = 0; i < n * hidden; i++) x[i] = 0x3f80;
  for (size_t i = 0; i < n * topk; i++) {
    ids[i] = (int32_t)((i * 7 + (size_t)info->rank) % (size_t)info->experts);
    if (i % topk > 0) ids[i] = (ids[i - 1] + 1) % info->experts; /* distinct within a token */
    weights[i] = 1.0f / (float)topk;
  }
  EpcommCall call = {0};
  call.size = sizeof call;
  call.dtype = EPCOMM_BF16;
  call.tokens = call.fullest = tokens;
  void *dx = gpu_alloc(2 * n * hidden), *dids = gpu_alloc(4 * n * topk), *dweights = gpu_alloc(4 * n * topk);
  void *combined = gpu_alloc(2 * n * hidden);
  gpu_upload(dx, x, 2 * n * hidden, stream);
  gpu_upload(dids, ids, 4 * n * topk, stream);
  gpu_upload(dweights, weights, 4 * n * topk, stream);
  call.x = dx;
  call.topk_ids = dids;
  call.weights = dweights;
  if (epcomm_dispatch(comm, &call, stream) != EPCOMM_OK) return fail("dispatch", epcomm_error(comm));
  call.y = rows.out; /* a real layer computes its experts here */
  call.combined = combined;
  if (epcomm_combine(comm, &call, stream) != EPCOMM_OK) return fail("combine", epcomm_error(comm));
  gpu_download(x, combined, 2 * n * hidden, stream);
  if (epcomm_fault(comm, NULL) != EPCOMM_OK) return fail("fault", epcomm_error(comm));
  for (size_t i = 0; i < n * hidden; i++)
    if (x[i] != 0x3f80 && x[i] != 0x3f7f && x[i] != 0x3f81) return fail("combined", "not 1");
  printf("rank %d: %d tokens went to %d experts and came back\n", info->rank, tokens, info->experts);
  gpu_free(dx), gpu_free(dids), gpu_free(dweights), gpu_free(combined);
  gpu_stream_free(stream);
  free(x), free(ids), free(weights);
  return 0;
}

static int run(Rank *me, const char *pack) {
  EpcommOptions o = {0};
  EpComm *comm = NULL;
  EpcommInfo info = {0};
  char text[EPCOMM_TEXT];
  o.size = sizeof o;
  o.pack = pack;
  o.rank = o.device = me->rank;
  o.ranks = me->ranks;
  o.all_gather = all_gather;
  o.context = me;
  if (epcomm_create(&comm, &o, text) != EPCOMM_OK) return fail("create", text);
  info.size = sizeof info;
  epcomm_info(comm, &info);
  gpu_use(me->rank);
  int bad = layer(comm, &info, info.max_tokens < 16 ? info.max_tokens : 16);
  epcomm_destroy(comm);
  return bad;
}

int main(int argc, char **argv) {
  static unsigned char data[1 << 26];
  EpcommInfo info = {0};
  char text[EPCOMM_TEXT] = "cannot read the pack";
  FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
  size_t n = f != NULL ? fread(data, 1, sizeof data, f) : 0;
  info.size = sizeof info;
  if (n == 0 || epcomm_check_pack(data, n, &info, text) != EPCOMM_OK) return fail("pack", text);
  Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int r = 0; r < info.ranks; r++) {
    Rank me = {shared, r, info.ranks, 0};
    if (fork() == 0) return run(&me, argv[1]);
  }
  int bad = 0, status = 0;
  while (wait(&status) > 0) bad |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return bad;
}
