//go:build cuda || nvrtc

#include "loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local char message[512];

static void *symbol(void *library, const char *name, const char **missing) {
  void *p = dlsym(library, name);
  if (p == NULL && *missing == NULL) *missing = name;
  return p;
}

const char *ep_nvrtc_preload(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL ? dlerror() : NULL;
}

const char *ep_nvrtc_load(EpNvrtc *n, const char *path) {
  const char *missing = NULL;
  n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (n->library == NULL) return dlerror();
  *(void **)&n->error_string = symbol(n->library, "nvrtcGetErrorString", &missing);
  *(void **)&n->version = symbol(n->library, "nvrtcVersion", &missing);
  *(void **)&n->create = symbol(n->library, "nvrtcCreateProgram", &missing);
  *(void **)&n->compile = symbol(n->library, "nvrtcCompileProgram", &missing);
  *(void **)&n->destroy = symbol(n->library, "nvrtcDestroyProgram", &missing);
  *(void **)&n->log_size = symbol(n->library, "nvrtcGetProgramLogSize", &missing);
  *(void **)&n->log = symbol(n->library, "nvrtcGetProgramLog", &missing);
  *(void **)&n->cubin_size = symbol(n->library, "nvrtcGetCUBINSize", &missing);
  *(void **)&n->cubin = symbol(n->library, "nvrtcGetCUBIN", &missing);
  if (missing == NULL) return NULL;
  snprintf(message, sizeof message, "%s has no %s", path, missing);
  dlclose(n->library);
  n->library = NULL;
  return message;
}

const char *ep_nvrtc_error(const EpNvrtc *n, int result) { return n->error_string(result); }

int ep_nvrtc_version(const EpNvrtc *n, int *major, int *minor) { return n->version(major, minor); }

int ep_nvrtc_create(const EpNvrtc *n, void **program, const char *source, int headers, const char *const *texts,
                    const char *const *names) {
  return n->create(program, source, "variant.cu", headers, texts, names);
}

int ep_nvrtc_compile(const EpNvrtc *n, void *program, int options, const char *const *texts) {
  return n->compile(program, options, texts);
}

void ep_nvrtc_destroy(const EpNvrtc *n, void *program) { n->destroy(&program); }

typedef int (*size_function)(void *, size_t *);
typedef int (*copy_function)(void *, char *);

static int fetch(size_function size, copy_function copy, void *program, char **data, size_t *bytes) {
  int r = size(program, bytes);
  if (r != 0) return r;
  *data = malloc(*bytes + 1);
  if (*data == NULL) return 1; /* NVRTC_ERROR_OUT_OF_MEMORY */
  return copy(program, *data);
}

int ep_nvrtc_log(const EpNvrtc *n, void *program, char **text, size_t *bytes) {
  return fetch(n->log_size, n->log, program, text, bytes);
}

int ep_nvrtc_cubin(const EpNvrtc *n, void *program, char **data, size_t *bytes) {
  return fetch(n->cubin_size, n->cubin, program, data, bytes);
}
