/* The memory functions of the emulated driver, on host memory that other processes can map. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stream.h"

using namespace emulated;

namespace {

struct Allocation {
  int fd;
  size_t bytes;
  CUcontext owner;
};
std::mutex memory_lock;
std::map<CUdeviceptr, Allocation> allocations;
std::map<CUdeviceptr, size_t> mappings;
std::map<CUdeviceptr, Allocation> reserved; /* by address; fd is not used */
std::map<int, size_t> created; /* bytes by descriptor */
size_t allocated;

struct IpcHandle {
  int pid, fd;
  size_t bytes;
};

} // namespace

extern "C" {

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
  allocations[*p] = {fd, n, current};
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
/* Returns the number of the GPU that owns p. For unknown memory it returns the current GPU, because tests pass host
 * memory. */
CUresult cuPointerGetAttribute(void *out, CUpointer_attribute what, CUdeviceptr p) {
  if (what != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard<std::mutex> hold(memory_lock);
  auto it = allocations.upper_bound(p);
  CUcontext owner = current;
  if (it != allocations.begin() && p - (--it)->first < it->second.bytes) owner = it->second.owner;
  auto mapped = reserved.upper_bound(p);
  if (mapped != reserved.begin() && p - (--mapped)->first < mapped->second.bytes) owner = mapped->second.owner;
  *static_cast<int *>(out) = static_cast<int>(reinterpret_cast<uintptr_t>(owner)) - 1;
  return CUDA_SUCCESS;
}
/* A handle of memory is a file descriptor plus 1. */
CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) {
  *bytes = 65536;
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *, unsigned long long) {
  trace(__func__);
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard<std::mutex> hold(memory_lock);
  if (allocated + n > size_t{4} << 30) return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = memfd_create("emulated GPU", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(n)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  allocated += n;
  created[fd] = n;
  *h = static_cast<CUmemGenericAllocationHandle>(fd) + 1;
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  trace(__func__);
  std::lock_guard<std::mutex> hold(memory_lock);
  int fd = static_cast<int>(h - 1);
  auto it = created.find(fd);
  if (it != created.end()) {
    allocated -= it->second;
    created.erase(it);
  }
  return close(fd) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle h, CUmemAllocationHandleType, unsigned long long) {
  int fd = fcntl(static_cast<int>(h - 1), F_DUPFD_CLOEXEC, 0);
  memcpy(out, &fd, sizeof fd);
  return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *h, void *given, CUmemAllocationHandleType) {
  if (setting("EMUL_FILES", 1) == 2 || !setting("EMUL_PEERS", 1)) return CUDA_ERROR_NOT_SUPPORTED;
  int fd = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(given)), F_DUPFD_CLOEXEC, 0);
  *h = static_cast<CUmemGenericAllocationHandle>(fd) + 1;
  return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t, CUdeviceptr, unsigned long long) {
  trace(__func__);
  void *m = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> hold(memory_lock);
  *p = reinterpret_cast<CUdeviceptr>(m);
  reserved[*p] = {-1, n, current};
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t n) {
  std::lock_guard<std::mutex> hold(memory_lock);
  return reserved.erase(p) == 1 && munmap(reinterpret_cast<void *>(p), n) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
/* Maps memory without access, as CUDA does. cuMemSetAccess gives access. */
CUresult cuMemMap(CUdeviceptr p, size_t n, size_t at, CUmemGenericAllocationHandle h, unsigned long long) {
  void *m = mmap(reinterpret_cast<void *>(p), n, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(h - 1), static_cast<off_t>(at));
  return m == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
  void *m = mmap(reinterpret_cast<void *>(p), n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return m == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *, size_t) {
  return mprotect(reinterpret_cast<void *>(p), n, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
  if (own.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT; /* as CUDA's driver does */
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
  const bool bytes = v == (v & 0xff) * 0x01010101u;
  stream_of(s)->add([=] {
    if (bytes) memset(reinterpret_cast<void *>(p), static_cast<int>(v & 0xff), 4 * n);
    else for (size_t i = 0; i < n; i++) reinterpret_cast<unsigned *>(p)[i] = v;
  });
  return CUDA_SUCCESS;
}

} // extern "C"
