#include "ep_product.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the functions and constants of cuBLASLt 12 and 13 that this file uses ---- */

enum { LT_COMPUTE_32F = 68, LT_R_32F = 0, LT_R_16BF = 14, LT_R_8F_E4M3 = 28, LT_OP_N = 0, LT_OP_T = 1 };
enum { LT_DESC_TRANSA = 3, LT_DESC_TRANSB = 4, LT_DESC_SM_COUNT_TARGET = 15 };
enum { LT_LAYOUT_BATCH_COUNT = 5, LT_LAYOUT_STRIDE = 6 };
enum { LT_PREFERENCE_WORKSPACE = 1 };

typedef struct LtAlgo {
  uint64_t data[8];
} LtAlgo;

typedef struct LtHeuristic {
  LtAlgo algo;
  size_t workspace;
  int32_t state; /* 0: usable */
  float waves;
  int32_t reserved[4];
} LtHeuristic;

_Static_assert(sizeof(LtHeuristic) == 96, "cublasLtMatmulHeuristicResult_t");

typedef void *LtHandle, *LtDesc, *LtLayout, *LtPreference;

static struct {
  void *library;
  size_t (*version)(void);
  int (*create)(LtHandle *);
  int (*destroy)(LtHandle);
  int (*desc_create)(LtDesc *, int compute, int scale);
  int (*desc_set)(LtDesc, int attribute, const void *, size_t);
  int (*desc_destroy)(LtDesc);
  int (*layout_create)(LtLayout *, int type, uint64_t rows, uint64_t cols, int64_t ld);
  int (*layout_set)(LtLayout, int attribute, const void *, size_t);
  int (*layout_destroy)(LtLayout);
  int (*preference_create)(LtPreference *);
  int (*preference_set)(LtPreference, int attribute, const void *, size_t);
  int (*preference_destroy)(LtPreference);
  int (*heuristic)(LtHandle, LtDesc, LtLayout a, LtLayout b, LtLayout c, LtLayout d, LtPreference, int want, LtHeuristic *, int *got);
  int (*matmul)(LtHandle, LtDesc, const void *alpha, const void *a, LtLayout, const void *b, LtLayout, const void *beta,
                const void *c, LtLayout, void *d, LtLayout, const LtAlgo *, void *workspace, size_t, void *stream);
} lt;

static void *lt_symbol(void *library, const char *name, const char **missing) {
  void *p = dlsym(library, name);
  if (p == NULL && *missing == NULL) *missing = name;
  return p;
}

int ep_product_open(const char *path, char text[EP_PRODUCT_TEXT]) {
  const char *missing = NULL;
  if (lt.library != NULL) return 0;
  void *l = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (l == NULL) {
    snprintf(text, EP_PRODUCT_TEXT, "%s", dlerror());
    return 1;
  }
  *(void **)&lt.version = lt_symbol(l, "cublasLtGetVersion", &missing);
  *(void **)&lt.create = lt_symbol(l, "cublasLtCreate", &missing);
  *(void **)&lt.destroy = lt_symbol(l, "cublasLtDestroy", &missing);
  *(void **)&lt.desc_create = lt_symbol(l, "cublasLtMatmulDescCreate", &missing);
  *(void **)&lt.desc_set = lt_symbol(l, "cublasLtMatmulDescSetAttribute", &missing);
  *(void **)&lt.desc_destroy = lt_symbol(l, "cublasLtMatmulDescDestroy", &missing);
  *(void **)&lt.layout_create = lt_symbol(l, "cublasLtMatrixLayoutCreate", &missing);
  *(void **)&lt.layout_set = lt_symbol(l, "cublasLtMatrixLayoutSetAttribute", &missing);
  *(void **)&lt.layout_destroy = lt_symbol(l, "cublasLtMatrixLayoutDestroy", &missing);
  *(void **)&lt.preference_create = lt_symbol(l, "cublasLtMatmulPreferenceCreate", &missing);
  *(void **)&lt.preference_set = lt_symbol(l, "cublasLtMatmulPreferenceSetAttribute", &missing);
  *(void **)&lt.preference_destroy = lt_symbol(l, "cublasLtMatmulPreferenceDestroy", &missing);
  *(void **)&lt.heuristic = lt_symbol(l, "cublasLtMatmulAlgoGetHeuristic", &missing);
  *(void **)&lt.matmul = lt_symbol(l, "cublasLtMatmul", &missing);
  if (missing != NULL) {
    snprintf(text, EP_PRODUCT_TEXT, "%s has no %s", path, missing);
    dlclose(l);
    return 1;
  }
  lt.library = l;
  return 0;
}

uint64_t ep_product_version(void) { return lt.library ? lt.version() : 0; }

/* ---- one plan ---- */

struct EpProduct {
  EpProductSpec spec;
  LtHandle handle;
  LtDesc desc;
  LtLayout x, w, out;
  LtAlgo algo;
  size_t workspace;
  int batched; /* 1: a launch is one kernel; 0: one kernel for each expert */
};

/* Describes the matrices to cuBLASLt. cuBLASLt expects column-major matrices, so for it a row-major matrix in memory
 * is the transpose. It sees outT [n, m], wT [k, n] and xT [k, m], and computes outT = transpose(wT) * xT. In e4m3 it
 * can compute only this form. */
static int make_layouts(EpProduct *p, int batch) {
  const EpProductSpec *s = &p->spec;
  int type = s->fp8 ? LT_R_8F_E4M3 : LT_R_16BF;
  uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
  int r = lt.layout_create(&p->w, type, k, n, s->k);
  if (r == 0) r = lt.layout_create(&p->x, type, k, m, s->k);
  if (r == 0) r = lt.layout_create(&p->out, LT_R_16BF, n, m, s->n);
  struct {
    LtLayout layout;
    int64_t stride; /* elements from one expert to the next */
  } all[3] = {{p->w, (int64_t)(n * k)}, {p->x, (int64_t)(m * k)}, {p->out, (int64_t)(m * n)}};
  int32_t count = batch;
  for (int i = 0; i < 3 && r == 0 && batch > 1; i++) {
    r = lt.layout_set(all[i].layout, LT_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (r == 0) r = lt.layout_set(all[i].layout, LT_LAYOUT_STRIDE, &all[i].stride, sizeof all[i].stride);
  }
  return r;
}

static void drop_layouts(EpProduct *p) {
  if (p->w) lt.layout_destroy(p->w);
  if (p->x) lt.layout_destroy(p->x);
  if (p->out) lt.layout_destroy(p->out);
  p->w = p->x = p->out = NULL;
}

static int make_desc(EpProduct *p) {
  int32_t transpose = LT_OP_T, plain = LT_OP_N;
  int r = lt.desc_create(&p->desc, LT_COMPUTE_32F, LT_R_32F);
  if (r == 0) r = lt.desc_set(p->desc, LT_DESC_TRANSA, &transpose, sizeof transpose);
  if (r == 0) r = lt.desc_set(p->desc, LT_DESC_TRANSB, &plain, sizeof plain);
  if (r == 0 && p->spec.sms > 0) r = lt.desc_set(p->desc, LT_DESC_SM_COUNT_TARGET, &p->spec.sms, sizeof p->spec.sms);
  return r;
}

/* Chooses an algorithm. Returns cuBLASLt's status, or -1 if cuBLASLt has no algorithm for these matrices. */
static int choose(EpProduct *p) {
  LtPreference preference = NULL;
  LtHeuristic found;
  int got = 0;
  uint64_t room = p->spec.workspace_bytes;
  memset(&found, 0, sizeof found);
  int r = lt.preference_create(&preference);
  if (r == 0) r = lt.preference_set(preference, LT_PREFERENCE_WORKSPACE, &room, sizeof room);
  if (r == 0) r = lt.heuristic(p->handle, p->desc, p->w, p->x, p->out, p->out, preference, 1, &found, &got);
  if (preference) lt.preference_destroy(preference);
  if (r != 0) return r;
  if (got < 1 || found.state != 0) return -1;
  p->algo = found.algo;
  p->workspace = found.workspace;
  return 0;
}

static int plan(EpProduct *p, int batch) {
  drop_layouts(p);
  p->batched = batch > 1;
  int r = make_layouts(p, batch);
  return r == 0 ? choose(p) : r;
}

int ep_product_make(const EpProductSpec *spec, EpProduct **out, char text[EP_PRODUCT_TEXT]) {
  EpProduct *p = calloc(1, sizeof *p);
  if (p == NULL || lt.library == NULL) {
    free(p);
    snprintf(text, EP_PRODUCT_TEXT, "the library is not open");
    return 1;
  }
  p->spec = *spec;
  int r = lt.create(&p->handle);
  if (r == 0) r = make_desc(p);
  if (r == 0) {
    r = plan(p, spec->batch);
    if (r != 0 && spec->batch > 1) r = plan(p, 1);
  }
  if (r == 0) {
    *out = p;
    return 0;
  }
  snprintf(text, EP_PRODUCT_TEXT, "cuBLASLt cannot multiply [%d, %d] by [%d, %d] in %s: %s %d", spec->m, spec->k, spec->k, spec->n,
           spec->fp8 ? "fp8" : "bf16", r == -1 ? "no algorithm" : "status", r);
  ep_product_free(p);
  return 1;
}

void ep_product_free(EpProduct *p) {
  if (p == NULL) return;
  drop_layouts(p);
  if (p->desc) lt.desc_destroy(p->desc);
  if (p->handle) lt.destroy(p->handle);
  free(p);
}

int ep_product_kernels(const EpProduct *p) { return p->batched ? 1 : p->spec.batch; }

static int multiply(const EpProduct *p, int32_t g, uint64_t stream) {
  const EpProductSpec *s = &p->spec;
  uint64_t size = s->fp8 ? 1 : 2, m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k, at = (uint64_t)g;
  const float one = 1, zero = 0;
  void *w = (void *)(uintptr_t)(s->w + at * n * k * size);
  void *x = (void *)(uintptr_t)(s->x + at * m * k * size);
  void *d = (void *)(uintptr_t)(s->out + at * m * n * 2);
  return lt.matmul(p->handle, p->desc, &one, w, p->w, x, p->x, &zero, d, p->out, d, p->out, &p->algo,
                   (void *)(uintptr_t)s->workspace, p->workspace, (void *)(uintptr_t)stream);
}

int ep_product_launch(const EpProduct *p, int32_t i, uint64_t stream) {
  const EpProductSpec *s = &p->spec;
  int32_t launches = (s->groups + s->batch - 1) / s->batch, first = i % launches * s->batch;
  if (first + s->batch > s->groups) first = s->groups - s->batch; /* repeats experts */
  if (p->batched) return multiply(p, first, stream);
  int r = 0;
  for (int32_t g = 0; g < s->batch && r == 0; g++) r = multiply(p, first + g, stream);
  return r;
}
