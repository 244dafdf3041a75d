#include "world.h"

#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANKS 8
#define MOST_BYTES 65536
#define PATIENCE 120.0 /* seconds until a rank counts as gone */

struct World {
  int written[MOST_RANKS], read[MOST_RANKS]; /* number of the last gather of each rank */
  unsigned char data[MOST_RANKS][MOST_BYTES];
};

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int await(const int *turns, int ranks, int turn) {
  const struct timespec nap = {0, 100000};
  double start = gpu_seconds();
  for (int r = 0; r < ranks;) {
    if (__atomic_load_n(&turns[r], __ATOMIC_ACQUIRE) >= turn) r++;
    else if (gpu_seconds() - start > PATIENCE) return 1;
    else nanosleep(&nap, NULL);
  }
  return 0;
}

int world_gather(void *context, const void *mine, void *all, size_t bytes) {
  Member *s = context;
  World *w = s->world;
  if (bytes > MOST_BYTES) return 2;
  s->turn++;
  memcpy(w->data[s->rank], mine, bytes);
  __atomic_store_n(&w->written[s->rank], s->turn, __ATOMIC_RELEASE);
  if (await(w->written, s->ranks, s->turn)) return 1;
  for (int r = 0; r < s->ranks; r++) memcpy((char *)all + (size_t)r * bytes, w->data[r], bytes);
  __atomic_store_n(&w->read[s->rank], s->turn, __ATOMIC_RELEASE);
  return await(w->read, s->ranks, s->turn);
}

void world_rejoin(Member *s) { s->turn = s->world->written[s->rank]; }

typedef struct Job {
  Member member;
  int (*body)(Member *, void *);
  void *context;
  int result;
} Job;

static void *work(void *p) {
  Job *j = p;
  j->result = j->body(&j->member, j->context);
  return NULL;
}

/* Returns the worse of two results: killed (99), then wrong (odd), then any other. */
static int worse(int a, int b) {
  const int killed = (a == 99) - (b == 99), wrong = (a & 1) - (b & 1);
  if (killed != 0) return killed > 0 ? a : b;
  if (wrong != 0) return wrong > 0 ? a : b;
  return a > b ? a : b;
}

static int as_threads(Job *jobs, int ranks) {
  pthread_t threads[MOST_RANKS];
  int worst = 0;
  for (int r = 0; r < ranks; r++) pthread_create(&threads[r], NULL, work, &jobs[r]);
  for (int r = 0; r < ranks; r++) {
    pthread_join(threads[r], NULL);
    worst = worse(worst, jobs[r].result);
  }
  return worst;
}

static int as_processes(Job *jobs, int ranks, uint64_t victims) {
  pid_t pids[MOST_RANKS];
  int worst = 0, status = 0;
  for (int r = 0; r < ranks; r++) {
    fflush(NULL);
    pids[r] = fork();
    if (pids[r] != 0) continue;
    work(&jobs[r]);
    fflush(NULL);
    exit(jobs[r].result);
  }
  for (int r = 0; r < ranks; r++) {
    waitpid(pids[r], &status, 0);
    int result = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
    if (victims >> r & 1) continue;
    if (WIFSIGNALED(status)) fprintf(stderr, "rank %d ended by signal %d\n", r, WTERMSIG(status));
    worst = worse(worst, result);
  }
  return worst;
}

int world_run(int ranks, int processes, uint64_t victims, int (*body)(Member *, void *), void *context) {
  Job jobs[MOST_RANKS];
  World *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (ranks < 1 || ranks > MOST_RANKS || w == MAP_FAILED) return 98;
  memset(w, 0, sizeof *w);
  for (int r = 0; r < ranks; r++) jobs[r] = (Job){{w, r, ranks, 0}, body, context, 0};
  int result = processes ? as_processes(jobs, ranks, victims) : as_threads(jobs, ranks);
  munmap(w, sizeof *w);
  return result;
}
