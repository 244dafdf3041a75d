/* Checked calls of any layout. */
#ifndef EPCOMM_TESTS_ANY_H
#define EPCOMM_TESTS_ANY_H

#include "moe.h"

/* Returns the dtype of call n. */
int any_dtype(const Moe *m, uint64_t n);

/* Returns call n with up to `fullest` tokens. */
EpcommCall any_call(const Moe *m, uint64_t n, int fullest);

/* Returns a call with `tokens` tokens on every rank, whose experts return the rows unchanged. */
EpcommCall any_whole(Moe *m, int tokens, int wide);

int any_capture(Moe *m, const EpcommCall *c, GpuStream stream, GpuGraph *graph);

/* Replaces the experts, and checks the received rows in layout expert. Returns 0 if they are right. */
int any_experts(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Returns 0 if they are right. */
int any_combined(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Returns 0 if all is right. */
int any_checked(Moe *m, uint64_t n, int fullest, GpuStream stream);

/* Calls `each` with one token count of each range; returns the first result that is not 0. */
int any_runs(Moe *m, int (*each)(Moe *m, int fullest, void *context), void *context);

long any_numbers(Moe *m, const void *bf16, size_t elements, GpuStream stream);

#endif
