/* Checked calls of any layout. */
#ifndef EPCOMM_TESTS_ANY_H
#define EPCOMM_TESTS_ANY_H

#include "moe.h"

/* Returns the dtype of call n. Dtypes alternate, so that calls of different dtypes use the same memory in turn. */
int any_dtype(const Moe *m, uint64_t n);

/* Returns call n with up to `fullest` tokens. All ranks pass the same n. */
EpcommCall any_call(const Moe *m, uint64_t n, int fullest);

/* Returns a call with `tokens` tokens on every rank, whose experts return the rows unchanged. */
EpcommCall any_whole(Moe *m, int tokens, int wide);

/* Captures a dispatch and its combine in one graph. Returns 0, or prints the error and returns ranks_say's result. */
int any_capture(Moe *m, const EpcommCall *c, GpuStream stream, GpuGraph *graph);

/* Replaces the experts. In layout expert it checks the received rows and multiplies each by its expert's factor. In
 * other layouts it only copies the rows, in BF16. Returns 0 if the rows are right. */
int any_experts(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Checks the combined tokens. Returns 0 if they are right. */
int any_combined(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Makes one dispatch and combine, and checks both. Returns 0 if all is right. */
int any_checked(Moe *m, uint64_t n, int fullest, GpuStream stream);

/* Calls `each` for every range of token counts that has the same kernels, with one count of the range. Stops at the
 * first result that is not 0, and returns it. */
int any_runs(Moe *m, int (*each)(Moe *m, int fullest, void *context), void *context);

/* Returns how many of the `elements` BF16 elements on the device are not NaN. */
long any_numbers(Moe *m, const void *bf16, size_t elements, GpuStream stream);

#endif
