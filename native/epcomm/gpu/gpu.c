//go:build cuda

#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t Pointer;

static void *found(const char *name) {
  static void *library;
  if (library == NULL) library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != NULL ? dlsym(library, name) : NULL;
}

static void *symbol(const char *name) {
  void *f = found(name);
  if (f == NULL) {
    fprintf(stderr, "no %s in libcuda.so.1\n", name);
    exit(1);
  }
  return f;
}

static void check(int result, const char *what) {
  if (result == 0) return;
  fprintf(stderr, "%s: CUresult %d\n", what, result);
  exit(1);
}

#define CALL(name, types, arguments)               \
  do {                                             \
    static int(*f) types;                          \
    if (f == NULL) {                               \
      void *at = symbol(name);                       \
      memcpy(&f, &at, sizeof f);                     \
    }                                              \
    check(f arguments, name);                      \
  } while (0)

static Pointer address(const void *p) { return (Pointer)(uintptr_t)p; }

void gpu_use(int device) {
  int d = 0;
  void *context = NULL;
  CALL("cuInit", (unsigned), (0));
  CALL("cuDeviceGet", (int *, int), (&d, device));
  CALL("cuDevicePrimaryCtxRetain", (void **, int), (&context, d));
  CALL("cuCtxSetCurrent", (void *), (context));
}

void *gpu_current(void) {
  void *context = NULL;
  CALL("cuCtxGetCurrent", (void **), (&context));
  return context;
}

void *gpu_alloc(size_t bytes) {
  Pointer p = 0;
  CALL("cuMemAlloc_v2", (Pointer *, size_t), (&p, bytes > 0 ? bytes : 1));
  return (void *)(uintptr_t)p;
}

void gpu_free(void *p) { CALL("cuMemFree_v2", (Pointer), (address(p))); }

size_t gpu_free_bytes(void) {
  size_t free_bytes = 0, total = 0;
  CALL("cuMemGetInfo_v2", (size_t *, size_t *), (&free_bytes, &total));
  return free_bytes;
}

int gpu_emulated(void) { return found("emul_time_ns") != NULL; }

double gpu_seconds(void) {
  uint64_t (*clock)(void) = NULL;
  void *at = found("emul_time_ns");
  memcpy(&clock, &at, sizeof clock);
  if (clock != NULL) return (double)clock() / 1e9;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void gpu_upload(void *to, const void *from, size_t bytes, GpuStream stream) {
  if (bytes > 0) CALL("cuMemcpyHtoDAsync_v2", (Pointer, const void *, size_t, void *), (address(to), from, bytes, stream));
}

void gpu_copy(void *to, const void *from, size_t bytes, GpuStream stream) {
  if (bytes > 0) CALL("cuMemcpyDtoDAsync_v2", (Pointer, Pointer, size_t, void *), (address(to), address(from), bytes, stream));
}

void gpu_fill(void *to, int byte, size_t bytes, GpuStream stream) {
  if (bytes > 0) CALL("cuMemsetD8Async", (Pointer, unsigned char, size_t, void *), (address(to), (unsigned char)byte, bytes, stream));
}

void gpu_download(void *to, const void *from, size_t bytes, GpuStream stream) {
  if (bytes > 0) CALL("cuMemcpyDtoHAsync_v2", (void *, Pointer, size_t, void *), (to, address(from), bytes, stream));
  gpu_wait(stream);
}

GpuStream gpu_stream(void) {
  void *s = NULL;
  CALL("cuStreamCreate", (void **, unsigned), (&s, 1));
  return s;
}

void gpu_stream_free(GpuStream stream) { CALL("cuStreamDestroy_v2", (void *), (stream)); }
void gpu_wait(GpuStream stream) { CALL("cuStreamSynchronize", (void *), (stream)); }
void gpu_capture(GpuStream stream) { CALL("cuStreamBeginCapture_v2", (void *, int), (stream, 2)); }

GpuGraph gpu_captured(GpuStream stream) {
  void *graph = NULL, *exec = NULL;
  CALL("cuStreamEndCapture", (void *, void **), (stream, &graph));
  CALL("cuGraphInstantiateWithFlags", (void **, void *, unsigned long long), (&exec, graph, 0));
  CALL("cuGraphDestroy", (void *), (graph));
  CALL("cuGraphUpload", (void *, void *), (exec, stream));
  return exec;
}

void gpu_replay(GpuGraph graph, GpuStream stream) { CALL("cuGraphLaunch", (void *, void *), (graph, stream)); }
void gpu_graph_free(GpuGraph graph) { CALL("cuGraphExecDestroy", (void *), (graph)); }

void *gpu_load(const void *image) {
  void *module = NULL;
  CALL("cuModuleLoadData", (void **, const void *), (&module, image));
  return module;
}

void *gpu_kernel(void *module, const char *name) {
  void *kernel = NULL;
  CALL("cuModuleGetFunction", (void **, void *, const char *), (&kernel, module, name));
  return kernel;
}

void gpu_unload(void *module) { CALL("cuModuleUnload", (void *), (module)); }

void gpu_launch(void *kernel, unsigned grid, unsigned block, void *parameter, GpuStream stream) {
  void *parameters[1] = {parameter};
  CALL("cuLaunchKernel",
       (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
       (kernel, grid, 1, 1, block, 1, 1, 0, stream, parameters, NULL));
}
