/* A libcuda that runs on the CPU: GPUs are made of host memory, streams of
 * threads, and kernels of our device sources as the emulator compiles them
 * (nvrtc.cpp beside this file). It lets the whole worker, its launches, graphs
 * and fault handling included, run where there is no GPU. For tests; times
 * mean nothing.
 *
 * EMUL_GPUS and EMUL_SMS choose the machine, 2 and 4 unless set; with EMUL_PEERS
 * 0 no GPU can address another; EMUL_ARCH is the compute capability, 90 unless
 * set. Memory of a GPU can be shared with other processes (cuIpc...), and what is
 * allocated is counted (cuMemGetInfo). The file that EMUL_TRACE names gets the names of
 * the calls that would cost a host time, one a line.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ep_args.h"
#include "fiber.h"

namespace {

int setting(const char *name, int otherwise) {
  const char *s = getenv(name);
  return s ? atoi(s) : otherwise;
}

/* Without the revision that cuda.h adds to the name. */
void trace(const char *call) {
  const char *file = getenv("EMUL_TRACE");
  FILE *f = file ? fopen(file, "a") : nullptr;
  if (!f) return;
  std::string name(call);
  size_t revision = name.find("_v");
  fprintf(f, "%s\n", name.substr(0, revision).c_str());
  fclose(f);
}

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

using Work = std::function<void()>;

/* One look of a host thread that waits. Without rest it would take a processor from the
 * blocks that it waits for. */
void rest() {
  timespec nap{0, 50'000};
  nanosleep(&nap, nullptr);
}

/* What a capture has seen so far, of all streams that joined it, in the order of
 * their calls: a legal order of the graph. */
struct Capture {
  std::vector<Work> works;
  bool ended = false;
};

/* Work in order on a thread of its own, or a list of it while capturing. */
class Stream {
 public:
  Stream() : thread_([this] { loop(); }) {}
  ~Stream() {
    {
      std::lock_guard<std::mutex> hold(lock_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  void add(Work w) {
    if (capture) {
      capture->works.push_back(std::move(w));
      return;
    }
    std::lock_guard<std::mutex> hold(lock_);
    queue_.push_back(std::move(w));
    wake_.notify_all();
  }
  bool idle() {
    std::lock_guard<std::mutex> hold(lock_);
    return queue_.empty() && !busy_;
  }
  std::shared_ptr<Capture> capture;

 private:
  void loop() {
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      wake_.wait(hold, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Work w = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      hold.unlock();
      w();
      hold.lock();
      busy_ = false;
    }
  }
  std::mutex lock_;
  std::condition_variable wake_;
  std::deque<Work> queue_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

struct Function {
  std::string name;
  void (*entry)(EpArgs);
  void (*touch)(void);
};

struct Event {
  std::atomic<uint64_t> at{0};
  std::atomic<uint64_t> recorded{0}, passed{0};
  std::shared_ptr<Capture> capture; /* of the last record */
};

thread_local CUcontext current;
std::atomic<uint64_t> launches;

std::mutex streams_lock;
std::set<Stream *> streams; /* all there are */

Stream *new_stream() {
  Stream *s = new Stream;
  std::lock_guard<std::mutex> hold(streams_lock);
  streams.insert(s);
  return s;
}

/* The default stream is one of each GPU's own. */
Stream *stream_of(CUstream s) {
  static std::mutex lock;
  static std::map<CUcontext, Stream *> defaults;
  if (reinterpret_cast<uintptr_t>(s) > 2) return reinterpret_cast<Stream *>(s);
  std::lock_guard<std::mutex> hold(lock);
  Stream *&d = defaults[current];
  if (!d) d = new_stream();
  return d;
}

/* Memory that another process can map: a file without a name. */
struct Allocation {
  int fd;
  size_t bytes;
};
std::mutex memory_lock;
std::map<CUdeviceptr, Allocation> allocations;
std::map<CUdeviceptr, size_t> mappings; /* of other processes' allocations */
size_t allocated;

struct IpcHandle {
  int pid, fd;
  size_t bytes;
};

/* Every block a thread: all are resident, as our kernels demand. */
void run_grid(const Function *f, EpArgs args, uint32_t grid, uint32_t block, size_t shared) {
  EmulLaunch launch{f->name.c_str(), {grid, 1, 1}, {block, 1, 1}, shared, ++launches, f->touch};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < grid; i++)
    threads.emplace_back([&, i] { emul_run_block(launch, i, [&] { f->entry(args); }); });
  for (auto &t : threads) t.join();
}

} // namespace

extern "C" {

/* A program may have opened this library for itself alone; the modules that it
 * loads later find the emulator's functions only in what all may see. */
CUresult cuInit(unsigned) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void *>(cuInit), &self)) dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  return CUDA_SUCCESS;
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
  if (getenv("EMUL_BROKEN")) return CUDA_ERROR_ILLEGAL_ADDRESS; /* as behind a kernel that crashed */
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

/* ---- memory ---- */

CUresult cuMemGetInfo(size_t *free, size_t *total) {
  std::lock_guard<std::mutex> hold(memory_lock);
  *total = size_t{4} << 30;
  *free = *total - allocated;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr *p, size_t n) {
  trace(__func__);
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  n = (n + 4095) / 4096 * 4096;
  int fd = memfd_create("emulated GPU", MFD_CLOEXEC);
  void *m = fd >= 0 && ftruncate(fd, static_cast<off_t>(n)) == 0 ? mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  std::lock_guard<std::mutex> hold(memory_lock);
  if (m == MAP_FAILED || allocated + n > size_t{4} << 30) {
    if (m != MAP_FAILED) munmap(m, n);
    if (fd >= 0) close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *p = reinterpret_cast<CUdeviceptr>(m);
  allocations[*p] = {fd, n};
  allocated += n;
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) {
  trace(__func__);
  std::lock_guard<std::mutex> hold(memory_lock);
  auto it = allocations.find(p);
  if (it == allocations.end()) return p ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  munmap(reinterpret_cast<void *>(p), it->second.bytes);
  close(it->second.fd);
  allocated -= it->second.bytes;
  allocations.erase(it);
  return CUDA_SUCCESS;
}
CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr p) {
  std::lock_guard<std::mutex> hold(memory_lock);
  auto it = allocations.find(p);
  if (it == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  IpcHandle own{getpid(), it->second.fd, it->second.bytes};
  memset(h, 0, sizeof *h);
  memcpy(h, &own, sizeof own);
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr *p, CUipcMemHandle h, unsigned) {
  IpcHandle own;
  memcpy(&own, &h, sizeof own);
  if (own.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT; /* as the driver does */
  if (!setting("EMUL_PEERS", 1)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  std::string path = "/proc/" + std::to_string(own.pid) + "/fd/" + std::to_string(own.fd);
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  void *m = mmap(nullptr, own.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (m == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> hold(memory_lock);
  *p = reinterpret_cast<CUdeviceptr>(m);
  mappings[*p] = own.bytes;
  return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
  std::lock_guard<std::mutex> hold(memory_lock);
  auto it = mappings.find(p);
  if (it == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void *>(p), it->second);
  mappings.erase(it);
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **p, size_t n, unsigned) { trace(__func__); *p = aligned_alloc(256, (n + 255) / 256 * 256); return CUDA_SUCCESS; }
CUresult cuMemHostGetDevicePointer(CUdeviceptr *d, void *p, unsigned) { *d = reinterpret_cast<CUdeviceptr>(p); return CUDA_SUCCESS; }
CUresult cuMemFreeHost(void *p) { trace(__func__); free(p); return CUDA_SUCCESS; }
CUresult cuMemcpyHtoDAsync(CUdeviceptr d, const void *from, size_t n, CUstream s) {
  trace(__func__);
  stream_of(s)->add([=] { memcpy(reinterpret_cast<void *>(d), from, n); });
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  trace(__func__);
  stream_of(s)->add([=] { memset(reinterpret_cast<void *>(p), v, n); });
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr from, size_t n, CUstream s) {
  trace(__func__);
  stream_of(s)->add([=] { memcpy(reinterpret_cast<void *>(d), reinterpret_cast<void *>(from), n); });
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) { trace(__func__); memset(reinterpret_cast<void *>(p), v, n); return CUDA_SUCCESS; }
CUresult cuMemcpyHtoD(CUdeviceptr d, const void *s, size_t n) { trace(__func__); memcpy(reinterpret_cast<void *>(d), s, n); return CUDA_SUCCESS; }
CUresult cuMemcpyDtoH(void *d, CUdeviceptr s, size_t n) { trace(__func__); memcpy(d, reinterpret_cast<void *>(s), n); return CUDA_SUCCESS; }
CUresult cuMemcpyDtoD(CUdeviceptr d, CUdeviceptr s, size_t n) { trace(__func__); memcpy(reinterpret_cast<void *>(d), reinterpret_cast<void *>(s), n); return CUDA_SUCCESS; }
CUresult cuMemcpyDtoHAsync(void *d, CUdeviceptr from, size_t n, CUstream s) {
  trace(__func__);
  stream_of(s)->add([=] { memcpy(d, reinterpret_cast<void *>(from), n); });
  return CUDA_SUCCESS;
}
CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream s) {
  trace(__func__);
  stream_of(s)->add([=] { for (size_t i = 0; i < n; i++) reinterpret_cast<unsigned *>(p)[i] = v; });
  return CUDA_SUCCESS;
}

/* ---- modules: an image is a shared object, whose size its header tells ---- */

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
  if (e->capture) return CUDA_SUCCESS; /* an ordinary record inside a capture only marks a place */
  uint64_t n = stream->capture ? 0 : ++e->recorded;
  stream->add([=] {
    e->at = now_ns();
    if (n) e->passed = n;
  });
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s) { return cuEventRecordWithFlags(e, s, 0); }
CUresult cuStreamWaitEvent(CUstream s, CUevent handle, unsigned) {
  Event *e = reinterpret_cast<Event *>(handle);
  Stream *stream = stream_of(s);
  if (e->capture) {
    if (e->capture->ended) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture && stream->capture != e->capture) return CUDA_ERROR_INVALID_VALUE;
    stream->capture = e->capture; /* joins */
    return CUDA_SUCCESS;
  }
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
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
  *status = stream_of(s)->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
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
  return CUDA_SUCCESS;
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

/* The older revision, which drivers before CUDA 12.8 have alone. */
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return cuEventElapsedTime_v2(ms, a, b); }

} // extern "C"
