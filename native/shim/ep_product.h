/* Matrix products of cuBLASLt. The library is opened at run time, so that a worker without it can do
 * everything else. ep_product.c declares the functions of cuBLASLt that it calls.
 */
#ifndef EP_PRODUCT_H
#define EP_PRODUCT_H

#include <stdint.h>

#define EP_PRODUCT_TEXT 512

/* Products of equal size, one for each expert, row-major:
 * out[g] [m, n] = x[g] [m, k] times w[g] [n, k] transposed, BF16 of float32 sums. */
typedef struct EpProductSpec {
  int32_t m, n, k;
  int32_t fp8;    /* 1 if x and w are e4m3, 0 if they are BF16 */
  int32_t groups; /* experts in memory */
  int32_t batch;  /* experts of one launch, at most groups */
  int32_t sms;    /* SMs that the library should plan for, 0 for all */
  uint64_t x, w, out, workspace; /* device addresses */
  uint64_t workspace_bytes;
} EpProductSpec;

typedef struct EpProduct EpProduct;

/* Opens the library by a file name, once. Returns 0, or 1 with the reason. */
int ep_product_open(const char *path, char text[EP_PRODUCT_TEXT]);
/* Its version, such as 130001; 0 before it is open. */
uint64_t ep_product_version(void);

/* Plans a product on the current context's GPU. If the library refuses a batch of this size,
 * a launch is one kernel for each expert. Returns 0, or 1 with the reason. */
int ep_product_make(const EpProductSpec *spec, EpProduct **out, char text[EP_PRODUCT_TEXT]);
void ep_product_free(EpProduct *p);
/* Number of kernels of one launch: 1, or spec.batch if the library refused the batch. */
int ep_product_kernels(const EpProduct *p);
/* Queues launch number i on a stream (CUstream). Each launch multiplies the next spec.batch
 * experts; after the last expert the launches begin again at expert 0. Returns 0, or cuBLASLt's
 * status. */
int ep_product_launch(const EpProduct *p, int32_t i, uint64_t stream);

#endif
