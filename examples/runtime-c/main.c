/* A serving process in C that uses a tuned table.
 *
 *   epbench sweep -o run
 *   epbench table export --table run --format c -o tuned.h
 *   gcc -O2 -I . -o serve examples/runtime-c/main.c -lepcomm && ./serve model.pack
 *
 * Without a pack, run ./serve MACHINE_KEY ABI with the two values that `epbench machine` prints.
 */
#include <stdio.h>
#include <stdlib.h>

#include "epcomm.h"
#include "tuned.h"

enum { MAX_TOKENS = 4096, EXPERTS = 32, RANKS = 4 };

static const char *const routing_names[] = {"even", "skewed", "concentrated", "hot-rank", "all"};
static const char *const reason_names[] = {"exact", "fallback", "kept", "uncovered", "refused"};

/* The resolved table, 80 KiB. */
static uint32_t cells[TUNED_CELLS(MAX_TOKENS)];

static void step(const tuned_resolved *resolved, int32_t tokens, const int64_t *counts) {
  int32_t routing = tuned_classify(counts, EXPERTS, RANKS);
  tuned_hit c = tuned_lookup(resolved, tokens, routing); /* the hot path: an array index */
  printf("%d tokens, %s: %s (%s)\n", (int)tokens, routing_names[routing], c.config->key, reason_names[c.reason]);
}

static void read_pack(const char *path, EpcommInfo *info) {
  char text[EPCOMM_TEXT] = "it cannot be read";
  FILE *f = fopen(path, "rb");
  long bytes = f != NULL && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
  void *data = bytes > 0 ? malloc((size_t)bytes) : NULL;
  int whole = data != NULL && fseek(f, 0, SEEK_SET) == 0 && fread(data, 1, (size_t)bytes, f) == (size_t)bytes;
  info->size = sizeof *info;
  if (!whole || epcomm_check_pack(data, (size_t)bytes, info, text) != EPCOMM_OK) {
    fprintf(stderr, "%s: %s\n", path, text);
    exit(1);
  }
  free(data);
  fclose(f);
}

/* Returns why the table may not be used on this machine, or NULL. */
static const char *refusal(int argc, char **argv) {
  static EpcommMachine machine = {.size = sizeof machine};
  static char text[EPCOMM_TEXT];
  EpcommInfo info;
  if (argc == 3) return tuned_refusal(argv[1], argv[2]);
  read_pack(argv[1], &info);
  return epcomm_machine(&machine, text) == EPCOMM_OK ? tuned_refusal(machine.key, info.kernels) : text;
}

int main(int argc, char **argv) {
  /* The preset demo on four ranks. */
  const tuned_problem problem = {.op = TUNED_OP_DISPATCH, .mode = TUNED_MODE_EAGER, .ranks = RANKS, .nodes = 1,
                                 .hidden = 512, .experts = EXPERTS, .top_k = 4,
                                 .dispatch = TUNED_DTYPE_BF16, .combine = TUNED_DTYPE_BF16};
  int64_t even[EXPERTS], hot[EXPERTS], skewed[EXPERTS];
  tuned_resolved resolved;
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: serve PACK, or serve MACHINE_KEY ABI\n");
    return 2;
  }
  const char *why = refusal(argc, argv);
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
