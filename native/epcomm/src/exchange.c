/* Exchanges messages with the other ranks. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

typedef struct Prefix {
  uint32_t magic;
  uint16_t version, step;
  int32_t rank, status;
  char text[EPCOMM_TEXT];
} Prefix;

#define MAGIC 0x6d6f6345u

static const char *step_name(unsigned step) {
  static const char *const names[] = {"?", "epcomm_create or epcomm_grow", "epcomm_reset", "the end of epcomm_reset", "epcomm_destroy",
                                      "the end of epcomm_destroy"};
  return names[step < sizeof names / sizeof names[0] ? step : 0];
}

/* Returns the first error of any rank, or an error if ranks are in different steps. */
static EpcommStatus judge(EpComm *c, Step step, const uint8_t *all, size_t each) {
  EpcommStatus first = EPCOMM_OK;
  for (int r = 0; r < c->options.ranks; r++) {
    Prefix p;
    if (!(c->gathers >> r & 1)) continue;
    memcpy(&p, all + (size_t)r * each, sizeof p);
    if (p.magic != MAGIC || p.version != EPCOMM_VERSION)
      return comm_say(c, EPCOMM_DISAGREE, "rank %d runs another version of this library, or all_gather mixes its data up", r);
    if (p.rank != r)
      return comm_say(c, EPCOMM_DISAGREE, "all_gather put the data of rank %d where the data of rank %d belongs", (int)p.rank, r);
    if (p.step != step)
      return comm_say(c, EPCOMM_DISAGREE, "rank %d is in %s, but rank %d is in %s; make the same call on all ranks", r, step_name(p.step),
                      c->options.rank, step_name(step));
    if (p.status == EPCOMM_OK || first != EPCOMM_OK) continue;
    p.text[EPCOMM_TEXT - 1] = 0;
    first = comm_say(c, EPCOMM_PEER, "rank %d: %.400s", r, p.text);
  }
  return first;
}

EpcommStatus exchange(EpComm *c, Step step, EpcommStatus status, const void *mine, void *all, size_t bytes) {
  size_t each = sizeof(Prefix) + bytes, ranks = (size_t)c->options.ranks;
  uint8_t *out = c->meeting, *in = out + each;
  Prefix p = {MAGIC, EPCOMM_VERSION, (uint16_t)step, c->options.rank, (int32_t)status, {0}};
  int failed = 0;
  memcpy(p.text, c->text, sizeof p.text);
  memcpy(out, &p, sizeof p);
  if (bytes > 0) memcpy(out + sizeof p, mine, bytes);
  if (ranks == 1) memcpy(in, out, each);
  else failed = c->options.all_gather(c->options.context, out, in, each);
  for (size_t r = 0; r < ranks && bytes > 0; r++) memcpy((uint8_t *)all + r * bytes, in + r * each + sizeof p, bytes);
  if (status != EPCOMM_OK) return status; /* keeps this rank's own error text */
  if (failed) return comm_say(c, EPCOMM_GATHER, "all_gather returned %d: a rank is gone, or the network between the ranks has failed", failed);
  return judge(c, step, in, each);
}

static void read_line(const char *path, char *out, size_t size) {
  FILE *f = fopen(path, "r");
  if (f == NULL) return;
  if (fgets(out, (int)size, f) != NULL) out[strcspn(out, "\n")] = 0;
  fclose(f);
}

/* Returns a number that identifies this process on hosts without /dev/urandom. A process id is not enough, because
 * processes in two containers may have the same id. */
static uint64_t guess(void) {
  struct timespec t = {0, 0};
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t x = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  x ^= (uint64_t)(uintptr_t)&t << 20 ^ (uint64_t)getpid() << 44;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x | 1;
}

static uint64_t process_number(void) {
  static uint64_t number;
  uint64_t drawn = 0;
  FILE *f = __atomic_load_n(&number, __ATOMIC_ACQUIRE) == 0 ? fopen("/dev/urandom", "rb") : NULL;
  if (f != NULL) {
    if (fread(&drawn, sizeof drawn, 1, f) != 1) drawn = 0;
    fclose(f);
  }
  if (drawn == 0) drawn = guess();
  uint64_t none = 0;
  if (drawn != 0) __atomic_compare_exchange_n(&number, &none, drawn, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return __atomic_load_n(&number, __ATOMIC_ACQUIRE);
}

Place comm_place(void) {
  Place p;
  memset(&p, 0, sizeof p);
  p.process[0] = process_number();
  p.process[1] = (uint64_t)getpid();
  read_line("/proc/sys/kernel/random/boot_id", p.host, sizeof p.host);
  return p;
}
