/* Reads queries from standard input and answers them with the exported header.
 * A query has a line of 14 problem fields, lines of "tokens routing", and -1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tuned.h"

static uint32_t cells[TUNED_CELLS(4096)];

static void fail(const char *what, int tokens, int routing) {
  fprintf(stderr, "%s at %d tokens, routing %d\n", what, tokens, routing);
  exit(1);
}

static void answer(const tuned_problem *p, const tuned_resolved *resolved) {
  int tokens, routing;
  while (scanf("%d", &tokens) == 1 && tokens != -1) {
    if (scanf("%d", &routing) != 1) exit(1);
    tuned_answer a = tuned_search(p, tokens, routing);
    tuned_hit c = tuned_lookup(resolved, tokens, routing);
    if (tokens <= 4096 && (c.row != a.row || c.reason != a.reason || c.config != a.config))
      fail("resolved and direct look-up differ", tokens, routing);
    if (tokens > 4096 && (c.row != -1 || c.reason != tuned_search(p, -1, routing).reason))
      fail("beyond its span the look-up gives another reason than the search", tokens, routing);
    printf("%s %" PRId32 " %" PRId32 " %" PRIu32 "\n", a.config->key, a.reason, a.row, a.differs);
  }
}

static int parity(void) {
  int32_t f[14];
  for (;;) {
    for (int i = 0; i < 14; i++)
      if (scanf("%" SCNd32, &f[i]) != 1) return i != 0;
    tuned_problem p = {f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[11], f[12], f[13]};
    tuned_resolved resolved;
    tuned_resolve(&resolved, cells, &p, 4096);
    answer(&p, &resolved);
  }
}

/* Reads lines "experts ranks count count ..." and prints the class of each. */
static int classify(void) {
  static int64_t counts[4096];
  int experts, ranks;
  while (scanf("%d %d", &experts, &ranks) == 2) {
    for (int i = 0; i < experts; i++)
      if (scanf("%" SCNd64, &counts[i]) != 1) return 1;
    printf("%d\n", tuned_classify(counts, experts, ranks));
  }
  return 0;
}

/* Prints the nanoseconds of one hot look-up of the first problem on standard
 * input, best of seven runs. The compiler cannot know the token count. */
static int bench(void) {
  int32_t f[14];
  for (int i = 0; i < 14; i++)
    if (scanf("%" SCNd32, &f[i]) != 1) return 1;
  tuned_problem p = {f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[11], f[12], f[13]};
  tuned_resolved resolved;
  tuned_resolve(&resolved, cells, &p, 4096);
  double best = 1e9;
  for (int run = 0; run < 7; run++) {
    const int n = 10 * 1000 * 1000;
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int i = 0; i < n; i++) {
      tuned_hit c = tuned_lookup(&resolved, (i * 37) & 4095, i % TUNED_CLASSES);
      __asm__ volatile("" : : "r"(c.config->count), "r"(c.row), "r"(c.reason));
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n;
    if (ns < best) best = ns;
  }
  printf("%.3f\n", best);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "parity") == 0) return parity();
  if (argc == 2 && strcmp(argv[1], "classify") == 0) return classify();
  if (argc == 2 && strcmp(argv[1], "bench") == 0) return bench();
  return 2;
}
