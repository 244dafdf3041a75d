/* Checked calls of any layout. */
#ifndef EPCOMM_TESTS_ANY_H
#define EPCOMM_TESTS_ANY_H

#include "moe.h"

int any_dtype(const Moe *m, uint64_t n);

/* Returns call n with up to `fullest` tokens. */
EpcommCall any_call(const Moe *m, uint64_t n, int fullest);

/* Returns a call with `tokens` tokens on every rank. The experts return the rows unchanged. */
EpcommCall any_whole(Moe *m, int tokens, int wide);

int any_capture(Moe *m, const EpcommCall *c, GpuStream stream, GpuGraph *graph);

/* Computes the experts' outputs, and checks the received rows in layout expert. Returns 0 if the rows are right. */
int any_experts(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Returns 0 if the combined rows are right. */
int any_combined(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Returns 0 if the results of call n are right. */
int any_checked(Moe *m, uint64_t n, int fullest, GpuStream stream);

/* Calls `each` for one token count of each range of token counts that has the same kernels. Returns the first result
 * that is not 0. */
int any_runs(Moe *m, int (*each)(Moe *m, int fullest, void *context), void *context);

long any_numbers(Moe *m, const void *bf16, size_t elements, GpuStream stream);

#endif
