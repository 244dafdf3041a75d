/* What a serving process in C does with a tuned table.
 *
 *   epbench sweep -o run
 *   epbench table export --table run --format c -o tuned.h
 *   gcc -O2 -I . -o serve examples/runtime-c/main.c && ./serve
 */
#include <stdio.h>

#include "tuned.h"

enum { MAX_TOKENS = 4096, EXPERTS = 32, RANKS = 4 };

static const char *const routing_names[] = {"even", "skewed", "concentrated", "hot-rank", "all"};
static const char *const reason_names[] = {"exact", "fallback", "kept", "uncovered", "refused"};

/* The table worked out once: 80 KiB for 4096 token counts and five classes. */
static uint32_t cells[TUNED_CELLS(MAX_TOKENS)];

static void step(const tuned_resolved *resolved, int32_t tokens, const int64_t *counts) {
  int32_t routing = tuned_classify(counts, EXPERTS, RANKS);
  tuned_hit c = tuned_lookup(resolved, tokens, routing); /* the hot path: an array index */
  printf("%d tokens, %s: %s (%s)\n", (int)tokens, routing_names[routing], c.config->key, reason_names[c.reason]);
}

int main(int argc, char **argv) {
  /* The model and how it is spread: the preset demo on four ranks. */
  const tuned_problem problem = {TUNED_OP_DISPATCH, TUNED_MODE_EAGER, RANKS, 1, 512, EXPERTS, 4,
                                 TUNED_DTYPE_BF16, TUNED_DTYPE_BF16, 0, 0, TUNED_PRECISION_FULL};
  int64_t even[EXPERTS], hot[EXPERTS], skewed[EXPERTS];
  tuned_resolved resolved;
  /* A real process passes its own machine key and kernel hash. Without arguments
   * this one passes those of the table, so that it runs anywhere. */
  const char *why = tuned_refusal(argc > 1 ? argv[1] : TUNED_MACHINE_KEY, argc > 2 ? argv[2] : TUNED_ABI);
  if (why != NULL) {
    printf("the table is refused, everything is default: %s\n", why);
    return 0;
  }
  tuned_resolve(&resolved, cells, &problem, MAX_TOKENS);
  for (int e = 0; e < EXPERTS; e++) {
    even[e] = 100;
    hot[e] = e < 8 ? 900 : 20;
    skewed[e] = e % 4 == 0 ? 600 : 60;
  }
  step(&resolved, 1, even);
  step(&resolved, 16, even);
  step(&resolved, 16, skewed);
  step(&resolved, 64, hot);
  step(&resolved, 4000, even);
  return 0;
}
