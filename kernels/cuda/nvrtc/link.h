/* Loads libnvJitLink, NVIDIA's linker for device code. Functions that return an int return an
 * nvJitLinkResult: 0 for success. */
#ifndef EP_NVJITLINK_H
#define EP_NVJITLINK_H

#include <stddef.h>

typedef struct EpJitLink {
  void *library;
  int (*version)(unsigned *major, unsigned *minor);
  int (*create)(void **handle, unsigned options, const char **texts);
  int (*add)(void *handle, int kind, const void *data, size_t bytes, const char *name);
  int (*complete)(void *handle);
  int (*destroy)(void **handle);
  int (*log_size)(void *handle, size_t *bytes);
  int (*log)(void *handle, char *text);
  int (*info_size)(void *handle, size_t *bytes);
  int (*info)(void *handle, char *text);
  int (*cubin_size)(void *handle, size_t *bytes);
  int (*cubin)(void *handle, void *bytes);
} EpJitLink;

/* Values of nvJitLinkInputType. */
#define EP_LINK_CUBIN 1
#define EP_LINK_LIBRARY 6

/* Loads the library by path or soname. Returns null or an error text. */
const char *ep_jitlink_load(EpJitLink *l, const char *path);

int ep_jitlink_version(const EpJitLink *l, unsigned *major, unsigned *minor);
int ep_jitlink_create(const EpJitLink *l, void **handle, unsigned options, const char *const *texts);
int ep_jitlink_add(const EpJitLink *l, void *handle, int kind, const void *data, size_t bytes, const char *name);
int ep_jitlink_complete(const EpJitLink *l, void *handle);
void ep_jitlink_destroy(const EpJitLink *l, void *handle);
/* Return the error log, the number of registers of each kernel, or the binary, in a buffer that the caller frees. */
int ep_jitlink_log(const EpJitLink *l, void *handle, char **text, size_t *bytes);
int ep_jitlink_info(const EpJitLink *l, void *handle, char **text, size_t *bytes);
int ep_jitlink_cubin(const EpJitLink *l, void *handle, char **data, size_t *bytes);

#endif
