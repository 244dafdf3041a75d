/* Declarations shared by the tests of this folder. */
#ifndef EPCOMM_TESTS_RANKS_H
#define EPCOMM_TESTS_RANKS_H

#include "moe.h"
#include "world.h"

typedef struct Plan {
  const char *pack, *other;
  int ranks, nodes, processes; /* processes: 0 if ranks are threads */
  int gpus;                 /* 0: each rank has one */
  int calls, replays;
  int most;                 /* a test draws token counts from 0 to `most` */
  int dtype;                /* EpcommDType of chain */
  double deadline;          /* seconds */
  double seconds;           /* of soak and killing */
  int seed;                 /* of soak */
  int victims;              /* number of ranks to kill */
  const char *at;           /* step of a call */
  const char *test;
} Plan;

typedef int (*Test)(Member *member, void *plan);

/* Creates this rank, or prints the error and returns NULL. */
EpComm *ranks_create(Member *member, const Plan *p, int in_flight, int debug, uint64_t extra);
int ranks_device(const Member *member, const Plan *p);
EpcommOptions ranks_options(Member *member, const Plan *p);

/* The result if a deadline passed unexpectedly. main then runs the test again with twice the deadline. */
#define RANKS_SLOW 128

/* Prints a failure. Returns RANKS_SLOW if a wait took too long, else 1. */
int ranks_say(EpComm *comm, const char *what, EpcommStatus status);

/* Waits for a stream. Returns 0, or prints the failure and returns the result of ranks_say. */
int ranks_ended(EpComm *comm, const char *what, EpcommStatus status, GpuStream stream);

int test_chain(Member *member, void *plan);
int test_any_order(Member *member, void *plan);
int test_wrap(Member *member, void *plan), test_mixed(Member *member, void *plan);
void wrap_begin_at(EpComm *comm, uint32_t number); /* sets the call numbers of slot 0 */
/* Resources that must not grow. */
typedef struct Holds {
  size_t device; /* free bytes of the GPU */
  int files;     /* open files */
  long resident; /* KiB of host memory */
} Holds;
Holds holds_now(void);
int holds_grown(const Member *member, const Holds *was, const Holds *is); /* prints both */

int test_killing(Member *member, void *plan);
int test_lost(Member *member, void *plan);
int test_grow(Member *member, void *plan);
int test_refuse(Member *member, void *plan);
int test_soak(Member *member, void *plan);
int test_spoiled(Member *member, void *plan);
int test_arguments(Member *member, void *plan);
int test_nodes(Member *member, void *plan);
int test_refusals(Member *member, void *plan);
int test_left(Member *member, void *plan);
int test_crashed(Member *member, void *plan);
int test_unfilled(Member *member, void *plan);

/* Returns 0 if creation fails with `victims` on the last rank and `others` on the others. */
int ranks_refused(Member *member, const EpcommOptions *o, EpcommStatus victims, EpcommStatus others);
int ranks_right(Moe *m, int most, GpuStream stream);
int ranks_is_last(const Member *member);
/* Returns `bad`, or RANKS_SLOW if only another rank failed. */
int ranks_joint_result(Member *member, int bad);

Test settings_find(const char *name);
Test faults_find(const char *name, int *victims); /* *victims: ranks to kill */

#endif
