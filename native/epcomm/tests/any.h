/* Checked calls of any layout. */
#ifndef EPCOMM_TESTS_ANY_H
#define EPCOMM_TESTS_ANY_H

#include "moe.h"

/* Returns the dtype of checked call n: the dtypes of the pack in turn, so that calls of several dtypes
 * follow each other in the same memory. */
int any_dtype(const Moe *m, uint64_t n);

/* Returns call n, of up to `fullest` tokens. The number n is the same on all ranks. */
EpcommCall any_call(const Moe *m, uint64_t n, int fullest);

/* Stands for the experts: in layout expert it checks the rows and scales them, in other layouts it
 * returns them as they are, in BF16. Returns 0 if all is right. */
int any_experts(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Checks the combined tokens. */
int any_combined(Moe *m, const EpcommCall *c, uint64_t n, GpuStream stream);

/* Makes one call and checks all of it. */
int any_checked(Moe *m, uint64_t n, int fullest, GpuStream stream);

/* Calls `each` once for every run of token counts that the pack answers with the same kernels, with the
 * last count of the run. Ends with the first result that is not 0 and returns it. */
int any_runs(Moe *m, int (*each)(Moe *m, int fullest, void *context), void *context);

/* Returns how many of so many BF16 elements on the device are not NaN. */
long any_numbers(Moe *m, const void *bf16, size_t elements, GpuStream stream);

#endif
