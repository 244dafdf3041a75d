/* Loads libnvrtc, NVIDIA's run-time compiler. Functions that return an int return an nvrtcResult: 0 for
 * success. */
#ifndef EP_NVRTC_LOADER_H
#define EP_NVRTC_LOADER_H

#include <stddef.h>

typedef struct EpNvrtc {
  void *library;
  const char *(*error_string)(int);
  int (*version)(int *major, int *minor);
  int (*create)(void **program, const char *source, const char *name, int headers, const char *const *texts,
                const char *const *names);
  int (*compile)(void *program, int options, const char *const *texts);
  int (*destroy)(void **program);
  int (*log_size)(void *program, size_t *bytes);
  int (*log)(void *program, char *text);
  int (*cubin_size)(void *program, size_t *bytes);
  int (*cubin)(void *program, char *bytes);
} EpNvrtc;

/* Loads the library by path or soname. Returns null, or an error text that is valid until the next call. */
const char *ep_nvrtc_load(EpNvrtc *n, const char *path);

/* Loads libnvrtc-builtins from a path. libnvrtc itself looks for it only on the library path. Returns null
 * or an error text. */
const char *ep_nvrtc_preload(const char *path);

const char *ep_nvrtc_error(const EpNvrtc *n, int result);
int ep_nvrtc_version(const EpNvrtc *n, int *major, int *minor);
int ep_nvrtc_create(const EpNvrtc *n, void **program, const char *source, int headers, const char *const *texts,
                    const char *const *names);
int ep_nvrtc_compile(const EpNvrtc *n, void *program, int options, const char *const *texts);
void ep_nvrtc_destroy(const EpNvrtc *n, void *program);
/* Return a buffer that the caller frees. */
int ep_nvrtc_log(const EpNvrtc *n, void *program, char **text, size_t *bytes);
int ep_nvrtc_cubin(const EpNvrtc *n, void *program, char **data, size_t *bytes);

#endif
