/* A cuBLASLt on the emulated driver, with the functions that native/shim/ep_product.c calls. It follows cuBLASLt's
 * documentation. The environment variable EMUL_LT_BATCHES=0 makes it refuse batched products. */
#include <cuda.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vector>

namespace {

enum { ok = 0, invalid = 7, unsupported = 15 };
enum { bf16 = 14, e4m3 = 28 };

struct Desc {
  int32_t transpose_a = 0, transpose_b = 0, sms = 0;
};
struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct Preference {
  uint64_t workspace = 0;
};
struct Heuristic {
  uint64_t algo[8];
  size_t workspace;
  int32_t state;
  float waves;
  int32_t reserved[4];
};

float value(const void *base, int type, int64_t i) {
  if (type == bf16) {
    uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t *>(base)[i]) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
  }
  uint8_t b = static_cast<const uint8_t *>(base)[i];
  int exponent = b >> 3 & 15, mantissa = b & 7;
  float f = exponent == 0 ? ldexpf(static_cast<float>(mantissa), -9) : ldexpf(static_cast<float>(8 + mantissa), exponent - 10);
  return b & 0x80 ? -f : f;
}

uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Job {
  Desc desc;
  Layout a, b, d;
  const char *pa, *pb;
  uint16_t *pd;
  float alpha;
};

int64_t bytes_of(int type) { return type == bf16 ? 2 : 1; }

/* Returns `count` vectors of `inner` values. With `along`, the values of a vector are neighbours in memory. */
std::vector<float> vectors(const void *base, const Layout &l, bool along, uint64_t count, uint64_t inner) {
  std::vector<float> out;
  out.reserve(count * inner);
  const uint64_t ld = static_cast<uint64_t>(l.ld);
  for (uint64_t i = 0; i < count; i++)
    for (uint64_t k = 0; k < inner; k++) out.push_back(value(base, l.type, static_cast<int64_t>(along ? k + i * ld : i + k * ld)));
  return out;
}

float dot(const float *a, const float *b, uint64_t n) {
  float sum = 0;
  for (uint64_t k = 0; k < n; k++) sum += a[k] * b[k];
  return sum;
}

void multiply_batch(const Job &j, int32_t g) {
  const char *a = j.pa + g * j.a.stride * bytes_of(j.a.type), *b = j.pb + g * j.b.stride * bytes_of(j.b.type);
  uint16_t *d = j.pd + g * j.d.stride;
  uint64_t inner = j.desc.transpose_a ? j.a.rows : j.a.cols;
  std::vector<float> rows = vectors(a, j.a, j.desc.transpose_a, j.d.rows, inner);
  std::vector<float> cols = vectors(b, j.b, !j.desc.transpose_b, j.d.cols, inner);
  for (uint64_t col = 0; col < j.d.cols; col++)
    for (uint64_t row = 0; row < j.d.rows; row++)
      d[row + col * static_cast<uint64_t>(j.d.ld)] = to_bf16(j.alpha * dot(&rows[row * inner], &cols[col * inner], inner));
}

/* The least duration of a product. A small product sleeps for most of this time and leaves the processor to the blocks
 * of the other kernels. */
const int64_t least_ns = 2'000'000;

void multiply(void *data) {
  const Job &j = *static_cast<Job *>(data);
  timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += least_ns;
  if (end.tv_nsec >= 1'000'000'000) end.tv_sec++, end.tv_nsec -= 1'000'000'000;
  for (int32_t g = 0; g < j.a.batch; g++) multiply_batch(j, g);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr);
}

int check(const Desc &q, const Layout &a, const Layout &b, const Layout &d) {
  uint64_t m = q.transpose_a ? a.cols : a.rows, ka = q.transpose_a ? a.rows : a.cols;
  uint64_t n = q.transpose_b ? b.rows : b.cols, kb = q.transpose_b ? b.cols : b.rows;
  if (m != d.rows || n != d.cols || ka != kb || a.type != b.type || d.type != bf16) return invalid;
  if (a.ld < static_cast<int64_t>(a.rows) || b.ld < static_cast<int64_t>(b.rows) || d.ld < static_cast<int64_t>(d.rows)) return invalid;
  if (a.batch != b.batch || a.batch != d.batch) return invalid;
  if (a.type == e4m3 && (!q.transpose_a || q.transpose_b || m % 16 || ka % 16)) return unsupported;
  const char *batches = getenv("EMUL_LT_BATCHES");
  if (a.batch > 1 && batches && atoi(batches) == 0) return unsupported;
  return ok;
}

} // namespace

extern "C" {

size_t cublasLtGetVersion(void) { return 130000; }
int cublasLtCreate(void **h) {
  CUcontext c = nullptr;
  cuCtxGetCurrent(&c);
  if (!c) return invalid; /* as the real library does */
  *h = new int;
  return ok;
}
int cublasLtDestroy(void *h) { delete static_cast<int *>(h); return ok; }
int cublasLtMatmulDescCreate(Desc **d, int compute, int scale) {
  if (compute != 68 || scale != 0) return invalid;
  *d = new Desc;
  return ok;
}
int cublasLtMatmulDescSetAttribute(Desc *d, int attribute, const void *v, size_t n) {
  int32_t *field = attribute == 3 ? &d->transpose_a : attribute == 4 ? &d->transpose_b : attribute == 15 ? &d->sms : nullptr;
  if (!field || n != 4) return invalid;
  memcpy(field, v, 4);
  return ok;
}
int cublasLtMatmulDescDestroy(Desc *d) { delete d; return ok; }
int cublasLtMatrixLayoutCreate(Layout **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *l = new Layout{type, rows, cols, ld};
  return ok;
}
int cublasLtMatrixLayoutSetAttribute(Layout *l, int attribute, const void *v, size_t n) {
  if (attribute == 5 && n == 4) {
    memcpy(&l->batch, v, 4);
  } else if (attribute == 6 && n == 8) {
    memcpy(&l->stride, v, 8);
  } else {
    return invalid;
  }
  return ok;
}
int cublasLtMatrixLayoutDestroy(Layout *l) { delete l; return ok; }
int cublasLtMatmulPreferenceCreate(Preference **p) { *p = new Preference; return ok; }
int cublasLtMatmulPreferenceSetAttribute(Preference *p, int attribute, const void *v, size_t n) {
  if (attribute != 1 || n != 8) return invalid;
  memcpy(&p->workspace, v, 8);
  return ok;
}
int cublasLtMatmulPreferenceDestroy(Preference *p) { delete p; return ok; }

int cublasLtMatmulAlgoGetHeuristic(void *, Desc *q, Layout *a, Layout *b, Layout *, Layout *d, Preference *p, int want, Heuristic *out, int *got) {
  *got = 0;
  if (int r = check(*q, *a, *b, *d)) return r;
  if (want < 1) return invalid;
  memset(out, 0, sizeof *out);
  out->algo[0] = 0x1234 + static_cast<uint64_t>(a->batch);
  out->workspace = p->workspace < 64 ? p->workspace : 64;
  *got = 1;
  return ok;
}

int cublasLtMatmul(void *, Desc *q, const void *alpha, const void *pa, Layout *a, const void *pb, Layout *b, const void *beta, const void *,
                   Layout *, void *pd, Layout *d, const uint64_t *algo, void *workspace, size_t bytes, CUstream stream) {
  if (int r = check(*q, *a, *b, *d)) return r;
  if (algo[0] != 0x1234 + static_cast<uint64_t>(a->batch) || (bytes > 0 && !workspace) || *static_cast<const float *>(beta) != 0) return invalid;
  /* Never freed, because a graph may contain the job. */
  Job *j = new Job{*q, *a, *b, *d, static_cast<const char *>(pa), static_cast<const char *>(pb), static_cast<uint16_t *>(pd),
                   *static_cast<const float *>(alpha)};
  return cuLaunchHostFunc(stream, multiply, j) == CUDA_SUCCESS ? ok : invalid;
}

} // extern "C"
