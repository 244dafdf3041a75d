/* Runs the ranks of tests as threads or processes, which exchange data in shared memory. */
#ifndef EPCOMM_TESTS_WORLD_H
#define EPCOMM_TESTS_WORLD_H

#include <stddef.h>
#include <stdint.h>

typedef struct World World;

/* turn is the number of the rank's last gather. */
typedef struct Member {
  World *world;
  int rank, ranks, turn;
} Member;

/* Lets a new process continue as a killed rank. */
void world_rejoin(Member *member);

/* An EpcommAllGather whose context is a Member. It gives up after a while. */
int world_gather(void *member, const void *mine, void *all, size_t bytes);

/* Runs `body` for every rank, and returns the worst result; 99 if the process of a rank that is not in `victims` was
 * killed. */
int world_run(int ranks, int processes, uint64_t victims, int (*body)(Member *member, void *context), void *context);

double now(void);

#endif
