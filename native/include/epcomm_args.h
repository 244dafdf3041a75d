/* Arguments of epcomm's kernels that do not take EpArgs. epcomm_deepep.h describes the members of most of
 * these structs. */
#ifndef EPCOMM_ARGS_H
#define EPCOMM_ARGS_H

#include "ep_args.h"

/* Memory at the end of a rank's heap. A reset keeps its content. Tokens and sets are those of EpMeetArgs. */
typedef struct EpSurvival {
  uint8_t *peers[EP_MAX_RANKS];  /* EpArgs.peers */
  uint64_t hello[EP_MAX_RANKS];  /* [r], written by rank r: its token << 32 | its set */
  uint64_t answer[EP_MAX_RANKS]; /* [r], written by rank r: this rank's token << 32 | stage of rank r */
} EpSurvival;

/* Host memory that the device writes. */
typedef struct EpLost {
  uint64_t dropped;              /* ids that named an expert of a lost rank */
  uint64_t met[EP_MAX_RANKS];    /* the hello of each rank that answered, else 0 */
  uint64_t differs[EP_MAX_RANKS]; /* the hello of each rank with another set of ranks, else 0 */
} EpLost;

/* Arguments of ep_meet, in which living ranks meet. */
typedef struct EpMeetArgs {
  uint8_t *heap[EP_MAX_RANKS];
  uint64_t at;
  EpLost *lost;
  uint64_t deadline_ns;
  uint32_t set;                /* bit r: rank r must meet */
  uint32_t token;              /* identifies this rank's attempt to meet, never 0 */
  int32_t rank, stage;         /* stage 1 exchanges tokens; stage 2 waits until all ranks have passed stage 1 */
} EpMeetArgs;

/* Arguments of ep_living_ids. */
typedef struct EpIdsArgs {
  const int64_t *wide; /* [count] */
  int32_t *copy;       /* out: [count] an expert of a living rank, or -1 if masked; an invalid id becomes -2 if `refused`
                          is 1, else -1 */
  int64_t count;
  int32_t experts;
  int32_t refused; /* 1: debug mode, which reports -2; 0: invalid ids count as masked */
  const int32_t *ids;    /* [count] used if wide is null */
  uint8_t *const *peers; /* EpArgs.peers */
  EpLost *lost;          /* null: dropped ids are not counted */
  EpFault *fault;        /* fault and the next two members: see EpArgs */
  int32_t *counters;
  uint32_t *given_up;
  int32_t rank, local_experts;
  int32_t lost_refused;  /* 1: an id of a lost rank is a fault; 0: it is dropped and counted */
} EpIdsArgs;

/* Arguments of a kernel that exchanges words with the other ranks. */
typedef struct EpMeeting {
  uint8_t *heap[EP_MAX_RANKS];
  uint64_t at;                 /* offset of the words of epcomm/normal.cuh */
  EpFault *fault;
  int32_t *counters;
  uint32_t *given_up;
  uint64_t deadline_ns;
  int32_t rank, ranks;
  int32_t local_experts, topk, max_tokens;
} EpMeeting;

#define EP_NORMAL_BLOCKS 16  /* blocks of ep_return_weights, equal in all calls, because each block counts its calls */
#define EP_NORMAL_HEADER 256 /* bytes of call numbers before the words */
#define EP_TOLD_ROWS 8       /* index in EpAnnounceArgs.told of the first expert's rows */

/* Arguments of ep_layout, which computes to which ranks and experts tokens go. */
typedef struct EpLayoutArgs {
  const void *ids;
  int32_t *per_rank;
  int32_t *per_expert; /* [experts] */
  uint8_t *in_rank;
  int32_t ids_bits, tokens, topk, experts, ranks;
} EpLayoutArgs;

/* Arguments of ep_announce, which sends counts to all ranks, and prepares ids and weights for dispatch. */
typedef struct EpAnnounceArgs {
  EpMeeting meeting;
  const int32_t *per_rank, *per_expert;
  int32_t *before;
  uint32_t *told;        /* host memory: ticket, rows received, tokens of the fullest rank; the rows of each expert
                            begin at EP_TOLD_ROWS */
  const void *ids;       /* [tokens, given]; null: a token goes to the first expert of each rank in in_rank */
  const uint8_t *in_rank;
  const float *weights;  /* [tokens, given] or null */
  int32_t *narrow;       /* out: [tokens, topk] the given ids, padded with -1; null: not written */
  float *padded;
  int32_t ids_bits, given, tokens; /* given: top-k of the caller's ids */
  int32_t align;         /* the number of an expert's rows is rounded up to a multiple of `align` */
  int32_t worst;         /* rows for which outputs have room, 0 if outputs do not exist yet */
  uint32_t ticket;       /* written last; 0: nothing is written to `told` */
} EpAnnounceArgs;

/* Arguments of ep_received, which converts data of received rows to DeepEP's form. */
typedef struct EpReceivedArgs {
  const int32_t *experts;
  const uint32_t *weights;     /* [rows, topk] */
  const int32_t *src_info;     /* [rows, 2] */
  const uint32_t *row_offsets; /* the last entry is the number of rows */
  int64_t *ids;                /* [rows, given], or null */
  float *cut;                  /* [rows, given], or null */
  int32_t *tokens;
  int32_t rows, topk, given, ranks;
} EpReceivedArgs;

/* Arguments of ep_add_counts. */
typedef struct EpAddArgs {
  const uint32_t *counts; /* [n] */
  int32_t *to;            /* [n] */
  int32_t n;
} EpAddArgs;

/* Arguments of ep_return_weights, which sends rows' weights back to their tokens and sums them over ranks. */
typedef struct EpReturnArgs {
  EpMeeting meeting;
  const float *weights;        /* [rows, given] */
  const int32_t *src_info;     /* [rows, 2] */
  const uint32_t *row_offsets; /* the last entry is the number of rows */
  const int32_t *ids;          /* [tokens, topk] of this rank's tokens */
  float *out;                  /* [tokens, given] */
  int32_t tokens, given, max_rows;
} EpReturnArgs;

/* Arguments of ep_places, which numbers the expanded rows. A received row has one expanded row for each of its experts
 * on this rank. */
typedef struct EpPlacesArgs {
  const int64_t *ids;
  const uint32_t *received; /* number of received rows, at most `rows` */
  int32_t *slots;
  int32_t *choices;
  int32_t *counts;          /* [experts] expanded rows, without padding */
  int32_t rows, topk, experts, align, expanded;
} EpPlacesArgs;

/* Arguments of ep_expand, which copies received rows to expanded rows. */
typedef struct EpExpandArgs {
  const uint8_t *x;
  const float *scales;
  const float *weights;          /* [rows, topk], or null */
  const int32_t *slots, *choices; /* as ep_places wrote them */
  const uint32_t *received;
  uint8_t *out;
  float *out_scales;
  float *out_weights;            /* [expanded], 0 in padding */
  int64_t scale_row, scale_group;
  int32_t rows, topk, expanded, row_bytes, groups;
  int32_t zeros;
} EpExpandArgs;

/* Arguments of ep_fold, which adds the expanded rows of each received row in float32, in top-k order. */
typedef struct EpFoldArgs {
  const uint8_t *x;
  const float *weights;     /* [expanded], or null */
  const int32_t *slots;     /* as ep_places wrote them */
  const uint32_t *received;
  uint8_t *out;
  float *out_weights;       /* [rows, topk] 0 if the expert is on another rank; only received rows are written */
  int32_t rows, topk, hidden;
} EpFoldArgs;

#endif
