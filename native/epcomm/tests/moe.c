/* Inputs, experts and checks for tests. All inputs of all ranks follow from the number n of a call. */
#include "moe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x) { /* splitmix64 */
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

static uint64_t draw(uint64_t n, uint64_t a, uint64_t b, uint64_t c) { return mix(mix(mix(n * 4 + a) + b) + c); }

float moe_float(uint16_t b) {
  uint32_t u = (uint32_t)b << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

uint16_t moe_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float moe_e4m3(uint8_t b) {
  int e = b >> 3 & 15, m = b & 7;
  float v = e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);
  return b & 128 ? -v : v;
}

static uint16_t element(uint64_t n, int rank, int token, int column) {
  return moe_bf16((float)((int)(draw(n, (uint64_t)rank, (uint64_t)token, (uint64_t)column) % 4001) - 2000) / 1000);
}

/* Writes the expert ids of a token. About one id in eight is -1, which means no expert. */
static void choose(const EpcommInfo *i, uint64_t n, int rank, int token, int32_t *ids) {
  for (int k = 0; k < i->topk; k++) {
    uint64_t h = draw(n + 7, (uint64_t)rank, (uint64_t)token, (uint64_t)k);
    int32_t e = (int32_t)(h % (uint64_t)i->experts);
    for (int again = 1; again;) {
      again = 0;
      for (int j = 0; j < k; j++)
        if (ids[j] == e) again = 1;
      if (again) e = (e + 1) % i->experts;
    }
    ids[k] = e;
  }
  for (int k = 0; k < i->topk; k++)
    if (draw(n + 9, (uint64_t)rank, (uint64_t)token, (uint64_t)k) % 8 == 0) ids[k] = -1;
}

static float weight(uint64_t n, int rank, int token, int k) {
  return (float)(draw(n + 11, (uint64_t)rank, (uint64_t)token, (uint64_t)k) % 1000) / 1000 + 0.001f;
}

static float gain(int expert) { return 0.5f + (float)(expert % 64) / 64; }

int moe_tokens(const Moe *m, uint64_t n, int rank, int most) {
  if (most > m->info.max_tokens) most = m->info.max_tokens;
  uint64_t h = draw(n + 13, (uint64_t)rank, 0, 0);
  return h % 5 == 0 ? 0 : (int)(h / 5 % (uint64_t)(most + 1));
}

int moe_fullest(const Moe *m, uint64_t n, int most) {
  int fullest = 1;
  for (int r = 0; r < m->info.ranks; r++)
    if (moe_tokens(m, n, r, most) > fullest) fullest = moe_tokens(m, n, r, most);
  return fullest;
}

Moe *moe_new(EpComm *comm) {
  Moe *m = calloc(1, sizeof *m);
  EpcommOutputs o = {.size = sizeof o};
  m->comm = comm;
  m->info.size = sizeof m->info;
  epcomm_info(comm, &m->info);
  uint64_t rows = 0, row = 0, scales = 0;
  for (int d = 1; d <= 4; d++)
    if (m->info.dtypes & 1u << d && epcomm_outputs(comm, 0, d, &o) == EPCOMM_OK) {
      if (o.max_rows > rows) rows = o.max_rows;
      if (o.out_bytes > row) row = o.out_bytes;
      if (o.scale_bytes > scales) scales = o.scale_bytes;
    }
  size_t tokens = (size_t)m->info.max_tokens, hidden = (size_t)m->info.hidden, picks = tokens * (size_t)m->info.topk;
  m->x = malloc(2 * tokens * hidden);
  m->ids = malloc(4 * picks);
  m->wide = malloc(8 * picks);
  m->weights = malloc(4 * picks);
  m->rows = malloc(row);
  m->scales = malloc(scales + 4);
  m->y = malloc(2 * rows * hidden);
  m->combined = malloc(2 * tokens * hidden);
  m->src = malloc(8 * rows);
  m->offsets = malloc(4 * ((size_t)m->info.groups + 1));
  m->dx = gpu_alloc(2 * tokens * hidden);
  m->dids = gpu_alloc(4 * picks);
  m->dwide = gpu_alloc(8 * picks);
  m->dweights = gpu_alloc(4 * picks);
  m->dy = gpu_alloc(2 * rows * hidden);
  m->dcombined = gpu_alloc(2 * tokens * hidden);
  return m;
}

void moe_free(Moe *m) {
  void *host[] = {m->x, m->ids, m->wide, m->weights, m->rows, m->scales, m->y, m->combined, m->src, m->offsets};
  void *device[] = {m->dx, m->dids, m->dwide, m->dweights, m->dy, m->dcombined};
  for (size_t i = 0; i < sizeof host / sizeof host[0]; i++) free(host[i]);
  for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) gpu_free(device[i]);
  free(m);
}

void moe_inputs(Moe *m, uint64_t n, int tokens, GpuStream stream) {
  const EpcommInfo *i = &m->info;
  gpu_wait(stream);
  for (int t = 0; t < tokens; t++) {
    for (int c = 0; c < i->hidden; c++) m->x[t * i->hidden + c] = element(n, i->rank, t, c);
    choose(i, n, i->rank, t, m->ids + t * i->topk);
    for (int k = 0; k < i->topk; k++) {
      m->wide[t * i->topk + k] = m->ids[t * i->topk + k];
      m->weights[t * i->topk + k] = weight(n, i->rank, t, k);
    }
  }
  size_t picks = (size_t)tokens * (size_t)i->topk;
  gpu_upload(m->dx, m->x, 2 * (size_t)tokens * (size_t)i->hidden, stream);
  gpu_upload(m->dids, m->ids, 4 * picks, stream);
  gpu_upload(m->dwide, m->wide, 8 * picks, stream);
  gpu_upload(m->dweights, m->weights, 4 * picks, stream);
}

void *moe_y(const Moe *m, int slot) {
  EpcommOutputs o = {.size = sizeof o};
  epcomm_outputs(m->comm, slot, 0, &o);
  return o.y != NULL ? o.y : m->dy;
}

EpcommCall moe_call(const Moe *m, int slot, int dtype, int tokens, int fullest, int wide) {
  EpcommCall c;
  memset(&c, 0, sizeof c);
  c.size = sizeof c;
  c.slot = slot;
  c.dtype = dtype;
  c.tokens = tokens;
  c.fullest = fullest;
  c.ids_bits = wide ? 64 : 32;
  c.x = m->dx;
  c.topk_ids = wide ? m->dwide : m->dids;
  c.weights = m->dweights;
  c.y = moe_y(m, slot);
  c.combined = m->dcombined;
  return c;
}

typedef struct Received {
  EpcommOutputs o;
  int dtype;
} Received;

static float value(const Moe *m, const Received *l, uint64_t row, int column) {
  const uint8_t *p = m->rows + row * l->o.row_bytes;
  if (l->dtype == EPCOMM_BF16) return moe_float((uint16_t)(p[2 * column] | p[2 * column + 1] << 8));
  return moe_e4m3(p[column]) * m->scales[(uint64_t)(column / 128) * l->o.max_rows + row];
}

static int wrong_row(const Moe *m, const Received *l, uint64_t n, uint64_t row, int source, int token) {
  for (int c = 0; c < m->info.hidden; c++) {
    float want = moe_float(element(n, source, token, c)), got = value(m, l, row, c);
    if (l->dtype == EPCOMM_BF16 ? got == want : fabsf(got - want) <= 0.07f * fabsf(want) + 0.005f) continue;
    printf("rank %d call %llu row %llu from rank %d token %d column %d: %g, want %g\n", m->info.rank, (unsigned long long)n,
           (unsigned long long)row, source, token, c, (double)got, (double)want);
    return 1;
  }
  return 0;
}

/* Checks the rows of one expert, and writes the expert's output. Rows are in order of source ranks. Returns 1 if a row
 * is wrong. */
static int wrong_group(Moe *m, const Received *l, uint64_t n, int most, int local) {
  const EpcommInfo *i = &m->info;
  int expert = i->rank * i->local_experts + local, bad = 0;
  uint64_t row = m->offsets[local];
  int32_t ids[32];
  for (int source = 0; source < i->ranks; source++) {
    int tokens = moe_tokens(m, n, source, most), expected = 0;
    char *seen = calloc((size_t)tokens + 1, 1);
    for (int t = 0; t < tokens; t++) {
      choose(i, n, source, t, ids);
      for (int k = 0; k < i->topk; k++) expected += ids[k] == expert;
    }
    for (int j = 0; j < expected && !bad; j++, row++) {
      int token = m->src[2 * row], k = m->src[2 * row + 1];
      if (token >= 0 && token < tokens && k >= 0 && k < i->topk) choose(i, n, source, token, ids);
      if (token < 0 || token >= tokens || k < 0 || k >= i->topk || seen[token] || ids[k] != expert) {
        printf("rank %d call %llu expert %d row %llu: token %d position %d of rank %d does not belong here\n", i->rank,
               (unsigned long long)n, expert, (unsigned long long)row, token, k, source);
        bad = 1;
        break;
      }
      seen[token] = 1;
      bad = wrong_row(m, l, n, row, source, token);
      for (int c = 0; c < i->hidden; c++)
        m->y[row * (uint64_t)i->hidden + (uint64_t)c] = moe_bf16(value(m, l, row, c) * gain(expert));
    }
    free(seen);
    if (bad) return 1;
  }
  if (m->offsets[local + 1] < row || m->offsets[local + 1] >= row + (uint64_t)l->o.row_pad) {
    printf("rank %d call %llu expert %d ends at row %u, want %llu\n", i->rank, (unsigned long long)n, expert, m->offsets[local + 1],
           (unsigned long long)row);
    return 1;
  }
  return 0;
}

int moe_experts(Moe *m, const EpcommCall *call, uint64_t n, int most, GpuStream stream) {
  Received l;
  memset(&l, 0, sizeof l);
  l.o.size = sizeof l.o;
  l.dtype = call->dtype != 0 ? call->dtype : m->info.default_dtype;
  epcomm_outputs(m->comm, call->slot, l.dtype, &l.o);
  int own = call->out != NULL;
  gpu_download(m->offsets, own ? call->row_offsets : l.o.row_offsets, 4 * ((size_t)m->info.groups + 1), stream);
  uint64_t rows = m->offsets[m->info.groups];
  if (rows > l.o.max_rows) {
    printf("rank %d call %llu: %llu rows, want at most %llu\n", m->info.rank, (unsigned long long)n, (unsigned long long)rows,
           (unsigned long long)l.o.max_rows);
    return 1;
  }
  gpu_download(m->src, own ? call->src_info : l.o.src_info, 8 * rows, stream);
  gpu_download(m->rows, own ? call->out : l.o.out, rows * l.o.row_bytes, stream);
  if (l.o.scale_bytes > 0) gpu_download(m->scales, own ? call->out_scales : l.o.out_scales, l.o.scale_bytes, stream);
  for (int e = 0; e < m->info.local_experts; e++)
    if (wrong_group(m, &l, n, most, e)) return 1;
  gpu_upload((void *)(uintptr_t)call->y, m->y, 2 * rows * (size_t)m->info.hidden, stream);
  return 0;
}

int moe_combined(Moe *m, const EpcommCall *call, uint64_t n, GpuStream stream) {
  const EpcommInfo *i = &m->info;
  int fp8 = (call->dtype != 0 ? call->dtype : i->default_dtype) == EPCOMM_FP8;
  gpu_download(m->combined, call->combined, 2 * (size_t)call->tokens * (size_t)i->hidden, stream);
  for (int t = 0; t < call->tokens; t++)
    for (int c = 0; c < i->hidden; c++) {
      float want = 0, size = 0, got = moe_float(m->combined[t * i->hidden + c]), x = moe_float(element(n, i->rank, t, c));
      for (int k = 0; k < i->topk; k++) {
        int32_t e = m->ids[t * i->topk + k];
        if (e < 0) continue;
        float term = m->weights[t * i->topk + k] * gain(e);
        want += term * x;
        size += term;
      }
      float bound = fp8 ? size * (0.08f * fabsf(x) + 0.006f) : size * fabsf(x) * 0.02f + 1e-6f;
      if (fabsf(got - want) <= bound) continue;
      printf("rank %d call %llu token %d column %d: combined %g, want %g\n", i->rank, (unsigned long long)n, t, c, (double)got,
             (double)want);
      return 1;
    }
  return 0;
}
