/* Matrix products, which cuBLASLt computes. The library is opened at run time, so that the worker also
 * runs on machines without cuBLASLt.
 */
#ifndef EP_PRODUCT_H
#define EP_PRODUCT_H

#include <stdint.h>

#define EP_PRODUCT_TEXT 512

/* Matrix products of equal size, one for each expert g, all row-major: the [m, n] matrix out[g]
 * is the [m, k] matrix x[g] times the transposed [n, k] matrix w[g]. Sums are computed in
 * float32 and rounded to BF16. */
typedef struct EpProductSpec {
  int32_t m, n, k;
  int32_t fp8;    /* 1 if x and w are e4m3, 0 if they are BF16 */
  int32_t groups; /* number of experts in memory */
  int32_t batch;  /* number of experts of one launch, at most groups */
  int32_t sms;    /* number of SMs for which the library chooses an algorithm, 0 for all */
  uint64_t x, w, out, workspace; /* device addresses */
  uint64_t workspace_bytes;
} EpProductSpec;

typedef struct EpProduct EpProduct;

/* Opens the library from a file, if it is not open yet. Returns 0, or 1 with the reason in text. */
int ep_product_open(const char *path, char text[EP_PRODUCT_TEXT]);
/* Returns the version of the open library, such as 130001, or 0 if it is not open. */
uint64_t ep_product_version(void);

/* Prepares products on the GPU of the current context. If the library refuses a batch of this
 * size, a launch is one kernel for each expert. Returns 0, or 1 with the reason in text. */
int ep_product_make(const EpProductSpec *spec, EpProduct **out, char text[EP_PRODUCT_TEXT]);
void ep_product_free(EpProduct *p);
/* Returns the number of kernels of one launch: 1, or spec.batch if the library refused the batch. */
int ep_product_kernels(const EpProduct *p);
/* Queues launch number i on a stream (CUstream). Each launch takes the next spec.batch experts;
 * after the last expert follows expert 0. Returns 0, or cuBLASLt's status. */
int ep_product_launch(const EpProduct *p, int32_t i, uint64_t stream);

#endif
