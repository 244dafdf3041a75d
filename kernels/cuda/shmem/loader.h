/* libnvshmem_host through dlopen. */
#ifndef EP_SHMEM_LOADER_H
#define EP_SHMEM_LOADER_H

#include <stddef.h>
#include <stdint.h>

/* Of NVSHMEM 3.8: nvshmemx_uniqueid_t and nvshmemx_init_attr_t, each headed by version
 * and size. The library asserts the same sizes. */
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

_Static_assert(sizeof(EpShmemID) == 128, "nvshmemx_uniqueid_t");
_Static_assert(sizeof(EpShmemInit) == 144, "nvshmemx_init_attr_t");

typedef struct EpShmem {
  void *library;
  void (*version)(int *major, int *minor, int *patch);
  int (*unique)(EpShmemID *id);
  int (*set)(int rank, int ranks, const EpShmemID *id, EpShmemInit *init);
  int (*init)(unsigned flags, EpShmemInit *init);
  int (*status)(void);
  void *(*alloc)(size_t bytes);
  void (*free)(void *p);
  void *(*peer)(const void *p, int rank);
  int (*add_module)(void *module);
  void (*quiet)(void);
} EpShmem;

/* Loads the library. Returns null, or what went wrong; the text lives until the next call. */
const char *ep_shmem_load(EpShmem *s, const char *path);

void ep_shmem_version(const EpShmem *s, int *major, int *minor, int *patch);
int ep_shmem_unique(const EpShmem *s, EpShmemID *id);

/* Joins the ranks that have this id. Collective; the current context must be a primary one.
 * Returns 0 or the library's error. */
int ep_shmem_join(const EpShmem *s, const EpShmemID *id, int rank, int ranks);

uint64_t ep_shmem_alloc(const EpShmem *s, size_t bytes);
void ep_shmem_free(const EpShmem *s, uint64_t p);
uint64_t ep_shmem_peer(const EpShmem *s, uint64_t p, int rank);
int ep_shmem_add_module(const EpShmem *s, uint64_t module);
void ep_shmem_quiet(const EpShmem *s);

#endif
