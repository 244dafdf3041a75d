#include "any.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int by_expert(const Moe *m) { return m->info.layout <= EPCOMM_LAYOUT_EXPERT_128; }

int any_dtype(const Moe *m, uint64_t n) {
  int have[4], count = 0;
  for (int d = 1; d <= 4; d++)
    if (m->info.dtypes & 1u << d) have[count++] = d;
  return have[n % (uint64_t)count];
}

EpcommCall any_call(const Moe *m, uint64_t n, int fullest) {
  EpcommCall c = moe_call(m, 0, any_dtype(m, n), moe_tokens(m, n, m->info.rank, fullest), fullest, n % 3 == 1);
  c.routing = EPCOMM_EVEN;
  return c;
}

EpcommCall any_whole(Moe *m, int tokens, int wide) {
  EpcommCall c = moe_call(m, 0, m->info.dtypes & 1u << EPCOMM_BF16 ? EPCOMM_BF16 : 0, tokens, tokens, wide);
  EpcommOutputs o = {.size = sizeof o};
  c.routing = EPCOMM_EVEN;
  epcomm_outputs(m->comm, 0, c.dtype, &o);
  if (o.y == NULL) c.y = o.out;
  return c;
}

int any_capture(Moe *m, const EpcommCall *c, GpuStream stream, GpuGraph *graph) {
  gpu_capture(stream);
  EpcommStatus s = epcomm_dispatch(m->comm, c, stream);
  if (s == EPCOMM_OK) s = epcomm_combine(m->comm, c, stream);
  *graph = gpu_captured(stream);
  return s == EPCOMM_OK ? 0 : ranks_say(m->comm, "capture", s);
}

static void widen_rows(Moe *m, const EpcommCall *c, const EpcommOutputs *o, GpuStream stream) {
  uint64_t hidden = (uint64_t)m->info.hidden, groups = hidden / 128, room = o->max_rows;
  int masked = m->info.layout == EPCOMM_LAYOUT_MASKED;
  if (masked) room /= (uint64_t)m->info.local_experts;
  gpu_download(m->rows, o->out, o->out_bytes, stream);
  gpu_download(m->scales, o->out_scales, o->scale_bytes, stream);
  for (uint64_t row = 0; row < o->max_rows; row++)
    for (uint64_t i = 0; i < hidden; i++) {
      uint64_t scale = masked ? (row / room * groups + i / 128) * room + row % room : row * groups + i / 128;
      m->y[row * hidden + i] = moe_bf16(moe_e4m3(m->rows[row * o->row_bytes + i]) * m->scales[scale]);
    }
  gpu_upload((void *)(uintptr_t)c->y, m->y, 2 * o->max_rows * hidden, stream);
}

int any_experts(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream) {
  EpcommOutputs o = {.size = sizeof o};
  if (by_expert(m)) return moe_experts(m, c, n, c->fullest, stream);
  epcomm_outputs(m->comm, c->slot, c->dtype, &o);
  if (c->dtype == EPCOMM_FP8) {
    widen_rows(m, c, &o, stream);
    return 0;
  }
  gpu_copy((void *)(uintptr_t)c->y, o.out, o.out_bytes, stream);
  return 0;
}

/* Returns the factor by which a token's combined row differs from the token. */
static float factor(const Moe *m, int token) {
  const int32_t *ids = m->ids + token * m->info.topk;
  uint64_t ranks = 0;
  float sum = 0;
  for (int k = 0; k < m->info.topk; k++) {
    if (ids[k] < 0) continue;
    uint64_t rank = (uint64_t)1 << ids[k] / m->info.local_experts;
    if (m->lost & rank) continue;
    if (m->info.layout == EPCOMM_LAYOUT_MASKED) sum += m->weights[token * m->info.topk + k];
    else if (!(ranks & rank)) sum += 1;
    ranks |= rank;
  }
  return sum;
}

int any_combined(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream) {
  if (by_expert(m)) return moe_combined(m, c, n, stream);
  gpu_download(m->combined, c->combined, 2 * (size_t)c->tokens * (size_t)m->info.hidden, stream);
  for (int t = 0; t < c->tokens; t++)
    for (int i = 0; i < m->info.hidden; i++) {
      float want = factor(m, t) * moe_float(m->x[t * m->info.hidden + i]), got = moe_float(m->combined[t * m->info.hidden + i]);
      float bound = c->dtype == EPCOMM_FP8 ? 0.08f * fabsf(want) + 0.006f * (float)m->info.topk : 0.02f * fabsf(want) + 1e-4f;
      if (fabsf(got - want) <= bound) continue;
      printf("rank %d call %llu token %d column %d: combined %g, want %g\n", m->info.rank, (unsigned long long)n, t, i, (double)got, (double)want);
      return 1;
    }
  return 0;
}

int any_checked(Moe *m, uint64_t n, int fullest, GpuStream stream) {
  EpcommCall c = any_call(m, n, fullest);
  moe_inputs(m, n, c.tokens, stream);
  int bad = ranks_ended(m->comm, "dispatch", epcomm_dispatch(m->comm, &c, stream), stream);
  if (!bad) bad = any_experts(m, &c, n, stream);
  if (!bad) bad = ranks_ended(m->comm, "combine", epcomm_combine(m->comm, &c, stream), stream);
  if (!bad) bad = any_combined(m, &c, n, stream);
  if (bad) printf("rank %d call %llu of %d tokens\n", m->info.rank, (unsigned long long)n, fullest);
  return bad;
}

int any_runs(Moe *m, int (*each)(Moe *, int, void *), void *context) {
  for (int fullest = 1; fullest <= m->info.max_tokens;) {
    EpcommExplanation e = {.size = sizeof e};
    EpcommCall c = moe_call(m, 0, 0, 0, fullest, 0);
    c.routing = EPCOMM_EVEN;
    if (epcomm_explain(m->comm, &c, &e) != EPCOMM_OK) return 1;
    int most = e.last < m->info.max_tokens ? e.last : fullest;
    int bad = each(m, most, context);
    if (bad) return bad;
    fullest = e.last + 1;
  }
  return 0;
}

long any_numbers(Moe *m, const void *tensor, size_t elements, GpuStream stream) {
  uint16_t *host = malloc(2 * elements + 2);
  long numbers = 0;
  (void)m;
  gpu_download(host, tensor, 2 * elements, stream);
  for (size_t i = 0; i < elements; i++) numbers += !isnan(moe_float(host[i]));
  free(host);
  return numbers;
}
