//go:build cuda

#include "loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[512];

static void *symbol(void *library, const char *name, const char **missing) {
  void *p = dlsym(library, name);
  if (p == NULL && *missing == NULL) *missing = name;
  return p;
}

const char *ep_shmem_load(EpShmem *s, const char *path) {
  const char *missing = NULL;
  s->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (s->library == NULL) return dlerror();
  *(void **)&s->version = symbol(s->library, "nvshmemx_vendor_get_version_info", &missing);
  *(void **)&s->unique = symbol(s->library, "nvshmemx_get_uniqueid", &missing);
  *(void **)&s->set = symbol(s->library, "nvshmemx_set_attr_uniqueid_args", &missing);
  *(void **)&s->init = symbol(s->library, "nvshmemx_hostlib_init_attr", &missing);
  *(void **)&s->status = symbol(s->library, "nvshmemx_init_status", &missing);
  *(void **)&s->alloc = symbol(s->library, "nvshmem_malloc", &missing);
  *(void **)&s->free = symbol(s->library, "nvshmem_free", &missing);
  *(void **)&s->peer = symbol(s->library, "nvshmem_ptr", &missing);
  *(void **)&s->add_module = symbol(s->library, "nvshmemx_cumodule_init", &missing);
  *(void **)&s->quiet = symbol(s->library, "nvshmem_quiet", &missing);
  if (missing == NULL) return NULL;
  snprintf(message, sizeof message, "%s has no %s", path, missing);
  return message;
}

void ep_shmem_version(const EpShmem *s, int *major, int *minor, int *patch) { s->version(major, minor, patch); }

int ep_shmem_unique(const EpShmem *s, EpShmemID *id) {
  memset(id, 0, sizeof *id);
  id->version = (1 << 16) + (int32_t)sizeof *id;
  return s->unique(id);
}

/* The flag of nvshmemx_hostlib_init_attr for a unique id, and what nvshmemx_init_status
 * says of a library that is ready; a failed init may return 0. */
#define EP_SHMEM_UNIQUEID (1u << 3)
#define EP_SHMEM_READY 2

int ep_shmem_join(const EpShmem *s, const EpShmemID *id, int rank, int ranks) {
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

uint64_t ep_shmem_alloc(const EpShmem *s, size_t bytes) { return (uint64_t)(uintptr_t)s->alloc(bytes); }
void ep_shmem_free(const EpShmem *s, uint64_t p) { s->free((void *)(uintptr_t)p); }
uint64_t ep_shmem_peer(const EpShmem *s, uint64_t p, int rank) { return (uint64_t)(uintptr_t)s->peer((void *)(uintptr_t)p, rank); }
int ep_shmem_add_module(const EpShmem *s, uint64_t module) { return s->add_module((void *)(uintptr_t)module); }
void ep_shmem_quiet(const EpShmem *s) { s->quiet(); }
