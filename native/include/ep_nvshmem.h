/* Opens NVSHMEM's host library with dlopen, without its headers. All ranks call the "collective" functions in the
 * same order, with their GPU's primary context current. */
#ifndef EP_NVSHMEM_H
#define EP_NVSHMEM_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EP_SHMEM_LIBRARY "libnvshmem_host.so.3"
#define EP_SHMEM_FOLDER "EPBENCH_NVSHMEM" /* folder that has lib/ */

/* nvshmemx_uniqueid_t and nvshmemx_init_attr_t of NVSHMEM 3.8. */
typedef struct EpShmemID {
  int32_t version;
  char text[124];
} EpShmemID;

typedef struct EpShmemInit {
  int32_t version;
  void *mpi_comm;
  struct {
    int32_t version;
    struct {
      int32_t version;
      EpShmemID *id;
      int32_t rank, ranks;
    } uid;
    int32_t device;
    char rest[92];
  } args;
} EpShmemInit;

typedef char EpShmemIDSize[sizeof(EpShmemID) == 128 ? 1 : -1];
typedef char EpShmemInitSize[sizeof(EpShmemInit) == 144 ? 1 : -1];

typedef struct EpShmem {
  void *library;
  void (*version)(int *major, int *minor, int *patch);
  int (*unique)(EpShmemID *id);
  int (*set)(int rank, int ranks, const EpShmemID *id, EpShmemInit *init);
  int (*init)(unsigned flags, EpShmemInit *init);
  int (*status)(void);
  void *(*alloc)(size_t bytes); /* collective */
  void (*free)(void *p);        /* collective */
  void *(*peer)(const void *p, int rank);
  int (*add_module)(void *module);
  int (*drop_module)(void *module);
  /* Makes a CUstream wait for the puts of this rank's kernels. The function nvshmem_quiet waits only for the host's
   * puts. */
  void (*quiet_on_stream)(void *stream);
} EpShmem;

/* Stores a function's address in *slot. *missing keeps the first name that was not found. */
static inline void ep_shmem_find(void *library, const char *name, void *slot, const char **missing) {
  void *f = dlsym(library, name);
  if (f == NULL && *missing == NULL) *missing = name;
  memcpy(slot, &f, sizeof f);
}

/* Loads the library. Returns 0, or -1 with the reason in `text`. */
static inline int ep_shmem_load(EpShmem *s, const char *path, char *text, size_t bytes) {
  const char *missing = NULL;
  s->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (s->library == NULL) {
    snprintf(text, bytes, "%s", dlerror());
    return -1;
  }
  ep_shmem_find(s->library, "nvshmemx_vendor_get_version_info", &s->version, &missing);
  ep_shmem_find(s->library, "nvshmemx_get_uniqueid", &s->unique, &missing);
  ep_shmem_find(s->library, "nvshmemx_set_attr_uniqueid_args", &s->set, &missing);
  ep_shmem_find(s->library, "nvshmemx_hostlib_init_attr", &s->init, &missing);
  ep_shmem_find(s->library, "nvshmemx_init_status", &s->status, &missing);
  ep_shmem_find(s->library, "nvshmem_malloc", &s->alloc, &missing);
  ep_shmem_find(s->library, "nvshmem_free", &s->free, &missing);
  ep_shmem_find(s->library, "nvshmem_ptr", &s->peer, &missing);
  ep_shmem_find(s->library, "nvshmemx_cumodule_init", &s->add_module, &missing);
  ep_shmem_find(s->library, "nvshmemx_cumodule_finalize", &s->drop_module, &missing);
  ep_shmem_find(s->library, "nvshmemx_quiet_on_stream", &s->quiet_on_stream, &missing);
  if (missing == NULL) return 0;
  snprintf(text, bytes, "%.100s has no %s", path, missing);
  return -1;
}

static inline int ep_shmem_unique(const EpShmem *s, EpShmemID *id) {
  memset(id, 0, sizeof *id);
  id->version = (1 << 16) + (int32_t)sizeof *id;
  return s->unique(id);
}

/* The flag EP_SHMEM_UNIQUEID tells nvshmemx_hostlib_init_attr to join by a unique id. That function may return 0 even
 * if it fails, so also check the status. */
#define EP_SHMEM_UNIQUEID (1u << 3)
#define EP_SHMEM_READY 2

/* Collective. Returns 0, or the library's error. */
static inline int ep_shmem_join(const EpShmem *s, const EpShmemID *id, int rank, int ranks) {
  EpShmemInit init;
  memset(&init, 0, sizeof init);
  init.version = (1 << 16) + (int32_t)sizeof init;
  init.args.version = (1 << 16) + (int32_t)sizeof init.args;
  init.args.uid.version = (1 << 16) + (int32_t)sizeof init.args.uid;
  int r = s->set(rank, ranks, id, &init);
  if (r == 0) r = s->init(EP_SHMEM_UNIQUEID, &init);
  if (r == 0 && s->status() < EP_SHMEM_READY) r = -1;
  return r;
}

#endif
