/* The records of a pack, as kernels/cuda/pack/format.go writes them: little-endian, naturally aligned, in sections
 * at multiples of 16 bytes. */
#ifndef EPCOMM_PACK_H
#define EPCOMM_PACK_H

#include <stddef.h>
#include <stdint.h>

#define PACK_MAGIC "EPCOMMPK"
#define PACK_VERSION 2 /* version 1 can be read too; it lacks PackRegion.area */
#define PACK_DIGEST_FROM 56 /* first byte that the digest covers */
#define PACK_ROUND_BLOCKS 192 /* largest number of blocks in a grid */
#define PACK_ROUND_WORDS (32 * PACK_ROUND_BLOCKS)
#define PACK_CLASSES 5
#define PACK_MOST_RANKS 64
#define PACK_PURPOSES 4
#define PACK_NEEDED_PURPOSES 3

enum { PACK_EXPERT, PACK_EXPERT_128, PACK_MASKED, PACK_RANK, PACK_RANK_PACKED, PACK_LAYOUTS }; /* as ep.Layouts */
enum { PACK_SHARED = 1, PACK_SKIP = 2, PACK_REDUCED = 4, PACK_EXACT = 8, PACK_RAW = 16, PACK_SURVIVORS = 32 };
enum { PACK_PLACES = 1, PACK_PDL = 1, PACK_NETWORK = 1 }; /* flags of a config, a launch and a module */

enum {
  PACK_DTYPES, PACK_STATES, PACK_REGIONS, PACK_MODULES, PACK_LAUNCHES, PACK_CONFIGS, PACK_PLANS, PACK_LOOKUPS,
  PACK_RUNS, PACK_STRINGS, PACK_MANIFEST, PACK_CUBINS, PACK_SECTIONS
};

typedef struct PackSection {
  uint64_t offset;
  uint32_t count, stride;
} PackSection;

typedef struct PackHeader {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t file_bytes;
  uint8_t digest[32];
  uint8_t abi[32], evidence[32];
  char arch[16];
  uint32_t args_version, major, minor, flags;
  uint32_t ranks, hidden, experts, topk, max_tokens, groups;
  uint32_t max_sms, largest_grid, align_module, calls_module, kernels, layout;
  PackSection sections[PACK_SECTIONS];
} PackHeader;

/* Follows the header in packs for several nodes; header_bytes includes it. */
typedef struct PackHosts {
  uint32_t nodes;
  uint32_t network[3]; /* version of NVSHMEM */
} PackHosts;

typedef struct PackDType {
  uint32_t dtype, row_pad;
  uint64_t max_rows, row_bytes, out_bytes, scale_bytes;
  uint32_t scales, scale_size;
} PackDType;

typedef struct PackState {
  uint32_t dtype, name, first_region, regions, counters;
  uint16_t numbers[2]; /* ids of the state's call counters: [0] of dispatch, [1] of combine. States with the same id
                          share the counter; 0: not shared. With the same numbers[0] they also share EpArgs.counters */
} PackState;

typedef struct PackRegion {
  uint64_t bytes;
  uint8_t fill;
  uint8_t halves; /* 1: calls alternate between the halves, and regions that share memory have the same middle; 0: they
                     have the same start */
  uint16_t area;  /* regions share memory if their areas are equal and not 0 */
  uint32_t name;
} PackRegion;

typedef struct PackModule {
  uint64_t offset, bytes;
  uint32_t name, flags;
} PackModule;

typedef struct PackLaunch {
  uint32_t module, entry, grid, block, shared, flags;
  int32_t sms, wait_sms, count_sms, tile_tokens, chunk_bytes;
  int32_t first_own, second_own; /* values for EpArgs.rotate and EpArgs.pause_ns */
  uint32_t unused;
} PackLaunch;

typedef struct PackConfig {
  uint32_t op, dtype, state, first_launch, launches, flags, key, unused;
} PackConfig;

typedef struct PackPlan {
  uint32_t dispatch, combine;
} PackPlan;

typedef struct PackLookup {
  uint32_t dtype, reduced, purpose, routing, first_run, runs;
} PackLookup;

typedef struct PackRun {
  uint32_t last, plan, elsewhere, text;
} PackRun;

typedef struct Pack {
  uint8_t *data; /* 16-byte aligned copy of the file */
  const PackHeader *head;
  const PackHosts *hosts; /* NULL on one host */
  const PackDType *dtypes;
  const PackState *states;
  const PackRegion *regions;
  const PackModule *modules;
  const PackLaunch *launches;
  const PackConfig *configs;
  const PackPlan *plans;
  const PackLookup *lookups;
  const PackRun *runs;
  const char *strings;
  const uint8_t *cubins;
} Pack;

/* These two functions read a pack and return 0. On failure they return -1, write the reason to text (EPCOMM_TEXT
 * bytes), and leave nothing to free. */
int pack_read(Pack *pack, const void *data, size_t bytes, char *text);
int pack_open(Pack *pack, const char *path, char *text);
void pack_free(Pack *pack);

typedef struct PackIndex {
  uint64_t expert_ids, src_info, scale_offsets;
} PackIndex;
PackIndex pack_index(const PackHeader *head, const PackDType *dtype);
int pack_by_rank(const PackHeader *head);
int pack_any_order(const PackHeader *head); /* whether dispatches may be combined in any order */

uint32_t pack_nodes(const Pack *pack);
uint32_t pack_count(const Pack *pack, int section);
const char *pack_text(const Pack *pack, uint32_t at);

/* Returns the run (a range of token counts with one plan) that contains `tokens`. Returns NULL if the pack has no runs
 * for dtype, reduced, purpose and routing. Stores the run's smallest token count in *first, unless `first` is NULL.
 * `dtype` is an index of the pack's dtypes. */
const PackRun *pack_find(const Pack *pack, uint32_t dtype, int reduced, int purpose, int routing, uint32_t tokens,
                         uint32_t *first);

void sha256(const void *data, size_t bytes, uint8_t out[32]);

#endif
