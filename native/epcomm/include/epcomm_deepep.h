/* Declares the functions of DeepEP's interface that epcomm.h lacks. The rules of epcomm.h hold here too. Functions
 * whose comment begins with "Call path" allocate nothing, and never make the host wait. */
#ifndef EPCOMM_DEEPEP_H
#define EPCOMM_DEEPEP_H

#include "epcomm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DeepEP's normal calls ----
 *
 * They need layout rank packed and ranks of one host. A new dispatch takes these steps, on one stream or on
 * streams that wait for each other:
 * - call epcomm_announce
 * - wait until epcomm_told is ready, and allocate outputs for its number of rows
 * - call epcomm_dispatch with the announced ids
 * - call epcomm_received, before the next announce
 * Set the member `size` of each struct to exactly the size that the struct has in this header. */

/* Call path. Computes to which ranks and experts the tokens go. The numbers of tokens, experts and ranks may
 * differ from the pack's. */
typedef struct EpcommLayoutOf {
  size_t size;
  const void *topk_ids; /* [tokens, topk], ids_bits bits each; an id outside 0 to experts - 1 is not counted */
  int ids_bits, tokens, topk, experts, ranks;
  int32_t *per_rank;    /* [ranks] tokens for each rank */
  int32_t *per_expert;  /* [experts] tokens for each expert */
  uint8_t *in_rank;     /* [tokens, ranks] 1 if the token goes to the rank */
} EpcommLayoutOf;
EPCOMM_API EpcommStatus epcomm_layout(EpComm *comm, const EpcommLayoutOf *layout, EpcommStream stream);

/* Call path. Sends this rank's counts to all ranks, and prepares ids and weights for dispatch. */
typedef struct EpcommAnnounce {
  size_t size;
  const int32_t *per_rank, *per_expert; /* as epcomm_layout wrote them */
  const void *topk_ids; /* [tokens, topk], ids_bits bits each; if NULL, tokens go to the ranks in in_rank */
  const uint8_t *in_rank;
  const float *weights; /* [tokens, topk], or NULL */
  int ids_bits, topk, tokens;
  int align;            /* epcomm_told rounds each number of per_expert up to a multiple of align; 0 means 1 */
  int worst;            /* 0: outputs are allocated after epcomm_told. Otherwise the outputs have room for this
                           number of rows, epcomm_told returns nothing, and more rows are a fault */
  int32_t *ids;         /* out: [tokens, the pack's topk] the given ids, padded with -1. Pass NULL if topk_ids already
                           has this shape and 32 bits for each id */
  float *padded;        /* out: [tokens, the pack's topk] the given weights, padded; or NULL */
  int32_t *before;      /* out: [ranks, ranks]: entry [i, j] is the number of rows for rank j from ranks 0 to i */
} EpcommAnnounce;
EPCOMM_API EpcommStatus epcomm_announce(EpComm *comm, const EpcommAnnounce *announce, EpcommStream stream);

/* Returns the counts of the last announce. Call it until `ready` is 1: then the counts of all ranks have arrived.
 * It reads only host memory. */
typedef struct EpcommTold {
  size_t size;
  int ready;
  int rows;                   /* rows that this rank receives */
  int fullest;                /* largest number of tokens of a rank, for EpcommCall.fullest */
  const uint32_t *per_expert; /* [local experts] rows of each expert; valid until the next announce */
} EpcommTold;
EPCOMM_API EpcommStatus epcomm_told(EpComm *comm, EpcommTold *out);

/* Call path. Converts ids, weights and tokens of received rows to DeepEP's form. */
typedef struct EpcommReceived {
  size_t size;
  const int32_t *expert_ids;   /* [rows, the pack's topk]; the members from here to row_offsets are as dispatch
                                  wrote them */
  const float *weights;
  const int32_t *src_info;
  const uint32_t *row_offsets;
  int rows, topk;
  int64_t *ids;                /* out: [rows, topk] local expert or -1, or NULL */
  float *cut;                  /* out: [rows, topk] the first topk weights of each row, or NULL */
  int32_t *tokens;             /* out: [rows] token on its rank */
} EpcommReceived;
EPCOMM_API EpcommStatus epcomm_received(EpComm *comm, const EpcommReceived *received, EpcommStream stream);

/* Call path. Sends the weights of rows back to their tokens and sums them over ranks. Call it on every rank, after
 * the combine of these rows. */
typedef struct EpcommReturn {
  size_t size;
  const float *weights;        /* [rows, topk] */
  const int32_t *src_info;
  const uint32_t *row_offsets;
  const int32_t *ids;          /* [tokens, the pack's topk] as announced */
  int tokens, topk;
  float *out;                  /* [tokens, topk] */
} EpcommReturn;
EPCOMM_API EpcommStatus epcomm_return_weights(EpComm *comm, const EpcommReturn *back, EpcommStream stream);

/* Call path. Adds the n counts at `counts` to the n numbers at `to`. In layout masked, row_offsets holds such
 * counts. */
EPCOMM_API EpcommStatus epcomm_add_counts(EpComm *comm, const uint32_t *counts, int32_t *to, int n, EpcommStream stream);

/* ---- expanded rows of DeepEP V2 ----
 *
 * After a dispatch of layout rank packed, each received row is copied once for each of its experts on this rank.
 * Call epcomm_places and epcomm_expand after epcomm_received or epcomm_dispatch, and epcomm_fold before
 * epcomm_combine. `received` points to the last entry of row_offsets. Set the member `size` of each struct to
 * exactly the size that the struct has in this header. */

/* Call path. Assigns an expanded row to each selection of an expert of this rank. The first row of an expert is a
 * multiple of `align`. The rows of an expert have the order of the received rows. */
typedef struct EpcommPlaces {
  size_t size;
  const int64_t *ids;       /* [rows, topk] local expert, or -1 */
  const uint32_t *received; /* number of received rows */
  int32_t *slots;           /* out: [rows, topk] expanded row of each selection, or -1 */
  int32_t *choices;         /* out: [expanded] selection of each expanded row: topk * received row + position in
                               topk; -1 in padding */
  int32_t *counts;          /* out: [experts] expanded rows, without padding */
  int rows, topk, experts, align, expanded;
} EpcommPlaces;
EPCOMM_API EpcommStatus epcomm_places(EpComm *comm, const EpcommPlaces *places, EpcommStream stream);

/* Call path. Copies received rows, their scales and weights to expanded rows. */
typedef struct EpcommExpand {
  size_t size;
  const void *x;                  /* [rows, row_bytes] */
  const float *scales;            /* [rows, groups], or NULL */
  const float *weights;           /* [rows, topk], or NULL */
  const int32_t *slots, *choices; /* as epcomm_places wrote them */
  const uint32_t *received;
  void *out;                      /* out: [expanded, row_bytes] */
  float *out_scales;              /* out: row r, group g at index r * scale_row + g * scale_group */
  float *out_weights;             /* out: [expanded], 0 in padding */
  int64_t scale_row, scale_group;
  int rows, topk, expanded, row_bytes, groups;
  int zeros;                      /* 1: padding rows and their scales become 0; 0: they are not written */
} EpcommExpand;
EPCOMM_API EpcommStatus epcomm_expand(EpComm *comm, const EpcommExpand *expand, EpcommStream stream);

/* Call path. Adds the expanded rows of each received row in float32, in top-k order. Only received rows are
 * written. */
typedef struct EpcommFold {
  size_t size;
  const void *x;                  /* [expanded, hidden] BF16 */
  const float *weights;           /* [expanded], or NULL */
  const int32_t *slots;           /* as epcomm_places wrote them */
  const uint32_t *received;
  void *out;                      /* out: [rows, hidden] BF16 */
  float *out_weights;             /* out: [rows, topk], 0 if the expert is on another rank */
  int rows, topk, hidden;
} EpcommFold;
EPCOMM_API EpcommStatus epcomm_fold(EpComm *comm, const EpcommFold *fold, EpcommStream stream);

#ifdef __cplusplus
}
#endif

#endif
