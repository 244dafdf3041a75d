/* Declarations that the library's files share. */
#ifndef EPCOMM_COMM_H
#define EPCOMM_COMM_H

#include "driver.h"
#include "epcomm_args.h"
#include "epcomm.h"
#include "pack.h"

#define COMM_MESSAGE 1024 /* bytes of the largest message between ranks */
#define COMM_STATES 16 /* a state is the memory of one kernel family for one dtype */

typedef struct StateAt {
  uint64_t rounds[2]; /* call numbers by op, PACK_ROUND_WORDS words each */
  uint64_t counters;
  uint64_t region[EP_MAX_REGIONS];
} StateAt;

typedef struct SlotAt {
  uint64_t agree;
  uint64_t ids[2]; /* by op: copy of the top-k ids, [max_tokens, topk] int32; only in packs for survivors */
  uint64_t out, out_scales, row_offsets, expert_ids, src_info, scale_offsets;
  uint64_t y; /* the experts' outputs, with several nodes */
  StateAt states[COMM_STATES];
} SlotAt;

typedef struct HeapAt {
  uint64_t control, extra, bytes;
  uint64_t survival; /* EpSurvival; a reset keeps its content */
  uint64_t abort; /* two words: EpArgs.given_up, and the abort word of kernels without a state */
  uint64_t world;
  uint64_t normal;
  SlotAt slots[EPCOMM_MAX_SLOTS];
} HeapAt;

typedef struct Ready {
  DrvFunction function;
  const PackLaunch *launch;
} Ready;

typedef struct Slot {
  int plan;             /* plan of the last dispatch, -1: none */
  int begun[2];         /* by op: plan of a send without recv, -1: none */
  uint64_t sent[2];
  DrvEvent done[2];
} Slot;

typedef struct Place {
  uint64_t process[2]; /* a random number, and the process id */
  char host[40];       /* boot id, equal for processes of one Linux kernel */
} Place;

struct EpComm {
  EpcommOptions options;
  Pack pack;
  int nodes;
  const Driver *driver;
  DrvDevice device;
  DrvContext context;
  int sms;
  DrvModule *modules;  /* NULL for a module that no call needs */
  Ready *ready;
  DrvFunction align, stamp, agree, living;
  DrvFunction meet;
  DrvFunction layout, announce, add_counts, received, give_back; /* of normal.c; NULL if the pack is too old */
  DrvFunction place_rows, expand, fold; /* of expand.c; NULL if the pack is too old */
  const PackLookup *lookups[4][PACK_PURPOSES][PACK_CLASSES];
  int dtype_index[5];  /* by EpcommDType: index in the pack, -1: none */
  HeapAt at;
  DrvPointer heap[EPCOMM_MAX_RANKS]; /* 0 for ranks of other nodes */
  int opened[EPCOMM_MAX_RANKS];      /* 1: heap of another process, must be closed */
  uint64_t mapped[EPCOMM_MAX_RANKS]; /* bytes of a heap that is mapped by a descriptor, else 0 */
  DrvMemory memory;                  /* of this rank's heap, if it is mapped */
  int plain;                         /* 1: heaps are shared by IPC handles */
  DrvPointer handles[EPCOMM_MAX_RANKS];
  volatile EpFault *fault;      /* host memory that the device writes */
  DrvPointer fault_device;
  volatile uint32_t *told;      /* host memory for the counts of ep_announce */
  DrvPointer told_device;
  uint32_t ticket;
  volatile EpLost *lost;
  DrvPointer lost_device;
  uint64_t alive;               /* bit r for each rank that takes part in calls */
  uint64_t gathers;             /* bit r for each rank that takes part in all_gather */
  uint32_t attempts;
  Place places[EPCOMM_MAX_RANKS];
  EpArgs base;
  Slot slots[EPCOMM_MAX_SLOTS];
  char text[EPCOMM_TEXT];
  uint8_t meeting[(EPCOMM_MAX_RANKS + 1) * COMM_MESSAGE]; /* memory of exchange(), which allocates nothing */
};

EpcommStatus comm_say(EpComm *c, EpcommStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));
EpcommStatus comm_driver_error(EpComm *c, DrvResult result, const char *what);

uint8_t *comm_heap(const EpComm *c);
static inline void *comm_on_heap(const EpComm *c, uint64_t at) { return comm_heap(c) + at; }

/* Fills a caller's struct up to its `size`, because the caller's header may be older. The member `size` keeps its
 * value. */
void comm_give(void *out, const void *whole, size_t bytes);

/* Copies a caller's struct to `whole` (`bytes` bytes). Members that the caller's header lacks become 0. Returns -1
 * if the struct has less than `least` bytes, or sets a member that this library does not know. */
int comm_take(void *whole, size_t bytes, size_t least, const void *given);

EpcommStatus comm_no_room(EpComm *c, uint64_t free_bytes);

void heap_layout(EpComm *c);
EpcommStatus heap_fill(EpComm *c);

EpcommStatus load_kernels(EpComm *c);
void unload_kernels(EpComm *c);

typedef enum Step { STEP_CREATE = 1, STEP_RESET, STEP_RESET_END, STEP_DESTROY, STEP_FREE } Step;

/* Gathers `bytes` bytes of each rank into `all`. Every rank passes its status so far. Returns EPCOMM_OK only if
 * all ranks pass EPCOMM_OK and the same step. */
EpcommStatus exchange(EpComm *c, Step step, EpcommStatus status, const void *mine, void *all, size_t bytes);

/* The functions of share.c. share_heaps is collective. With `running`, this rank or a rank that it joins has made calls,
 * and keeps its heap. */
EpcommStatus share_take(EpComm *c);
void share_give(EpComm *c);
EpcommStatus share_heaps(EpComm *c, EpcommStatus status, int running);
void share_close(EpComm *c, uint64_t ranks); /* closes the heaps of a set of ranks of other processes */

Place comm_place(void);

/* The functions of network.c. network_join, network_take and network_give are collective. */
EpcommStatus network_open(EpComm *c);
EpcommStatus network_join(EpComm *c);
EpcommStatus network_take(EpComm *c, EpcommStatus status);
void network_give(EpComm *c);
void network_abandon(EpComm *c);  /* keeps the heap */
EpcommStatus network_module(EpComm *c, DrvModule module);
void network_drop(DrvModule module);
EpcommStatus network_table(EpComm *c);
EpcommStatus network_settle(EpComm *c); /* waits until all sent data has arrived */

void call_prepare(EpComm *c);
void comm_forget_calls(EpComm *c); /* sets the slots to the state before any call */
/* Launches a kernel outside dispatch and combine. args has at least sizeof(EpArgs) bytes. With `early`, the kernel
 * may begin before the preceding kernel ends, and must wait for that kernel. */
EpcommStatus comm_launch(EpComm *c, DrvFunction f, uint32_t grid, uint32_t block, int early, void *args, const char *what,
                         DrvStream stream);

/* Launches as comm_launch does, even after a fault. */
EpcommStatus comm_launch_now(EpComm *c, DrvFunction f, uint32_t grid, uint32_t block, int early, void *args, const char *what,
                             DrvStream stream);

/* Declares `a`, whose member `of` has the given type. `a` has room for an EpArgs, because a launch on the emulated
 * driver copies sizeof(EpArgs) bytes. */
#define WITH_ROOM(type) \
  union {               \
    type of;            \
    EpArgs room;        \
  } a;                  \
  memset(&a, 0, sizeof a)

EpcommStatus comm_check_size(EpComm *c, size_t size, size_t want, const char *name);

EpcommStatus comm_agree(EpComm *c, EpcommStatus status);

EpcommStatus survive_check(EpComm *c);
EpcommStatus survive_begin(EpComm *c);
EpcommStatus survive_reset(EpComm *c, uint64_t alive);
EpcommStatus survive_part(EpComm *c);                 /* waits until all living ranks call epcomm_destroy */
int survive_lost(const EpComm *c);
uint64_t survive_everyone(const EpComm *c);

EpcommStatus comm_clear(EpComm *c);                   /* resets fault, calls and memory; call it only while no kernel of
                                                         any rank runs */
int fault_is_set(const EpComm *c);
void fault_sentence(const EpComm *c, const EpFault *f, char *text);

#endif
