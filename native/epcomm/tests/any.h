/* Checked calls of any layout. */
#ifndef EPCOMM_TESTS_ANY_H
#define EPCOMM_TESTS_ANY_H

#include "moe.h"

/* The dtype of checked calls in a pack: of layouts other than expert BF16, whose rows the experts
 * hand on as they are. */
int any_dtype(const Moe *m, uint64_t n);

/* A call of up to `fullest` tokens; the same number on all ranks. */
EpcommCall any_call(const Moe *m, uint64_t n, int fullest);

/* Between dispatch and combine: checks the rows where the layout is expert, and writes y. Returns
 * 0 if all is right. */
int any_experts(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Checks the combined tokens. */
int any_combined(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Makes one call and checks all of it. */
int any_checked(Moe *m, uint64_t n, int fullest, GpuStream stream);

/* What runs of token counts a pack answers alike: calls `each` with the first count of each, until it
 * returns other than 0. */
int any_runs(Moe *m, int (*each)(Moe *m, int fullest, void *context), void *context);

/* The number of elements of a call's combined tokens, or of out, that are not NaN, and in *rows what
 * row_offsets says. */
long any_numbers(Moe *m, const void *bf16, size_t elements, GpuStream stream);

#endif
