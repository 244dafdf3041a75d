#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "ep_shim.h"
#include "ep_product.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void ep_describe(int result, char text[EP_TEXT_BYTES]) {
  const char *name = NULL, *words = NULL;
  cuGetErrorName((CUresult)result, &name);
  cuGetErrorString((CUresult)result, &words);
  snprintf(text, EP_TEXT_BYTES, "%s (%s)", name ? name : "unknown CUDA error", words ? words : "no description");
}

/* Runs before Go and the driver start.
 * - It makes CUDA load kernels early. To load a kernel later, CUDA may wait until the GPU is idle, which may never
 *   happen if a kernel on it waits for another rank.
 * - It sets 32 hardware queues, so that ranks that share a GPU have a queue each. With one queue, the
 *   first rank's kernel would wait for the second rank, whose kernel could not start before the first one ends.
 * - If there is no usable driver, it prints a line to stderr and ends the process. Without this, the Go package cu
 *   would print to stdout, where only messages of the worker protocol may appear. */
__attribute__((constructor)) static void ep_start(void) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  CUresult r = cuInit(0);
  if (r == CUDA_SUCCESS) return;
  char text[EP_TEXT_BYTES];
  ep_describe((int)r, text);
  fprintf(stderr, "no usable CUDA driver: cuInit: %s\n", text);
  exit(1);
}

/* ---- set-up ---- */

int ep_function(uint64_t function, uint32_t block, uint32_t shared, EpFunction *out) {
  CUfunction f = (CUfunction)(uintptr_t)function;
  CUresult r = CUDA_SUCCESS;
  int most = 0;
  size_t stack = 0;
  /* Raise the function's limit of shared memory, but never lower it: several configs may use the function, with
   * different sizes of shared memory. */
  r = cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f);
  if (r == CUDA_SUCCESS && (int)shared > most)
    r = cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
  if (r == CUDA_SUCCESS) r = cuFuncGetAttribute(&out->registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
  if (r == CUDA_SUCCESS) r = cuFuncGetAttribute(&out->local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f);
  if (r == CUDA_SUCCESS) r = cuFuncGetAttribute(&out->max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
  if (r == CUDA_SUCCESS)
    r = cuOccupancyMaxActiveBlocksPerMultiprocessor(&out->blocks_per_sm, f, (int)block, shared);
  /* Enlarge the stack now. If a launch had to enlarge it, the driver would wait until the device is idle. That never
   * happens while a kernel on the device waits for another rank. */
  if (r == CUDA_SUCCESS) r = cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE);
  if (r == CUDA_SUCCESS && (size_t)out->local_bytes > stack)
    r = cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (size_t)out->local_bytes);
  return (int)r;
}

int ep_host_alloc(size_t bytes, void **host, uint64_t *device) {
  CUdeviceptr d = 0;
  CUresult r = cuMemHostAlloc(host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (r != CUDA_SUCCESS) return (int)r;
  memset(*host, 0, bytes);
  r = cuMemHostGetDevicePointer(&d, *host, 0);
  *device = (uint64_t)d;
  return (int)r;
}

int ep_host_free(void *host) { return (int)cuMemFreeHost(host); }

int ep_streams(EpStreams *out) {
  int least = 0, greatest = 0;
  CUstream calls = NULL, side = NULL;
  CUevent forked = NULL, joined = NULL;
  CUresult r = cuCtxGetStreamPriorityRange(&least, &greatest);
  if (r == CUDA_SUCCESS) r = cuStreamCreateWithPriority(&calls, CU_STREAM_NON_BLOCKING, greatest);
  if (r == CUDA_SUCCESS) r = cuStreamCreateWithPriority(&side, CU_STREAM_NON_BLOCKING, least);
  if (r == CUDA_SUCCESS) r = cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING);
  if (r == CUDA_SUCCESS) r = cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING);
  EpStreams s = {(uint64_t)(uintptr_t)calls, (uint64_t)(uintptr_t)side, (uint64_t)(uintptr_t)forked, (uint64_t)(uintptr_t)joined};
  *out = s;
  return (int)r;
}

void ep_streams_free(EpStreams *s) {
  if (s->forked) cuEventDestroy((CUevent)(uintptr_t)s->forked);
  if (s->joined) cuEventDestroy((CUevent)(uintptr_t)s->joined);
  if (s->calls) cuStreamDestroy((CUstream)(uintptr_t)s->calls);
  if (s->side) cuStreamDestroy((CUstream)(uintptr_t)s->side);
  memset(s, 0, sizeof *s);
}

/* ---- one round ---- */

static CUresult launch(const EpStep *s, CUstream stream) {
  CUlaunchAttribute attributes[2];
  CUlaunchConfig c;
  unsigned n = 0;
  void *parameters[1] = {(void *)&s->args};
  memset(attributes, 0, sizeof attributes);
  memset(&c, 0, sizeof c);
  if (s->flags & EP_LAUNCH_PDL) {
    attributes[n].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[n++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (s->flags & EP_LAUNCH_COOPERATIVE) {
    attributes[n].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[n++].value.cooperative = 1;
  }
  c.gridDimX = s->grid;
  c.gridDimY = c.gridDimZ = 1;
  c.blockDimX = s->block;
  c.blockDimY = c.blockDimZ = 1;
  c.sharedMemBytes = s->shared;
  c.hStream = stream;
  c.attrs = attributes;
  c.numAttrs = n;
  return cuLaunchKernelEx(&c, (CUfunction)(uintptr_t)s->object, parameters, NULL);
}

static CUresult wait_for(CUevent mark, CUstream done, CUstream waits) {
  CUresult r = cuEventRecord(mark, done);
  return r == CUDA_SUCCESS ? cuStreamWaitEvent(waits, mark, 0) : r;
}

static CUresult issue_step(const EpRank *rank, const EpStep *s) {
  CUstream main = (CUstream)(uintptr_t)rank->stream, side = (CUstream)(uintptr_t)rank->side;
  CUstream stream = s->flags & EP_STEP_SIDE ? side : main;
  switch (s->kind) {
    case EP_STEP_MEMSET: return cuMemsetD32Async((CUdeviceptr)s->target, s->value, (size_t)s->words, stream);
    case EP_STEP_COPY: return cuMemcpyDtoDAsync((CUdeviceptr)s->target, (CUdeviceptr)s->source, (size_t)s->words * 4, stream);
    case EP_STEP_FORK: return wait_for((CUevent)(uintptr_t)rank->forked, main, side);
    case EP_STEP_JOIN: return wait_for((CUevent)(uintptr_t)rank->joined, side, main);
    case EP_STEP_PRODUCT:
      return ep_product_launch((const EpProduct *)(uintptr_t)s->object, (int32_t)s->words, (uint64_t)(uintptr_t)stream) == 0
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_LAUNCH_FAILED;
    case EP_STEP_EVENT: {
      /* In a graph, only a record with the flag EXTERNAL records at each replay. */
      unsigned flags = rank->exec ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
      return cuEventRecordWithFlags((CUevent)(uintptr_t)s->object, stream, flags);
    }
    default: return launch(s, stream);
  }
}

/* Queues the steps of one round. During a capture, this adds them to the graph. */
static CUresult issue(const EpRank *rank) {
  CUresult r = CUDA_SUCCESS;
  for (int32_t i = 0; i < rank->count && r == CUDA_SUCCESS; i++) r = issue_step(rank, &rank->steps[i]);
  return r;
}

int ep_capture(EpRank *rank) {
  CUstream stream = (CUstream)(uintptr_t)rank->stream;
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CUresult r = cuCtxSetCurrent((CUcontext)(uintptr_t)rank->context);
  if (r == CUDA_SUCCESS) r = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (r != CUDA_SUCCESS) return (int)r;
  rank->exec = 1;
  r = issue(rank);
  rank->exec = 0;
  CUresult end = cuStreamEndCapture(stream, &graph); /* also after a failure, to free the stream */
  if (r == CUDA_SUCCESS) r = end;
  /* With a side stream, kernels keep the priorities of their streams. */
  if (r == CUDA_SUCCESS) r = cuGraphInstantiateWithFlags(&exec, graph, rank->side ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0);
  if (graph != NULL) cuGraphDestroy(graph);
  if (r != CUDA_SUCCESS) return (int)r;
  rank->exec = (uint64_t)(uintptr_t)exec;
  r = cuGraphUpload(exec, stream);
  if (r == CUDA_SUCCESS) r = cuStreamSynchronize(stream);
  return (int)r;
}

int ep_release(EpRank *rank) {
  if (rank->exec == 0) return 0;
  CUresult r = cuCtxSetCurrent((CUcontext)(uintptr_t)rank->context);
  if (r == CUDA_SUCCESS) r = cuGraphExecDestroy((CUgraphExec)(uintptr_t)rank->exec);
  rank->exec = 0;
  return (int)r;
}

/* ---- a window of rounds on all ranks ---- */

typedef struct Submission {
  EpRank *rank;
  pthread_barrier_t *gate;
  int32_t rounds;
  CUresult result;
  atomic_int queued;
  int done;
  pthread_t thread;
} Submission;

typedef struct Window {
  pthread_barrier_t gate;
  Submission rank[EP_MAX_RANKS];
} Window;

static void *submit(void *p) {
  Submission *s = p;
  EpRank *rank = s->rank;
  CUstream stream = (CUstream)(uintptr_t)rank->stream;
  CUresult r = cuCtxSetCurrent((CUcontext)(uintptr_t)rank->context);
  if (r == CUDA_SUCCESS && rank->replay != 0) r = cuMemsetD32Async((CUdeviceptr)rank->replay, 0, 1, stream);
  pthread_barrier_wait(s->gate); /* all threads begin at about the same time */
  for (int32_t i = 0; i < s->rounds && r == CUDA_SUCCESS; i++)
    r = rank->exec ? cuGraphLaunch((CUgraphExec)(uintptr_t)rank->exec, stream) : issue(rank);
  s->result = r;
  atomic_store(&s->queued, 1);
  return NULL;
}

static uint64_t (*emulated_clock)(void); /* NULL without the emulated driver */
static pthread_once_t clock_found = PTHREAD_ONCE_INIT;

static void find_clock(void) {
  void *f = dlsym(RTLD_DEFAULT, "emul_time_ns");
  memcpy(&emulated_clock, &f, sizeof f);
}

/* Returns the present time, to check the limit of a wait. With the emulated driver this is the time of the emulated
 * device. Without it, this is the host's time. */
static uint64_t now_ns(void) {
  struct timespec t;
  pthread_once(&clock_found, find_clock);
  if (emulated_clock != NULL) return emulated_clock();
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Pauses before the next check. In the first millisecond it does not sleep, because even the shortest sleep takes 70
 * us. After that it sleeps, so that threads that queue work get the processor. */
static void pause_between_checks(uint64_t waited_ns) {
  struct timespec nap = {0, 20000};
  if (waited_ns < 1000000)
    sched_yield();
  else
    nanosleep(&nap, NULL);
}

static EpEnd end_with(EpBatch *b, EpEnd end, int32_t rank, CUresult r) {
  b->bad_rank = rank;
  ep_describe((int)r, b->text);
  return end;
}

/* Returns 1 if the rank is still busy. */
static int check_rank(Submission *s, CUresult *broken) {
  if (!atomic_load(&s->queued)) return 1;
  cuCtxSetCurrent((CUcontext)(uintptr_t)s->rank->context);
  CUresult r = cuStreamQuery((CUstream)(uintptr_t)s->rank->stream);
  if (r == CUDA_ERROR_NOT_READY) return 1;
  if (r != CUDA_SUCCESS) *broken = r;
  s->done = 1;
  __atomic_add_fetch(&s->rank->finished, s->rounds, __ATOMIC_RELAXED);
  return 0;
}

static EpEnd await(EpBatch *b, Window *w) {
  uint64_t start = now_ns(), waited = 0;
  for (int busy = 1; busy; waited = now_ns() - start) {
    busy = 0;
    for (int32_t i = 0; i < b->count; i++) {
      CUresult broken = CUDA_SUCCESS;
      if (!w->rank[i].done) busy |= check_rank(&w->rank[i], &broken);
      if (broken != CUDA_SUCCESS) return end_with(b, EP_END_BROKEN, i, broken);
      if (w->rank[i].done || waited <= b->limit_ns) continue;
      b->bad_rank = i;
      snprintf(b->text, sizeof b->text, "%s for %.1f s",
               atomic_load(&w->rank[i].queued) ? "its stream is busy" : "the driver has been queueing its work", (double)waited / 1e9);
      return EP_END_STUCK;
    }
    if (busy) pause_between_checks(waited);
  }
  return EP_END_OK;
}

static EpEnd end_of_window(EpBatch *b, const Window *w) {
  for (int32_t i = 0; i < b->count; i++)
    if (w->rank[i].result != CUDA_SUCCESS) return end_with(b, EP_END_REFUSED, i, w->rank[i].result);
  for (int32_t i = 0; i < b->count; i++)
    if (b->ranks[i].fault != NULL && b->ranks[i].fault->set) {
      b->bad_rank = i;
      return EP_END_FAULT;
    }
  return EP_END_OK;
}

static EpEnd run_window(EpBatch *b, int32_t rounds) {
  Window *w = calloc(1, sizeof *w);
  if (w == NULL) return end_with(b, EP_END_BROKEN, 0, CUDA_ERROR_OUT_OF_MEMORY);
  pthread_barrier_init(&w->gate, NULL, (unsigned)b->count);
  for (int32_t i = 0; i < b->count; i++) {
    Submission *s = &w->rank[i];
    s->rank = &b->ranks[i];
    s->gate = &w->gate;
    s->rounds = rounds;
    if (pthread_create(&s->thread, NULL, submit, s) != 0) {
      b->bad_rank = i;
      snprintf(b->text, sizeof b->text, "cannot start a thread for each rank");
      return EP_END_BROKEN; /* w is not freed, because the started threads use it */
    }
  }
  EpEnd end = await(b, w);
  if (end != EP_END_OK) return end; /* threads may still use w */
  for (int32_t i = 0; i < b->count; i++) pthread_join(w->rank[i].thread, NULL);
  end = end_of_window(b, w);
  pthread_barrier_destroy(&w->gate);
  free(w);
  return end;
}

static CUresult read_events(const EpRank *rank, uint64_t *row) {
  CUresult r = CUDA_SUCCESS;
  for (int32_t i = 0; i < rank->pairs && r == CUDA_SUCCESS; i++) {
    float ms = 0;
    r = cuEventElapsedTime(&ms, (CUevent)(uintptr_t)rank->events[2 * i], (CUevent)(uintptr_t)rank->events[2 * i + 1]);
    row[i] = (uint64_t)((double)ms * 1e6 + 0.5);
  }
  return r;
}

static EpEnd collect(EpBatch *b, int32_t first, int32_t rounds) {
  for (int32_t i = 0; i < b->count; i++) {
    const EpRank *rank = &b->ranks[i];
    uint8_t *row = b->rows + ((uint64_t)i * (uint64_t)b->rounds + (uint64_t)first) * b->row_bytes;
    CUresult r = cuCtxSetCurrent((CUcontext)(uintptr_t)rank->context);
    if (r == CUDA_SUCCESS && rank->pairs > 0)
      r = read_events(rank, (uint64_t *)row);
    else if (r == CUDA_SUCCESS && rank->collect != 0)
      r = cuMemcpyDtoH(row, (CUdeviceptr)rank->collect, (size_t)(b->row_bytes * (uint64_t)rounds));
    if (r != CUDA_SUCCESS) return end_with(b, EP_END_BROKEN, i, r);
  }
  return EP_END_OK;
}

EpEnd ep_run(EpBatch *b) {
  if (b->count < 1 || b->count > EP_MAX_RANKS || b->window < 1)
    return end_with(b, EP_END_REFUSED, 0, CUDA_ERROR_INVALID_VALUE);
  for (int32_t i = 0; i < b->count; i++) __atomic_store_n(&b->ranks[i].finished, 0, __ATOMIC_RELAXED);
  for (int32_t first = 0; first < b->rounds; first += b->window) {
    if (__atomic_load_n(&b->stop, __ATOMIC_RELAXED)) return EP_END_STOPPED;
    int32_t rounds = b->rounds - first < b->window ? b->rounds - first : b->window;
    EpEnd end = run_window(b, rounds);
    if (end == EP_END_OK) end = collect(b, first, rounds);
    if (end != EP_END_OK) return end;
  }
  return EP_END_OK;
}
