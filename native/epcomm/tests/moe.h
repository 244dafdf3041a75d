/* A small mixture of experts for tests. Every rank can compute the inputs of all ranks. An expert only multiplies by
 * its own factor. All outputs are checked. */
#ifndef EPCOMM_TESTS_MOE_H
#define EPCOMM_TESTS_MOE_H

#include "epcomm.h"
#include "gpu.h"

/* One rank's memory for calls, on host and device. */
typedef struct Moe {
  EpComm *comm;
  EpcommInfo info;
  uint64_t lost;    /* bit r for each lost rank, whose experts get no tokens */
  uint16_t *x;      /* [max_tokens, hidden] */
  int32_t *ids;     /* [max_tokens, topk] */
  int64_t *wide;    /* the same ids with 64 bits */
  float *weights;
  uint8_t *rows;    /* outputs of dispatch */
  float *scales;
  uint16_t *y, *combined;
  int32_t *src;
  uint32_t *offsets;
  void *dx, *dids, *dwide, *dweights, *dy, *dcombined; /* device memory for x, ids, wide, weights, y and combined */
} Moe;

Moe *moe_new(EpComm *comm);
void moe_free(Moe *m);

/* Returns the number of tokens of a rank in call n, 0 to most. */
int moe_tokens(const Moe *m, uint64_t n, int rank, int most);
/* Returns the number of tokens of the fullest rank in call n. */
int moe_fullest(const Moe *m, uint64_t n, int most);

/* Computes and uploads this rank's inputs of call n. */
void moe_inputs(Moe *m, uint64_t n, int tokens, GpuStream stream);

/* Returns the memory for the experts' outputs of a slot: the library's if there are several nodes. */
void *moe_y(const Moe *m, int slot);

/* Returns a call whose inputs and outputs are in this rank's memory. `wide` selects ids of 64 bits. */
EpcommCall moe_call(const Moe *m, int slot, int dtype, int tokens, int fullest, int wide);

/* Checks the outputs of dispatch and writes the experts' outputs to y. Returns 0 if the rows are right, otherwise
 * prints the first difference and returns 1. `most` must be the same as in moe_tokens. */
int moe_experts(Moe *m, const EpcommCall *call, uint64_t n, int most, GpuStream stream);

/* Convert one element: to BF16, from BF16, from e4m3. */
uint16_t moe_bf16(float f);
float moe_float(uint16_t bf16);
float moe_e4m3(uint8_t b);

/* Checks the outputs of combine. Returns 0 if they are right, otherwise prints the first difference. */
int moe_combined(Moe *m, const EpcommCall *call, uint64_t n, GpuStream stream);

#endif
