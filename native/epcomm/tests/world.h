/* Runs the ranks of tests as threads of this process, or as processes. They exchange data in shared memory. */
#ifndef EPCOMM_TESTS_WORLD_H
#define EPCOMM_TESTS_WORLD_H

#include <stddef.h>
#include <stdint.h>

typedef struct World World;

/* A Member is one rank of a World. turn is the number of the rank's last gather. */
typedef struct Member {
  World *world;
  int rank, ranks, turn;
} Member;

/* Lets a new process continue as a rank whose process was killed between two gathers. */
void world_rejoin(Member *member);

/* An EpcommAllGather whose context is a Member. It gives up after a while, because a rank may have been killed. */
int world_gather(void *member, const void *mine, void *all, size_t bytes);

/* Runs `body` for every rank, and returns the worst result once all have ended. A rank whose bit is set in `victims`
 * may end in any way. If the process of another rank was killed, the result is 99. */
int world_run(int ranks, int processes, uint64_t victims, int (*body)(Member *member, void *context), void *context);

/* Returns seconds of a clock that never goes back. */
double now(void);

#endif
