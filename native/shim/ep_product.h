/* Matrix products by cuBLASLt, opened at run time. */
#ifndef EP_PRODUCT_H
#define EP_PRODUCT_H

#include <stdint.h>

#define EP_PRODUCT_TEXT 512

/* Products of equal size, row-major: for each expert g, out[g] [m, n] = x[g] [m, k] times the transposed w[g] [n, k].
 * Sums are float32, rounded to BF16. */
typedef struct EpProductSpec {
  int32_t m, n, k;
  int32_t fp8;    /* 1: x and w are e4m3, 0: BF16 */
  int32_t groups; /* experts in memory */
  int32_t batch;  /* experts of one launch, at most groups */
  int32_t sms;    /* cuBLASLt chooses an algorithm for this number of SMs; 0: for all SMs */
  uint64_t x, w, out, workspace; /* device addresses */
  uint64_t workspace_bytes;
} EpProductSpec;

typedef struct EpProduct EpProduct;

/* Opens the library, if it is not open yet. Returns 0, or 1 with the reason in text. */
int ep_product_open(const char *path, char text[EP_PRODUCT_TEXT]);
/* Returns the version of the open library, such as 130001, or 0 if it is not open. */
uint64_t ep_product_version(void);

/* Prepares products on the current context's GPU. Returns 0, or 1 with the reason in text. */
int ep_product_make(const EpProductSpec *spec, EpProduct **out, char text[EP_PRODUCT_TEXT]);
void ep_product_free(EpProduct *p);
/* Returns the number of kernels of one launch: 1, or spec.batch if the library refused the batch. */
int ep_product_kernels(const EpProduct *p);
/* Queues launch number i. Each takes the next spec.batch experts, cyclically. Returns 0, or cuBLASLt's status. */
int ep_product_launch(const EpProduct *p, int32_t i, uint64_t stream);

#endif
