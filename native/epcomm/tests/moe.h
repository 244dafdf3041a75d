/* A small mixture of experts for tests. Each expert multiplies its rows by a factor of its own. */
#ifndef EPCOMM_TESTS_MOE_H
#define EPCOMM_TESTS_MOE_H

#include "epcomm.h"
#include "gpu.h"

typedef struct Moe {
  EpComm *comm;
  EpcommInfo info;
  uint64_t lost;    /* bit r: rank r is lost */
  uint16_t *x;      /* [max_tokens, hidden] */
  int32_t *ids;     /* [max_tokens, topk] */
  int64_t *wide;
  float *weights;
  uint8_t *rows;
  float *scales;
  uint16_t *y, *combined;
  int32_t *src;
  uint32_t *offsets;
  void *dx, *dids, *dwide, *dweights, *dy, *dcombined;
} Moe;

Moe *moe_new(EpComm *comm);
void moe_free(Moe *m);

/* Returns the number of tokens of a rank in call n, from 0 to `most`. */
int moe_tokens(const Moe *m, uint64_t n, int rank, int most);
int moe_fullest(const Moe *m, uint64_t n, int most);

void moe_inputs(Moe *m, uint64_t n, int tokens, GpuStream stream);

void *moe_y(const Moe *m, int slot);

/* `wide` selects ids of 64 bits. */
EpcommCall moe_call(const Moe *m, int slot, int dtype, int tokens, int fullest, int wide);

/* Checks the outputs of dispatch and writes y. Returns 0, or prints the first difference and returns 1. */
int moe_experts(Moe *m, const EpcommCall *call, uint64_t n, int most, GpuStream stream);

uint16_t moe_bf16(float f);
float moe_float(uint16_t bf16);
float moe_e4m3(uint8_t b);

/* Returns 0 if the combined rows are right. */
int moe_combined(Moe *m, const EpcommCall *call, uint64_t n, GpuStream stream);

#endif
