/* Functions of the CUDA driver that gorgonia.org/cu lacks. ep_run performs a batch of rounds in one cgo call.
 *
 * In a round, each rank runs a list of steps. The steps are queued one by one, or captured in a graph that is
 * launched each round. Handles of the driver are passed as integers. */
#ifndef EP_SHIM_H
#define EP_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "ep_args.h"

#define EP_TEXT_BYTES 256

typedef enum EpStepKind {
  EP_STEP_KERNEL,
  EP_STEP_MEMSET, /* words of 32 bits */
  EP_STEP_EVENT,  /* record an event, also at each replay of a graph */
  EP_STEP_FORK,   /* the side stream waits for the rank's stream */
  EP_STEP_JOIN,   /* the rank's stream waits for the side stream */
  EP_STEP_PRODUCT, /* queue a launch of the EpProduct; EpStep.words says which */
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
  uint32_t value;       /* memset: value of each word */
  uint64_t object;      /* CUfunction, CUevent or EpProduct */
  uint64_t target;      /* memset, copy */
  uint64_t words;       /* memset, copy: number of words; product: which launch, counted from 0 */
  uint64_t source;      /* copy */
  union {
    EpArgs ep;
    EpSiluArgs silu;
  } args;
} EpStep;

typedef struct EpRank {
  uint64_t context; /* CUcontext */
  uint64_t stream;  /* CUstream */
  uint64_t side;    /* CUstream of a product that runs during calls, or 0 */
  uint64_t forked, joined; /* CUevents of EP_STEP_FORK and EP_STEP_JOIN */
  uint64_t exec;    /* CUgraphExec; 0 if steps are queued one by one */
  EpStep *steps;
  volatile EpFault *fault;
  uint64_t replay;  /* address of EpControl.replay, 0 for none */
  uint64_t collect; /* device address of the measurements of a window's rounds, or 0 */
  uint64_t *events; /* pairs of CUevents, if the times between them are measured */
  int32_t count;
  int32_t pairs;
  int32_t finished; /* rounds that have ended; other threads may read it */
} EpRank;

typedef struct EpBatch {
  EpRank *ranks;
  int32_t count;
  int32_t rounds;
  int32_t window;     /* rounds that are queued together; then ep_run waits */
  int32_t bad_rank;   /* rank of the error in `text` */
  int32_t stop;       /* another thread sets 1: no further window begins */
  uint64_t row_bytes; /* measurement of one rank in one round */
  uint8_t *rows;      /* [ranks, rounds, row_bytes] */
  uint64_t limit_ns;  /* longest wait for a window */
  char text[EP_TEXT_BYTES];
} EpBatch;

typedef enum EpEnd {
  EP_END_OK,
  EP_END_FAULT,   /* a kernel wrote a fault record */
  EP_END_REFUSED, /* the driver refused a launch; earlier launches have ended */
  EP_END_BROKEN,  /* the context is lost */
  EP_END_STUCK,   /* a rank did not end within limit_ns */
  EP_END_STOPPED  /* stop was set; later rounds were not performed */
} EpEnd;

typedef struct EpFunction {
  int32_t blocks_per_sm; /* with this block size and shared memory */
  int32_t registers;     /* of one thread */
  int32_t local_bytes;   /* of one thread */
  int32_t max_threads;   /* in a block */
} EpFunction;

/* Prepares a kernel of the current context, so that its first launch takes no longer than later launches. Returns 0
 * or a CUresult. */
int ep_function(uint64_t function, uint32_t block, uint32_t shared, EpFunction *out);

/* Allocates zeroed memory that host and devices share. Returns 0 or a CUresult. */
int ep_host_alloc(size_t bytes, void **host, uint64_t *device);
int ep_host_free(void *host);

/* Streams of the current context: one for calls, one for a matrix product at the same time. The stream for calls has
 * the highest priority. So when a block of the product ends, a block of a call gets its SM. */
typedef struct EpStreams {
  uint64_t calls, side;    /* CUstream */
  uint64_t forked, joined; /* CUevent */
} EpStreams;
int ep_streams(EpStreams *out);
void ep_streams_free(EpStreams *s);

/* Makes a graph of the rank's steps. ep_release frees the graph. */
int ep_capture(EpRank *rank);
int ep_release(EpRank *rank);

/* Performs the rounds of a batch. It queues a window of rounds, with one thread for each rank, and waits until they
 * have ended. Then it begins the next window. */
EpEnd ep_run(EpBatch *batch);

void ep_describe(int result, char text[EP_TEXT_BYTES]);

#endif
