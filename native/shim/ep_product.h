/* Computes matrix products with cuBLASLt, which it opens at run time. */
#ifndef EP_PRODUCT_H
#define EP_PRODUCT_H

#include <stdint.h>

#define EP_PRODUCT_TEXT 512

/* One matrix product for each expert, all of the same size. x [m, k], w [n, k] and out [m, n] are row-major. The
 * product is x times the transpose of w. It is summed in float32 and rounded to BF16. */
typedef struct EpProductSpec {
  int32_t m, n, k;
  int32_t fp8;    /* 1: x and w are e4m3, 0: BF16 */
  int32_t groups; /* number of experts whose matrices are in memory */
  int32_t batch;  /* number of experts in one launch, at most `groups` */
  int32_t sms;    /* cuBLASLt chooses an algorithm for this number of SMs; 0: for all SMs */
  uint64_t x, w, out, workspace; /* device addresses */
  uint64_t workspace_bytes;
} EpProductSpec;

typedef struct EpProduct EpProduct;

/* Opens cuBLASLt at `path`, unless it is open already. Returns 0 if cuBLASLt is open. Otherwise it returns 1 and
 * writes the reason to `text`. */
int ep_product_open(const char *path, char text[EP_PRODUCT_TEXT]);
/* Returns the version of cuBLASLt, such as 130001, or 0 if ep_product_open has not opened it. */
uint64_t ep_product_version(void);

/* Prepares products on the current context's GPU. If cuBLASLt cannot compute them, it returns 1 and writes the reason
 * to `text`. Otherwise it returns 0. */
int ep_product_make(const EpProductSpec *spec, EpProduct **out, char text[EP_PRODUCT_TEXT]);
void ep_product_free(EpProduct *p);
/* Returns the number of kernels in one launch. It is 1, or spec.batch if cuBLASLt needs a kernel for each expert. */
int ep_product_kernels(const EpProduct *p);
/* Queues launch number i. Consecutive launches compute consecutive groups of spec.batch experts. After the last
 * expert they begin again at the first. Returns 0, or cuBLASLt's status. */
int ep_product_launch(const EpProduct *p, int32_t i, uint64_t stream);

#endif
