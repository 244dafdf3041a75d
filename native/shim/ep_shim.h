/* Functions of the CUDA driver that gorgonia.org/cu lacks. ep_run performs a batch of rounds in one cgo call.
 *
 * A round of a rank is a list of steps, queued directly or as a captured graph. Handles of the driver are passed as
 * integers. */
#ifndef EP_SHIM_H
#define EP_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "ep_args.h"

#define EP_TEXT_BYTES 256

typedef enum EpStepKind {
  EP_STEP_KERNEL,
  EP_STEP_MEMSET, /* words of 32 bits */
  EP_STEP_EVENT,  /* record an event, again at each replay */
  EP_STEP_FORK,   /* the side stream waits for the stream */
  EP_STEP_JOIN,   /* the stream waits for the side stream */
  EP_STEP_PRODUCT, /* launch number `words` of the EpProduct */
  EP_STEP_COPY    /* copy words of 32 bits; between two GPUs, by a copy engine */
} EpStepKind;

#define EP_LAUNCH_PDL 1u         /* may start before the previous kernel ends */
#define EP_LAUNCH_COOPERATIVE 2u /* refused if the grid cannot be resident at once */
#define EP_STEP_SIDE 4u          /* on the side stream */

typedef struct EpStep {
  uint32_t kind; /* EpStepKind */
  uint32_t flags;
  uint32_t grid, block;
  uint32_t shared;      /* dynamic, in bytes */
  uint32_t value;       /* memset: of each word */
  uint64_t object;      /* CUfunction, CUevent or EpProduct */
  uint64_t target;      /* memset, copy */
  uint64_t words;       /* memset, copy: number */
  uint64_t source;      /* copy */
  union {
    EpArgs ep;
    EpSiluArgs silu;
  } args;
} EpStep;

typedef struct EpRank {
  uint64_t context; /* CUcontext */
  uint64_t stream;  /* CUstream */
  uint64_t side;    /* CUstream of a product during the calls, 0 for none */
  uint64_t forked, joined; /* CUevents of EP_STEP_FORK and EP_STEP_JOIN */
  uint64_t exec;    /* CUgraphExec, or 0: steps are queued one by one */
  EpStep *steps;
  volatile EpFault *fault;
  uint64_t replay;  /* address of EpControl.replay, 0 for none */
  uint64_t collect; /* address of a window's measurements, 0 for none */
  uint64_t *events; /* pairs of CUevents, whose times are the measurements, if any */
  int32_t count;
  int32_t pairs;
  int32_t finished; /* rounds that have ended; other threads may read it */
} EpRank;

typedef struct EpBatch {
  EpRank *ranks;
  int32_t count;
  int32_t rounds;
  int32_t window;     /* rounds queued before the call waits */
  int32_t bad_rank;   /* rank of the error in `text` */
  int32_t stop;       /* another thread sets 1: no further window begins */
  uint64_t row_bytes; /* of one rank in one round */
  uint8_t *rows;      /* [ranks, rounds, row_bytes] */
  uint64_t limit_ns;  /* longest wait for a window */
  char text[EP_TEXT_BYTES];
} EpBatch;

typedef enum EpEnd {
  EP_END_OK,
  EP_END_FAULT,   /* a kernel wrote a fault record */
  EP_END_REFUSED, /* the driver refused a launch; earlier launches have ended */
  EP_END_BROKEN,  /* the context is lost */
  EP_END_STUCK,   /* did not end in time */
  EP_END_STOPPED  /* stop was set; later rounds were not performed */
} EpEnd;

typedef struct EpFunction {
  int32_t blocks_per_sm; /* with this block size and shared memory */
  int32_t registers;     /* of one thread */
  int32_t local_bytes;   /* of one thread */
  int32_t max_threads;   /* in a block */
} EpFunction;

/* Prepares a function of the current context, so that the first launch takes no longer than others. Returns 0 or a
 * CUresult. */
int ep_function(uint64_t function, uint32_t block, uint32_t shared, EpFunction *out);

/* Allocates zeroed memory that host and devices share. Returns 0 or a CUresult. */
int ep_host_alloc(size_t bytes, void **host, uint64_t *device);
int ep_host_free(void *host);

/* Streams on the current context. Calls have the highest priority, so that they get each SM as soon as a product's
 * block ends. */
typedef struct EpStreams {
  uint64_t calls, side;    /* CUstream */
  uint64_t forked, joined; /* CUevent */
} EpStreams;
int ep_streams(EpStreams *out);
void ep_streams_free(EpStreams *s);

/* Makes the rank's graph from its steps; ep_release frees it. */
int ep_capture(EpRank *rank);
int ep_release(EpRank *rank);

/* Performs the rounds of a batch, window by window, with one thread for each rank. */
EpEnd ep_run(EpBatch *batch);

void ep_describe(int result, char text[EP_TEXT_BYTES]);

#endif
