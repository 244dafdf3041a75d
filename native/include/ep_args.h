/* EpArgs, the struct that the kernels of calls take by value, in plain C for NVRTC and host compilers.
 * Sizes that the compiler should know (hidden, top-k, experts, ranks, dtype) are -D macros instead; see
 * kernels/cuda/declare/defines.go.
 */
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

/* Version of EpArgs's layout. The library refuses a pack of another version. */
#define EP_ARGS_VERSION 4

#define EP_MAX_RANKS 8    /* GPUs of one node that can address each other */
#define EP_MAX_REGIONS 16 /* heap regions of one kernel family */
#define EP_READY_FLAG 1024
#define EP_SPOIL_AREAS 5 /* largest number of outputs of a call */

/* Values of the macros EP_DTYPE and EP_EPILOGUE. */
#define EP_BF16 0
#define EP_FP8 1
#define EP_MXFP4 2
#define EP_NVFP4 3
#define EP_EPILOGUE_NONE 0
#define EP_EPILOGUE_SCALE 1 /* times epilogue_scale */
#define EP_EPILOGUE_BIAS 2  /* plus bias[column] */

/* Between which threads ep_litmus_pass passes messages. */
#define EP_LITMUS_BLOCK 0  /* two warps of one block */
#define EP_LITMUS_GPU 1    /* the first two blocks of a rank */
#define EP_LITMUS_SYSTEM 2 /* each rank to the next */

/* The record of a wait that passed its deadline. Each rank has one, in host memory that the device can
 * write. */
typedef struct EpFault {
  uint32_t set;    /* 1 once the rest is valid; written last */
  uint32_t rank;   /* the rank that waited */
  uint32_t phase;  /* EpPhase */
  int32_t expert;  /* global expert for which it waited, -1 if none */
  int32_t source;  /* rank for which it waited, -1 if none */
  uint32_t block;
  uint64_t want;   /* value or count for which it waited */
  uint64_t got;    /* last value that it read */
} EpFault;

typedef enum EpPhase {
  EP_PHASE_ALIGN = 1,      /* start barrier over ranks */
  EP_PHASE_DISPATCH_ASYNC, /* counting and sending */
  EP_PHASE_DISPATCH_WAIT,  /* waiting for tokens */
  EP_PHASE_COMBINE_ASYNC,  /* sending rows back */
  EP_PHASE_COMBINE_WAIT,   /* waiting for rows */
  EP_PHASE_AGREE,          /* comparing calls over ranks: epcomm's debug mode */
  EP_PHASE_LOST,           /* an id names an expert of a lost rank, and the caller wants such ids refused */
  EP_PHASE_ROOM            /* more rows arrive than the caller's outputs have room for: want is the room, got the rows */
} EpPhase;

/* An output that a call overwrites if it gives up a wait; see ep_spoil in common/check.cuh. */
typedef struct EpArea {
  uint32_t *at;
  uint32_t words; /* 0 for no area */
  uint32_t fill;  /* value of every word */
} EpArea;

/* Words of the kernels that align the ranks and write time stamps, before and after calls. Each rank has one EpControl,
 * in device memory that every rank can address. It is zeroed at set-up and after a fault. */
typedef struct EpControl {
  uint32_t arrived[EP_MAX_RANKS]; /* [r]: number of the last alignment that rank r reached; rank r writes it */
  uint32_t pad[32 - EP_MAX_RANKS];
  uint32_t epoch;                 /* number of alignments that this rank has passed */
  uint32_t replay;                /* number of rounds since the batch began */
  uint32_t flight_ns;             /* ns that a flag takes from one rank to another, 0 if not measured; see ep_align */
  uint32_t rest[29];
} EpControl;

typedef struct EpArgs {
  /* this rank */
  int32_t rank;
  int32_t ranks;
  int32_t tokens;     /* tokens of this rank, 0 .. max_tokens */
  int32_t max_tokens;

  /* inputs of this rank */
  const uint16_t *x;         /* [tokens, hidden] BF16 */
  const int32_t *topk_ids;   /* [tokens, topk], the ids of a token are distinct, -1 if masked */
  const float *weights;      /* [tokens, topk] router weights */
  const float *input_scales; /* one global scale, or null for 1 */

  /* Symmetric heap: all offsets are the same on every rank. */
  uint8_t *heap[EP_MAX_RANKS];
  uint64_t region[EP_MAX_REGIONS]; /* byte offset of each region of the kernel family */

  /* Outputs of dispatch. If senders write the rows, the outputs are on the symmetric heap: rank r's out is
   * at heap[r] + (out - heap[rank]). */
  uint8_t *out;          /* [max_rows, payload bytes of one row] */
  uint8_t *out_scales;   /* by dtype: fp8 f32 [hidden/128, max_rows]; mxfp4 [max_rows, hidden/32]; nvfp4 5-D */
  uint32_t *row_offsets; /* [groups + 1]; a group for each local expert, after the group of a fused shared expert if there is one */
  int32_t *expert_ids;   /* [groups] */
  int32_t *src_info;     /* [max_rows, 2]: token on its rank, top-k position */
  uint32_t *scale_offsets; /* nvfp4 only: [groups] */
  int32_t *row_tokens;   /* layout rank packed: [max_rows] token of each row, or null; if given, ids in expert_ids have 64 bits */
  int64_t max_rows;

  /* combine */
  const uint16_t *y;   /* [max_rows, hidden] BF16 expert outputs */
  uint16_t *combined;  /* [tokens, hidden], or [tokens, topk, hidden] without weights */
  const uint16_t *bias; /* [hidden], only for epilogue bias */
  float epilogue_scale;

  /* Words of the kernel's state (memory that some kernels share) that only this rank uses. They are zeroed at
   * set-up. Word 0 is the abort word of common/check.cuh. */
  int32_t *counters;

  /* The number of a call is *round_base + round: 1, 2, 3, ... without gaps and equal on all ranks. Dispatch
   * and combine of one state are counted separately. All launches of a call have the same number. Numbers
   * begin again at 1 after EP_LAST_NUMBER (common/check.cuh), and after a reset. */
  uint32_t round;             /* number of this call in its graph, from 1 on */
  int32_t ids_wide;           /* 1: ids in topk_ids have 64 bits; only layouts masked, rank and rank packed */
  uint32_t *round_base;       /* a separate kernel advances it after each replay; with EP_OWN_ROUNDS the call itself does */
  uint64_t deadline_ns;
  EpFault *fault;             /* this rank's record */
  uint32_t *given_up;         /* word in this rank's device memory, not 0 once the rank gave up a wait; may be null */
  uint64_t *span;             /* [2] global timer: first start, last end; the host sets it to {~0, 0} before. Null: not measured */

  /* Launch parameters. A kernel reads only the parameters that it declares. */
  int32_t sms;         /* blocks in the grid */
  int32_t wait_sms;    /* blocks of the grid that only wait or receive */
  int32_t count_sms;   /* blocks of the grid that count and signal */
  int32_t tile_tokens; /* number of rows that a block takes at a time */
  int32_t chunk_bytes; /* number of bytes that a warp moves at a time */
  int32_t delay_ns;    /* fault drills: ns for which this rank sleeps before it begins */
  int32_t drop_signal; /* fault drills: this rank never signals expert drop_signal - 1 */
  int32_t skip_a2a;       /* 1: each rank keeps only the tokens for its own experts, and sends nothing */
  int32_t allreduce_size; /* number of ranks with the same batch; each computes the shared expert for a slice of it */

  /* Launch parameters that only one kernel has. They share words, because a launch runs only one
   * kernel. */
  union {
    int32_t rotate;    /* combine. 1: a rank serves itself first, then the next ranks; 0: all serve rank 0 first */
    int32_t receivers; /* dispatch_ll: warps of a block that only receive: they copy tokens that arrive while other warps still send */
    int32_t cases;     /* ep_litmus_memcpy: number of copies, each of a different size */
    int32_t sizes;     /* ep_litmus_scan: scans arrays of 1 to `sizes` values */
    int32_t scope;     /* ep_litmus_pass: EP_LITMUS_BLOCK, _GPU or _SYSTEM */
    int32_t ids;       /* ep_agree: number of ids in topk_ids */
  };
  union {
    int32_t pause_ns; /* dispatch_ll: pause of a receiver between two polls, so that L2 is free for the senders */
    int32_t step;     /* ep_litmus_memcpy: 16-byte vectors by which a copy is longer than the one before */
    int32_t rounds;   /* ep_litmus_pass, ep_litmus_signal: number of messages */
    int32_t experts;  /* ep_agree: number of experts of all ranks */
  };
  int32_t cell_bytes; /* ep_litmus_memcpy: bytes from one source to the next, and from one destination to the next */
  int32_t peer;       /* ep_litmus_memcpy: rank to which it writes */
  uint32_t about;     /* ep_agree: description of the call that this rank is about to make */
  int32_t distinct;   /* ep_agree: number of ids of a token if they must differ, 0 if they may repeat */
  uint8_t *const *peers; /* with EP_SURVIVORS: [ranks] address of each rank's heap, null for a lost rank; the table is in this rank's memory */

  /* Only for the kernels of common/align.cuh. */
  EpControl *control[EP_MAX_RANKS];
  uint64_t *stamps; /* [replays, stamp_slots] global timer */
  int32_t stamp_slots;
  int32_t stamp; /* by kernel: slot to write, calls to count, or spans to clear; with EP_OWN_ROUNDS see ep_number_done */

  /* Outputs that this launch overwrites if it gives up a wait. The member comes last, because a kernel reads it only at
   * its end: at its start a kernel waits for the cache lines of the arguments that it reads. */
  EpArea spoil[EP_SPOIL_AREAS];
} EpArgs;

/* Arguments of the activation kernels. D is EP_COLS. */
typedef struct EpSiluArgs {
  const uint16_t *in;            /* [rows, 2 D] BF16: gate then up, or interleaved */
  uint8_t *out;                  /* [rows, D] in the output dtype */
  uint8_t *scales;               /* like EpArgs.out_scales, with D instead of hidden */
  const uint32_t *row_offsets;   /* [groups + 1]; the last entry is the number of valid rows */
  const float *input_scales;     /* [groups], nvfp4 only */
  const uint32_t *scale_offsets; /* [groups], nvfp4 only */
  int64_t max_rows;
  int32_t groups;
  float limit; /* bound of the variant that clamps, for mxfp4 */
  float alpha; /* factor in the sigmoid of that variant */
} EpSiluArgs;

#endif
