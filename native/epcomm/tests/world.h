/* Runs ranks as threads or processes, which share memory. */
#ifndef EPCOMM_TESTS_WORLD_H
#define EPCOMM_TESTS_WORLD_H

#include <stddef.h>
#include <stdint.h>

typedef struct World World;

/* `turn` counts the gathers of the rank. */
typedef struct Member {
  World *world;
  int rank, ranks, turn;
} Member;

/* Lets a new process replace a killed rank. */
void world_rejoin(Member *member);

/* An EpcommAllGather whose context is a Member. */
int world_gather(void *member, const void *mine, void *all, size_t bytes);

/* Runs `body` for every rank. Returns the worst result, or 99 if a rank outside `victims` was killed. */
int world_run(int ranks, int processes, uint64_t victims, int (*body)(Member *member, void *context), void *context);

double now(void);

#endif
