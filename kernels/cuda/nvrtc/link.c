//go:build cuda || nvrtc

#include "link.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local char message[512];

static void *symbol(void *library, const char *name, const char **missing) {
  void *p = dlsym(library, name);
  if (p == NULL && *missing == NULL) *missing = name;
  return p;
}

const char *ep_jitlink_load(EpJitLink *l, const char *path) {
  const char *missing = NULL;
  l->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (l->library == NULL) return dlerror();
  *(void **)&l->version = symbol(l->library, "nvJitLinkVersion", &missing);
  *(void **)&l->create = symbol(l->library, "nvJitLinkCreate", &missing);
  *(void **)&l->add = symbol(l->library, "nvJitLinkAddData", &missing);
  *(void **)&l->complete = symbol(l->library, "nvJitLinkComplete", &missing);
  *(void **)&l->destroy = symbol(l->library, "nvJitLinkDestroy", &missing);
  *(void **)&l->log_size = symbol(l->library, "nvJitLinkGetErrorLogSize", &missing);
  *(void **)&l->log = symbol(l->library, "nvJitLinkGetErrorLog", &missing);
  *(void **)&l->info_size = symbol(l->library, "nvJitLinkGetInfoLogSize", &missing);
  *(void **)&l->info = symbol(l->library, "nvJitLinkGetInfoLog", &missing);
  *(void **)&l->cubin_size = symbol(l->library, "nvJitLinkGetLinkedCubinSize", &missing);
  *(void **)&l->cubin = symbol(l->library, "nvJitLinkGetLinkedCubin", &missing);
  if (missing == NULL) return NULL;
  snprintf(message, sizeof message, "%s has no %s", path, missing);
  dlclose(l->library);
  l->library = NULL;
  return message;
}

int ep_jitlink_version(const EpJitLink *l, unsigned *major, unsigned *minor) { return l->version(major, minor); }

int ep_jitlink_create(const EpJitLink *l, void **handle, unsigned options, const char *const *texts) {
  return l->create(handle, options, (const char **)texts);
}

int ep_jitlink_add(const EpJitLink *l, void *handle, int kind, const void *data, size_t bytes, const char *name) {
  return l->add(handle, kind, data, bytes, name);
}

int ep_jitlink_complete(const EpJitLink *l, void *handle) { return l->complete(handle); }

void ep_jitlink_destroy(const EpJitLink *l, void *handle) { l->destroy(&handle); }

static int room(int (*size)(void *, size_t *), void *handle, char **data, size_t *bytes) {
  int r = size(handle, bytes);
  if (r != 0) return r;
  *data = calloc(*bytes + 1, 1);
  return *data == NULL ? 1 : 0;
}

int ep_jitlink_log(const EpJitLink *l, void *handle, char **text, size_t *bytes) {
  int r = room(l->log_size, handle, text, bytes);
  return r != 0 ? r : l->log(handle, *text);
}

int ep_jitlink_info(const EpJitLink *l, void *handle, char **text, size_t *bytes) {
  int r = room(l->info_size, handle, text, bytes);
  return r != 0 ? r : l->info(handle, *text);
}

int ep_jitlink_cubin(const EpJitLink *l, void *handle, char **data, size_t *bytes) {
  int r = room(l->cubin_size, handle, data, bytes);
  return r != 0 ? r : l->cubin(handle, *data);
}
