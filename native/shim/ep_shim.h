/* Functions of the CUDA driver that the Go package gorgonia.org/cu lacks: extended launches,
 * function attributes, graphs and host-mapped memory. ep_run performs a batch of any number of
 * rounds in one cgo call.
 *
 * A round of a rank is a list of steps, which Go writes. The shim queues the steps on the
 * rank's stream, directly or as a captured graph. Handles of the driver are passed as integers.
 */
#ifndef EP_SHIM_H
#define EP_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "ep_args.h"

#define EP_TEXT_BYTES 256

typedef enum EpStepKind {
  EP_STEP_KERNEL,
  EP_STEP_MEMSET, /* words of 32 bits */
  EP_STEP_EVENT,  /* record an event; each replay of a graph records it again */
  EP_STEP_FORK,   /* the side stream waits for the stream */
  EP_STEP_JOIN,   /* the stream waits for the side stream */
  EP_STEP_PRODUCT, /* launch number `words` of the EpProduct in object */
  EP_STEP_COPY    /* copy words of 32 bits from source to target; if these are on two GPUs, a copy engine copies */
} EpStepKind;

/* EpStep.flags */
#define EP_LAUNCH_PDL 1u         /* may start before the previous kernel ends */
#define EP_LAUNCH_COOPERATIVE 2u /* the driver refuses a grid that cannot be resident at once */
#define EP_STEP_SIDE 4u          /* the step is queued on the side stream */

typedef struct EpStep {
  uint32_t kind; /* EpStepKind */
  uint32_t flags;
  uint32_t grid, block; /* number of blocks, and of threads of a block */
  uint32_t shared;      /* bytes of dynamic shared memory */
  uint32_t value;       /* memset: value of each word */
  uint64_t object;      /* CUfunction, CUevent or EpProduct */
  uint64_t target;      /* memset, copy: device address */
  uint64_t words;       /* memset, copy: number of words */
  uint64_t source;      /* copy: device address */
  union {
    EpArgs ep;
    EpSiluArgs silu;
  } args; /* the kernel's one parameter */
} EpStep;

typedef struct EpRank {
  uint64_t context; /* CUcontext */
  uint64_t stream;  /* CUstream */
  uint64_t side;    /* CUstream of a matrix product that runs during the calls, 0 for none */
  uint64_t forked, joined; /* CUevents for EP_STEP_FORK and EP_STEP_JOIN */
  uint64_t exec;    /* CUgraphExec, or 0: the steps are queued one by one */
  EpStep *steps;
  volatile EpFault *fault;
  uint64_t replay;  /* device address of EpControl.replay, 0 for none */
  uint64_t collect; /* device address of a window's measurements, 0 for none */
  uint64_t *events; /* pairs of CUevents; if there are any, the times between them are the measurements */
  int32_t count;    /* number of steps */
  int32_t pairs;    /* number of event pairs */
  int32_t finished; /* number of rounds of the batch that have ended; other threads may read it */
} EpRank;

typedef struct EpBatch {
  EpRank *ranks;
  int32_t count;      /* number of ranks */
  int32_t rounds;
  int32_t window;     /* number of rounds that are queued before the call waits for them */
  int32_t bad_rank;   /* the rank of the error in text */
  int32_t stop;       /* another thread sets 1, so that no further window begins */
  uint64_t row_bytes; /* bytes of the measurements of one rank in one round */
  uint8_t *rows;      /* [ranks, rounds, row_bytes] */
  uint64_t limit_ns;  /* longest wait for a window */
  char text[EP_TEXT_BYTES];
} EpBatch;

/* How a call ended. */
typedef enum EpEnd {
  EP_END_OK,
  EP_END_FAULT,   /* a kernel gave up waiting and wrote a fault record */
  EP_END_REFUSED, /* the driver refused a launch; everything that was launched before has ended */
  EP_END_BROKEN,  /* the context is lost */
  EP_END_STUCK,   /* a kernel or a call of the driver did not end in time */
  EP_END_STOPPED  /* stop was set; the later rounds were not performed */
} EpEnd;

typedef struct EpFunction {
  int32_t blocks_per_sm; /* blocks that an SM can run at once, with this block size and shared memory */
  int32_t registers;     /* registers of one thread */
  int32_t local_bytes;   /* bytes of local memory of one thread */
  int32_t max_threads;   /* largest allowed number of threads in a block */
} EpFunction;

/* Prepares a function of the current context for launches with this block size and dynamic
 * shared memory, so that the first launch takes no longer than others. Stores the function's
 * resources in *out. Returns 0 or a CUresult. */
int ep_function(uint64_t function, uint32_t block, uint32_t shared, EpFunction *out);

/* Allocates zeroed memory that host and devices share. Returns 0 or a CUresult. */
int ep_host_alloc(size_t bytes, void **host, uint64_t *device);
int ep_host_free(void *host);

/* The streams of a rank that runs a matrix product during its calls, on the current context.
 * The stream of the calls has the highest priority, so that their blocks get each SM as soon as
 * a block of the product ends. The side stream has the lowest priority. */
typedef struct EpStreams {
  uint64_t calls, side;    /* CUstream */
  uint64_t forked, joined; /* CUevent */
} EpStreams;
int ep_streams(EpStreams *out);
void ep_streams_free(EpStreams *s);

/* ep_capture makes the rank's graph from its steps. ep_release frees the graph. */
int ep_capture(EpRank *rank);
int ep_release(EpRank *rank);

/* Performs the rounds of a batch, one window after the other. For each window, one thread for
 * each rank queues the rank's rounds; then the call waits until all have ended. */
EpEnd ep_run(EpBatch *batch);

/* Writes the driver's name and description of a CUresult. */
void ep_describe(int result, char text[EP_TEXT_BYTES]);

#endif
