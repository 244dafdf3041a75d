/* EpArgs, the struct that kernels take by value, in plain C for NVRTC and host compilers. */
#ifndef EP_ARGS_H
#define EP_ARGS_H

#ifdef __CUDACC_RTC__
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;
#else
#include <stdint.h>
#endif

#define EP_ARGS_VERSION 5

#define EP_MAX_RANKS 8
#define EP_MAX_REGIONS 16
#define EP_READY_FLAG 1024
#define EP_SPOIL_AREAS 5

#define EP_BF16 0
#define EP_FP8 1
#define EP_MXFP4 2
#define EP_NVFP4 3
#define EP_EPILOGUE_NONE 0
#define EP_EPILOGUE_SCALE 1
#define EP_EPILOGUE_BIAS 2

#define EP_LITMUS_BLOCK 0
#define EP_LITMUS_GPU 1
#define EP_LITMUS_SYSTEM 2

/* A wait that passed its deadline. */
typedef struct EpFault {
  uint32_t set;    /* 1 once the rest is valid */
  uint32_t rank;
  uint32_t phase;  /* EpPhase */
  int32_t expert;
  int32_t source;  /* missing rank, -1 if none */
  uint32_t block;
  uint64_t want;
  uint64_t got;
} EpFault;

typedef enum EpPhase {
  EP_PHASE_ALIGN = 1,
  EP_PHASE_DISPATCH_ASYNC,
  EP_PHASE_DISPATCH_WAIT,
  EP_PHASE_COMBINE_ASYNC,
  EP_PHASE_COMBINE_WAIT,
  EP_PHASE_AGREE,          /* epcomm's debug mode */
  EP_PHASE_LOST,           /* a top-k id names an expert of a lost rank */
  EP_PHASE_ROOM            /* want: room of the caller's outputs; got: rows */
} EpPhase;

/* An output that a call overwrites if it gives up a wait. */
typedef struct EpArea {
  uint32_t *at;
  uint32_t words; /* 0: no area */
  uint32_t fill;
} EpArea;

/* Words of the kernels in common/align.cuh. In an alignment all ranks wait for each other. The words are zeroed at
 * set-up and after a fault. */
typedef struct EpControl {
  uint32_t arrived[EP_MAX_RANKS]; /* [r]: number of rank r's last alignment */
  uint32_t pad[32 - EP_MAX_RANKS];
  uint32_t epoch;                 /* alignments that this rank has passed */
  uint32_t replay;                /* rounds since the batch began */
  uint32_t flight_ns;             /* ns until another rank sees a flag, 0 if not measured */
  uint32_t rest[29];
} EpControl;

typedef struct EpArgs {
  int32_t rank;
  int32_t ranks;
  int32_t tokens;     /* tokens of this rank, 0 .. max_tokens */
  int32_t max_tokens;

  const uint16_t *x;         /* [tokens, hidden] BF16 */
  const int32_t *topk_ids;   /* [tokens, topk], distinct for a token, -1 if masked */
  const float *weights;      /* [tokens, topk] router weights */
  const float *input_scales; /* one global scale, or null for 1 */

  /* Symmetric heap: offsets are equal on all ranks. */
  uint8_t *heap[EP_MAX_RANKS];
  uint64_t region[EP_MAX_REGIONS]; /* byte offset */

  /* Outputs of dispatch. If senders write the rows, `out` has the same offset in the heaps of all ranks. */
  uint8_t *out;          /* [max_rows, payload bytes of one row] */
  uint8_t *out_scales;   /* fp8 f32 [hidden/128, max_rows]; mxfp4 [max_rows, hidden/32]; nvfp4: see ep_nvfp4_atom */
  uint32_t *row_offsets; /* [groups + 1]: a fused shared expert's group, then the local experts' groups */
  int32_t *expert_ids;   /* [groups] */
  int32_t *src_info;     /* [max_rows, 2]: token on its rank, top-k position */
  uint32_t *scale_offsets; /* nvfp4: [groups] */
  int32_t *row_tokens;   /* layout rank:packed: [max_rows] or null; if given, expert_ids has 64 bits */
  int64_t max_rows;

  const uint16_t *y;   /* [max_rows, hidden] BF16 expert outputs */
  uint16_t *combined;  /* [tokens, hidden], or [tokens, topk, hidden] without weights */
  const uint16_t *bias; /* [hidden], only for epilogue bias */
  float epilogue_scale;

  /* Words that only this rank uses, zeroed at set-up. Word 0 is the abort word. */
  int32_t *counters;

  /* Calls have the numbers 1, 2, 3, and so on. A call has the same number on all ranks and in all its launches. The
   * number is the sum of *round_base and round. Dispatch and combine have separate numbers. The number after
   * EP_LAST_NUMBER, and the first one after a reset, is 1. */
  uint32_t round;             /* 1 in the first call of a graph, 2 in the second, and so on */
  int32_t ids_wide;           /* 1: topk_ids has 64 bits */
  uint32_t *round_base;       /* advanced at the end of a replay; with EP_OWN_ROUNDS, by each call */
  uint64_t deadline_ns;
  EpFault *fault;
  uint32_t *given_up;         /* not 0 once the rank gave up a wait; may be null */
  uint64_t *span;             /* [2] global timer: first start, last end; null: not measured */

  /* Launch parameters, each for the kernels that declare it. */
  int32_t sms;
  int32_t wait_sms;    /* blocks that only wait or receive */
  int32_t count_sms;   /* blocks that count and signal */
  int32_t tile_tokens; /* rows that a block takes at a time */
  int32_t chunk_bytes; /* bytes that a warp moves at a time */
  int32_t delay_ns;    /* fault drills: ns of sleep before the call */
  int32_t drop_signal; /* fault drills: no signal to expert drop_signal - 1 */
  int32_t skip_a2a;       /* 1: the rank keeps its tokens and sends nothing */
  int32_t allreduce_size; /* number of ranks among which the shared expert's work is divided */

  union {
    int32_t rotate;    /* combine: 1: a rank serves itself first; 0: rank 0 first */
    int32_t receivers; /* dispatch_ll: receiving warps of a block */
    int32_t cases;
    int32_t sizes;     /* ep_litmus_scan: arrays of 1 to `sizes` values */
    int32_t scope;     /* ep_litmus_pass: EP_LITMUS_* */
    int32_t ids;
  };
  union {
    int32_t pause_ns; /* dispatch_ll: pause between two polls, which frees L2 for senders */
    int32_t step;     /* ep_litmus_memcpy: each copy is longer than the one before by `step` 16-byte vectors */
    int32_t rounds;
    int32_t experts;
  };
  int32_t cell_bytes; /* ep_litmus_memcpy: bytes between two sources */
  int32_t peer;
  uint32_t about;     /* ep_agree: describes this rank's call */
  int32_t distinct;   /* ep_agree: top-k if a token's topk_ids must be distinct, else 0 */
  uint8_t *const *peers; /* with EP_SURVIVORS: [ranks] heaps, null for a lost rank */

  /* For common/align.cuh. */
  EpControl *control[EP_MAX_RANKS];
  uint64_t *stamps; /* [replays, stamp_slots] global timer */
  int32_t stamp_slots;
  int32_t stamp; /* ep_stamp: index of the slot to write; ep_advance: number of calls; ep_clear_spans: number of
                  * spans */

  /* Outputs that this launch overwrites if it gives up a wait. They stand last, so that the arguments that each call
   * reads lie in few cache lines. */
  EpArea spoil[EP_SPOIL_AREAS];
} EpArgs;

/* Arguments of the activation kernels. D is EP_HIDDEN. */
typedef struct EpSiluArgs {
  const uint16_t *in;            /* [rows, 2 D] BF16: gate then up, or interleaved */
  uint8_t *out;                  /* [rows, D] in the output dtype */
  uint8_t *scales;               /* as EpArgs.out_scales, with D for hidden */
  const uint32_t *row_offsets;   /* [groups + 1]; the last is the number of rows */
  const float *input_scales;     /* [groups], nvfp4 */
  const uint32_t *scale_offsets; /* [groups], nvfp4 */
  int64_t max_rows;
  int32_t groups;
  float limit; /* mxfp4: clamp */
  float alpha; /* mxfp4: sigmoid factor */
} EpSiluArgs;

#endif
