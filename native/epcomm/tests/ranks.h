/* Declarations shared by the tests of this folder. */
#ifndef EPCOMM_TESTS_RANKS_H
#define EPCOMM_TESTS_RANKS_H

#include "moe.h"
#include "world.h"

/* The options of the program. */
typedef struct Plan {
  const char *pack, *other; /* other: a second pack, for faults */
  int ranks, nodes, processes;
  int gpus;                 /* GPUs that ranks share in turn; 0: one each */
  int calls, replays;
  int most;                 /* largest number of tokens drawn */
  int dtype;                /* EpcommDType of chain */
  double deadline;          /* seconds */
  double seconds;           /* that soak takes */
  int seed;                 /* of what soak draws */
  int victims;              /* number of ranks that lost kills */
  const char *at;           /* where: see lost.c */
  const char *test;
} Plan;

typedef int (*Test)(Seat *seat, void *plan);

/* Creates this rank. On failure prints the error and returns NULL. */
EpComm *ranks_create(Seat *seat, const Plan *p, int in_flight, int debug, uint64_t extra);
int ranks_device(const Seat *seat, const Plan *p);
EpcommOptions ranks_options(Seat *seat, const Plan *p);

/* The result of a rank whose call or meeting passed its deadline, although the test expects no fault. The cause
 * may be a busy host or a lost message, so main runs the test again, a few times, each with twice the deadline. */
#define RANKS_SLOW 128

/* Prints a failure. Returns RANKS_SLOW if a wait took too long, else 1. */
int ranks_say(EpComm *comm, const char *what, EpcommStatus status);

/* Waits for the stream of a call that returned `status`. Returns 0 if the call has ended well, else
 * what ranks_say returns. Outputs may be checked only then. */
int ranks_ended(EpComm *comm, const char *what, EpcommStatus status, GpuStream stream);

int test_chain(Seat *seat, void *plan); /* chain.c */
int test_any_order(Seat *seat, void *plan); /* order.c */
int test_wrap(Seat *seat, void *plan), test_mixed(Seat *seat, void *plan); /* wrap.c */
void wrap_begin_at(EpComm *comm, uint32_t number); /* sets the device counters of slot 0 */
/* Holds counts the resources that may not grow from round to round. */
typedef struct Holds {
  size_t device; /* free bytes */
  int files;
  long resident; /* KiB */
} Holds;
Holds holds_now(void);                                                   /* soak.c */
int holds_grown(const Seat *seat, const Holds *was, const Holds *is); /* prints them and returns 1 if they have */

int test_killing(Seat *seat, void *plan);
int test_lost(Seat *seat, void *plan); /* lost.c */
int test_grow(Seat *seat, void *plan);
int test_refuse(Seat *seat, void *plan);
int test_soak(Seat *seat, void *plan); /* soak.c */
int test_spoiled(Seat *seat, void *plan); /* spoiled.c */
int test_arguments(Seat *seat, void *plan); /* arguments.c */
int test_nodes(Seat *seat, void *plan); /* nodes.c */
int test_refusals(Seat *seat, void *plan);
int test_left(Seat *seat, void *plan);
int test_crashed(Seat *seat, void *plan);
int test_unfilled(Seat *seat, void *plan);

/* faults.c. Creation must fail: on the last rank with `victims`, on the others with `others`. */
int ranks_refused(Seat *seat, const EpcommOptions *o, EpcommStatus victims, EpcommStatus others);
int ranks_right(Moe *m, int most, GpuStream stream); /* checked calls */
int ranks_is_last(const Seat *seat);
int ranks_all(Seat *seat, int bad); /* returns `bad`; if it is 0 but that of another rank is not, returns RANKS_SLOW */

Test settings_find(const char *name); /* settings.c */
Test faults_find(const char *name, int *victims); /* victims: how many of the last ranks it kills */

#endif
