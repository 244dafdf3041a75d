#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "epcomm.h"

static Driver driver;
static char trouble[EPCOMM_TEXT]; /* empty if the driver can be used */
static pid_t opened_by;           /* the process that initialised the driver */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char forked[] = "this process was forked after CUDA was initialised, and CUDA does not work in such a process; start ranks as new "
                             "programs (in Python with multiprocessing's start method spawn)";

static const struct {
  const char *name;
  size_t at;
} names[] = {
#define NAME(field, name) {name, offsetof(Driver, field)}
    NAME(init, "cuInit"), NAME(error_name, "cuGetErrorName"), NAME(error_string, "cuGetErrorString"),
    NAME(device_count, "cuDeviceGetCount"), NAME(device_get, "cuDeviceGet"), NAME(device_attribute, "cuDeviceGetAttribute"),
    NAME(device_name, "cuDeviceGetName"), NAME(device_memory, "cuDeviceTotalMem_v2"),
    NAME(can_access_peer, "cuDeviceCanAccessPeer"), NAME(context_retain, "cuDevicePrimaryCtxRetain"),
    NAME(context_release, "cuDevicePrimaryCtxRelease_v2"), NAME(context_get, "cuCtxGetCurrent"),
    NAME(context_set, "cuCtxSetCurrent"), NAME(context_wait, "cuCtxSynchronize"), NAME(context_get_limit, "cuCtxGetLimit"),
    NAME(context_set_limit, "cuCtxSetLimit"), NAME(enable_peer, "cuCtxEnablePeerAccess"),
    NAME(memory_info, "cuMemGetInfo_v2"), NAME(alloc, "cuMemAlloc_v2"), NAME(free, "cuMemFree_v2"),
    NAME(granularity, "cuMemGetAllocationGranularity"), NAME(memory_create, "cuMemCreate"), NAME(memory_release, "cuMemRelease"),
    NAME(memory_export, "cuMemExportToShareableHandle"), NAME(memory_import, "cuMemImportFromShareableHandle"),
    NAME(address_reserve, "cuMemAddressReserve"), NAME(address_free, "cuMemAddressFree"), NAME(map, "cuMemMap"), NAME(unmap, "cuMemUnmap"),
    NAME(set_access, "cuMemSetAccess"), NAME(host_alloc, "cuMemHostAlloc"), NAME(host_pointer, "cuMemHostGetDevicePointer_v2"), NAME(host_free, "cuMemFreeHost"),
    NAME(fill, "cuMemsetD8_v2"), NAME(upload, "cuMemcpyHtoD_v2"), NAME(ipc_handle, "cuIpcGetMemHandle"), NAME(ipc_open, "cuIpcOpenMemHandle_v2"),
    NAME(ipc_close, "cuIpcCloseMemHandle"), NAME(module_load, "cuModuleLoadData"), NAME(module_unload, "cuModuleUnload"),
    NAME(module_function, "cuModuleGetFunction"), NAME(function_get, "cuFuncGetAttribute"),
    NAME(function_set, "cuFuncSetAttribute"), NAME(function_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor"),
    NAME(launch, "cuLaunchKernelEx"), NAME(event_create, "cuEventCreate"), NAME(event_destroy, "cuEventDestroy_v2"),
    NAME(event_record, "cuEventRecord"), NAME(stream_wait, "cuStreamWaitEvent"),
    NAME(stream_id, "cuStreamGetId"), NAME(stream_capturing, "cuStreamIsCapturing"),
    NAME(pointer_get, "cuPointerGetAttribute"),
#undef NAME
};

void driver_describe(const Driver *d, DrvResult result, char text[DRIVER_WORDS]) {
  const char *name = NULL, *words = NULL;
  if (result == DRV_NOT_INITIALIZED) { /* in a forked process, even cuInit returns this */
    snprintf(text, DRIVER_WORDS, "%s", forked);
    return;
  }
  d->error_name(result, &name);
  d->error_string(result, &words);
  snprintf(text, DRIVER_WORDS, "%s (%.60s)", name ? name : "unknown CUDA error", words ? words : "no description");
}

static void load(void) {
  /* libcuda.so without a version may be a toolkit's stub library. */
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    snprintf(trouble, sizeof trouble, "no CUDA driver: %.400s", dlerror());
    return;
  }
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    void *f = dlsym(library, names[i].name);
    if (f == NULL) {
      snprintf(trouble, sizeof trouble, "the CUDA driver is too old: it has no %s; driver 525 or later is needed", names[i].name);
      return;
    }
    memcpy((char *)&driver + names[i].at, &f, sizeof f);
  }
  opened_by = getpid();
  DrvResult r = driver.init(0);
  if (r != 0) {
    char words[DRIVER_WORDS];
    driver_describe(&driver, r, words);
    snprintf(trouble, sizeof trouble, "no usable CUDA driver: cuInit: %s", words);
  }
}

const Driver *driver_open(char *text) {
  pthread_once(&once, load);
  if (trouble[0] == 0 && opened_by == getpid()) return &driver;
  snprintf(text, EPCOMM_TEXT, "%s", trouble[0] != 0 ? trouble : forked);
  return NULL;
}
