/* Declarations shared by the tests of this folder. */
#ifndef EPCOMM_TESTS_RANKS_H
#define EPCOMM_TESTS_RANKS_H

#include "moe.h"
#include "world.h"

/* The options of the program. */
typedef struct Plan {
  const char *pack, *other; /* other: a second pack, for faults */
  int ranks, nodes, processes; /* processes: 1 if each rank is a process, 0 if it is a thread */
  int gpus;                 /* number of GPUs that the ranks share; 0: each rank has one */
  int calls, replays;
  int most;                 /* largest number of tokens drawn */
  int dtype;                /* EpcommDType of chain */
  double deadline;          /* seconds */
  double seconds;           /* how long soak and killing run */
  int seed;                 /* seed of soak's random choices */
  int victims;              /* number of ranks that the test lost kills */
  const char *at;           /* step of a call at which it kills them: counts, rows, ...; see lost.c */
  const char *test;
} Plan;

typedef int (*Test)(Member *member, void *plan);

/* Creates this rank. On failure prints the error and returns NULL. */
EpComm *ranks_create(Member *member, const Plan *p, int in_flight, int debug, uint64_t extra);
int ranks_device(const Member *member, const Plan *p);
EpcommOptions ranks_options(Member *member, const Plan *p);

/* The result of a rank whose call or all-gather passed its deadline although the test expects no fault. The host may
 * just be busy, so main runs the test again a few times, each time with twice the deadline. */
#define RANKS_SLOW 128

/* Prints a failure. Returns RANKS_SLOW if a wait took too long, else 1. */
int ranks_say(EpComm *comm, const char *what, EpcommStatus status);

/* Waits for the stream of a call that returned `status`. Returns 0 if the call ended without a fault. Otherwise prints
 * the failure and returns ranks_say's result; outputs must then not be checked. */
int ranks_ended(EpComm *comm, const char *what, EpcommStatus status, GpuStream stream);

int test_chain(Member *member, void *plan); /* chain.c */
int test_any_order(Member *member, void *plan); /* order.c */
int test_wrap(Member *member, void *plan), test_mixed(Member *member, void *plan); /* wrap.c */
void wrap_begin_at(EpComm *comm, uint32_t number); /* sets the call numbers of slot 0 on the device */
/* Holds counts the resources that must not grow from round to round. */
typedef struct Holds {
  size_t device; /* free bytes of the GPU */
  int files;     /* open files */
  long resident; /* KiB of host memory */
} Holds;
Holds holds_now(void);                                                   /* soak.c */
int holds_grown(const Member *member, const Holds *was, const Holds *is); /* returns 1 and prints both if resources have grown */

int test_killing(Member *member, void *plan);
int test_lost(Member *member, void *plan); /* lost.c */
int test_grow(Member *member, void *plan);
int test_refuse(Member *member, void *plan);
int test_soak(Member *member, void *plan); /* soak.c */
int test_spoiled(Member *member, void *plan); /* spoiled.c */
int test_arguments(Member *member, void *plan); /* arguments.c */
int test_nodes(Member *member, void *plan); /* nodes.c */
int test_refusals(Member *member, void *plan);
int test_left(Member *member, void *plan);
int test_crashed(Member *member, void *plan);
int test_unfilled(Member *member, void *plan);

/* faults.c. Returns 0 if creation fails with the status `victims` on the last rank, and `others` on the other ranks. */
int ranks_refused(Member *member, const EpcommOptions *o, EpcommStatus victims, EpcommStatus others);
int ranks_right(Moe *m, int most, GpuStream stream); /* makes checked calls; returns 0 if they are right */
int ranks_is_last(const Member *member);
/* Gathers the results of all ranks. Returns this rank's `bad`, or RANKS_SLOW if only another rank failed. */
int ranks_joint_result(Member *member, int bad);

Test settings_find(const char *name); /* settings.c */
Test faults_find(const char *name, int *victims); /* stores in *victims how many of the last ranks the test kills */

#endif
