/* A libcuda on the CPU, for tests of the worker without a GPU.
 *
 * Environment variables:
 *   EMUL_GPUS   number of GPUs, 2 unless set
 *   EMUL_SMS    SMs of each GPU, 4 unless set
 *   EMUL_ARCH   compute capability, 90 unless set
 *   EMUL_PEERS  0: GPUs cannot access each other's memory
 *   EMUL_FILES  0: GPUs have no memory that file descriptors share; 2: they have, but a process cannot import it
 *   EMUL_TRACE  file to which slow driver calls append their names */
#include <dlfcn.h>
#include <elf.h>
#include <string.h>

#include <atomic>

#include "stream.h" // first, because macros of fiber.h break standard headers

#include "ep_args.h"
#include "fiber.h"

using namespace emulated;

namespace {

struct Function {
  std::string name;
  void (*entry)(EpArgs);
  void (*touch)(void);
};

struct Event {
  std::atomic<uint64_t> at{0};
  std::atomic<uint64_t> recorded{0}, passed{0};
  std::shared_ptr<Capture> capture;
};

std::atomic<uint64_t> launches;

struct {
  std::mutex lock;
  std::string lines;
  bool wanted = false;

  void add(const std::string &name, uint64_t from, uint64_t to) {
    std::lock_guard<std::mutex> hold(lock);
    if (wanted) lines += name + " " + std::to_string(from) + " " + std::to_string(to) + "\n";
  }
} ran;

/* Runs all blocks at the same time, because blocks wait for each other. */
void run_grid(const Function *f, EpArgs args, uint32_t grid, uint32_t block, size_t shared) {
  EmulLaunch launch{f->name.c_str(), {grid, 1, 1}, {block, 1, 1}, shared, ++launches, f->touch};
  uint64_t from = now_ns();
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < grid; i++)
    threads.emplace_back([&, i] { emul_run_block(launch, i, [&] { f->entry(args); }); });
  for (auto &t : threads) t.join();
  ran.add(f->name, from, now_ns());
}

} // namespace

extern "C" {

/* Lets modules that are loaded later find this library's functions. */
CUresult cuInit(unsigned) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void *>(cuInit), &self)) dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  return CUDA_SUCCESS;
}
/* Returns a line for each kernel that ended since the last call: name, begin and end in ns. The result is valid until
 * the next call. */
const char *emul_kernels(void) {
  static std::string taken;
  std::lock_guard<std::mutex> hold(ran.lock);
  ran.wanted = true;
  taken.swap(ran.lines);
  ran.lines.clear();
  return taken.c_str();
}

CUresult cuDriverGetVersion(int *v) { *v = 13000; return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult r, const char **s) { *s = r == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_EMULATED"; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char **s) { *s = "emulated driver"; return CUDA_SUCCESS; }

/* ---- devices and contexts ---- */

CUresult cuDeviceGetCount(int *n) { *n = setting("EMUL_GPUS", 2); return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int i) { *d = i; return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int n, CUdevice) { snprintf(name, static_cast<size_t>(n), "emulated GPU"); return CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t *n, CUdevice) { *n = size_t{4} << 30; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
  switch (static_cast<int>(a)) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = setting("EMUL_SMS", 4); break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = 232448; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = setting("EMUL_ARCH", 90) / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = setting("EMUL_ARCH", 90) % 10; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *v = d + 1; break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *v = 1; break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: *v = setting("EMUL_FILES", 1) != 0; break;
    default: *v = 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(d) + 1); return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) { current = c; return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *c) { *c = current; return CUDA_SUCCESS; }
CUresult cuCtxSynchronize(void) {
  trace(__func__);
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  if (getenv("EMUL_BROKEN")) return CUDA_ERROR_ILLEGAL_ADDRESS; /* as after a kernel's crash */
  std::set<Stream *> all;
  {
    std::lock_guard<std::mutex> hold(streams_lock);
    all = streams;
  }
  for (Stream *s : all)
    while (!s->idle()) rest();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetLimit(size_t *v, CUlimit) { *v = 1024; return CUDA_SUCCESS; }
CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }
CUresult cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) { *can = setting("EMUL_PEERS", 1); return CUDA_SUCCESS; }
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_SUCCESS; }

/* ---- modules, whose images are shared objects ---- */

CUresult cuModuleLoadData(CUmodule *m, const void *image) {
  trace(__func__);
  const Elf64_Ehdr *h = static_cast<const Elf64_Ehdr *>(image);
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) return CUDA_ERROR_INVALID_IMAGE;
  size_t n = h->e_shoff + static_cast<size_t>(h->e_shnum) * h->e_shentsize;
  char path[] = P_tmpdir "/epbench-module-XXXXXX";
  int fd = mkstemp(path);
  bool written = fd >= 0 && write(fd, image, n) == static_cast<ssize_t>(n);
  if (fd >= 0) close(fd);
  void *lib = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!lib) fprintf(stderr, "emulated driver: load %s: %s\n", path, written ? dlerror() : "cannot write");
  unlink(path);
  *m = static_cast<CUmodule>(lib);
  return lib ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleUnload(CUmodule m) { trace(__func__); dlclose(m); return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  trace(__func__);
  void *entry = dlsym(m, name);
  if (!entry) return CUDA_ERROR_NOT_FOUND;
  *f = reinterpret_cast<CUfunction>(new Function{name, reinterpret_cast<void (*)(EpArgs)>(entry),
                                                 reinterpret_cast<void (*)(void)>(dlsym(m, "emul_touch_shared"))});
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction) {
  trace(__func__);
  *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : a == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction, int, size_t) { *n = 1; return CUDA_SUCCESS; }

/* ---- streams, launches, events, graphs ---- */

CUresult cuStreamCreate(CUstream *s, unsigned) { trace(__func__); *s = reinterpret_cast<CUstream>(new_stream()); return CUDA_SUCCESS; }
CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int) { return cuStreamCreate(s, flags); }
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return CUDA_SUCCESS; }
CUresult cuStreamDestroy(CUstream s) {
  trace(__func__);
  {
    std::lock_guard<std::mutex> hold(streams_lock);
    streams.erase(stream_of(s));
  }
  delete stream_of(s);
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream s) { return stream_of(s)->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuStreamSynchronize(CUstream s) {
  trace(__func__);
  while (!stream_of(s)->idle()) rest();
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **) {
  Function *fn = reinterpret_cast<Function *>(f);
  EpArgs args = *static_cast<EpArgs *>(params[0]);
  uint32_t grid = c->gridDimX, block = c->blockDimX;
  size_t shared = c->sharedMemBytes;
  if (grid == 0 || block == 0 || block > 1024) return CUDA_ERROR_INVALID_VALUE;
  stream_of(c->hStream)->add([=] { run_grid(fn, args, grid, block, shared); });
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        CUstream s, void **params, void **extra) {
  CUlaunchConfig c{gx, gy, gz, bx, by, bz, shared, s, nullptr, 0};
  return cuLaunchKernelEx(&c, f, params, extra);
}
CUresult cuLaunchHostFunc(CUstream s, CUhostFn f, void *data) {
  stream_of(s)->add([=] { f(data); });
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *e, unsigned) { trace(__func__); *e = reinterpret_cast<CUevent>(new Event); return CUDA_SUCCESS; }
CUresult cuEventDestroy(CUevent e) { trace(__func__); delete reinterpret_cast<Event *>(e); return CUDA_SUCCESS; }
CUresult cuEventRecordWithFlags(CUevent handle, CUstream s, unsigned flags) {
  Event *e = reinterpret_cast<Event *>(handle);
  Stream *stream = stream_of(s);
  e->capture = stream->capture && flags != CU_EVENT_RECORD_EXTERNAL ? stream->capture : nullptr;
  if (e->capture) return CUDA_SUCCESS; /* an ordinary record only marks a place in the graph */
  uint64_t n = stream->capture ? 0 : ++e->recorded;
  stream->add([=] {
    e->at = now_ns();
    if (n) e->passed = n;
  });
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s) { return cuEventRecordWithFlags(e, s, 0); }
CUresult cuStreamWaitEvent(CUstream s, CUevent handle, unsigned flags) {
  Event *e = reinterpret_cast<Event *>(handle);
  Stream *stream = stream_of(s);
  if (e->capture) {
    if (e->capture->ended) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture && stream->capture != e->capture) return CUDA_ERROR_INVALID_VALUE;
    stream->capture = e->capture; /* the stream joins the capture */
    return CUDA_SUCCESS;
  }
  if (stream->capture && flags != CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  uint64_t n = e->recorded;
  stream->add([=] {
    while (e->passed < n) rest();
  });
  return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent handle) {
  trace(__func__);
  Event *e = reinterpret_cast<Event *>(handle);
  while (e->passed < e->recorded) rest();
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent handle) {
  Event *e = reinterpret_cast<Event *>(handle);
  return e->passed < e->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  *ms = static_cast<float>(reinterpret_cast<Event *>(b)->at - reinterpret_cast<Event *>(a)->at) / 1e6f;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode) {
  trace(__func__);
  stream_of(s)->capture = std::make_shared<Capture>();
  return CUDA_SUCCESS;
}
/* Invalidates a capture, as driver 580.159.04 does. */
CUresult cuStreamGetId(CUstream s, unsigned long long *number) {
  if (stream_of(s)->capture) {
    stream_of(s)->capture->lost = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  *number = stream_of(s)->number;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
  *status = stream_of(s)->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *number, CUgraph *, const CUgraphNode **, size_t *) {
  cuStreamIsCapturing(s, status);
  if (number && *status == CU_STREAM_CAPTURE_STATUS_ACTIVE) *number = stream_of(s)->capture->number;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
  std::shared_ptr<Capture> c = stream_of(s)->capture;
  if (!c) return CUDA_ERROR_ILLEGAL_STATE;
  c->ended = true;
  *g = reinterpret_cast<CUgraph>(new std::vector<Work>(std::move(c->works)));
  std::lock_guard<std::mutex> hold(streams_lock);
  for (Stream *other : streams)
    if (other->capture == c) other->capture = nullptr;
  return c->lost ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long) {
  trace(__func__);
  *e = reinterpret_cast<CUgraphExec>(new std::vector<Work>(*reinterpret_cast<std::vector<Work> *>(g)));
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph g) { delete reinterpret_cast<std::vector<Work> *>(g); return CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec e) { trace(__func__); delete reinterpret_cast<std::vector<Work> *>(e); return CUDA_SUCCESS; }
CUresult cuGraphUpload(CUgraphExec, CUstream) { trace(__func__); return CUDA_SUCCESS; }
CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
  trace(__func__);
  for (const Work &w : *reinterpret_cast<std::vector<Work> *>(e)) stream_of(s)->add(w);
  return CUDA_SUCCESS;
}

/* cuda.h renames the cuEventElapsedTime above to cuEventElapsedTime_v2. Drivers before CUDA 12.8 have only the function
 * without _v2. */
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return cuEventElapsedTime_v2(ms, a, b); }

} // extern "C"
