/* Ranks for tests: threads of this process, or processes of their own, that meet
 * in shared memory. */
#ifndef EPCOMM_TESTS_WORLD_H
#define EPCOMM_TESTS_WORLD_H

#include <stddef.h>
#include <stdint.h>

typedef struct World World;

/* An EpcommAllGather whose context is a Seat. Gives up after a while, since a rank
 * may have been killed. */
typedef struct Seat {
  World *world;
  int rank, ranks, turn;
} Seat;

/* Lets a new process take the seat of a rank that was killed between two meetings. */
void world_rejoin(Seat *seat);

int world_gather(void *seat, const void *mine, void *all, size_t bytes);

/* Runs `body` for every rank, each with its seat, until all have returned; returns the
 * worst result, or 99 if a process was killed that should not have been. A rank whose bit
 * is set in `victims` may end in any way. */
int world_run(int ranks, int processes, uint64_t victims, int (*body)(Seat *seat, void *context), void *context);

/* Returns seconds of a clock that never goes back. */
double now(void);

#endif
