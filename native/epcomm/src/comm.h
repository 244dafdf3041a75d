/* What the files of the library share. */
#ifndef EPCOMM_COMM_H
#define EPCOMM_COMM_H

#include "driver.h"
#include "epcomm_args.h"
#include "epcomm.h"
#include "pack.h"

#define COMM_STATES 16 /* of a pack at most: dtypes times kinds of memory */

/* Offsets on the heap, the same on every rank. */
typedef struct StateAt {
  uint64_t rounds[2]; /* call numbers of dispatch and of combine, PACK_ROUND_WORDS each */
  uint64_t counters;
  uint64_t region[EP_MAX_REGIONS];
} StateAt;

typedef struct SlotAt {
  uint64_t ids; /* [max_tokens, topk] int32, narrowed */
  uint64_t out, out_scales, row_offsets, expert_ids, src_info, scale_offsets;
  StateAt states[COMM_STATES];
} SlotAt;

typedef struct HeapAt {
  uint64_t control, abort, agree, extra, bytes;
  SlotAt slots[EPCOMM_MAX_SLOTS];
} HeapAt;

/* A launch of the pack, found and readied on this device. */
typedef struct Ready {
  DrvFunction function;
  const PackLaunch *launch;
} Ready;

/* What the host remembers of a slot. */
typedef struct Slot {
  int plan;             /* of the last dispatch, -1 for none */
  int begun[2];         /* plan of the send that waits for its recv, by op, -1 for none */
  const int32_t *ids;   /* as the kernels read them */
  DrvStream sent[2];    /* stream of the last send, by op */
  DrvEvent done[2];     /* recorded behind it */
} Slot;

typedef struct EpSource EpSource;

struct EpComm {
  EpcommOptions options;
  Pack pack;
  const Driver *driver;
  DrvDevice device;
  DrvContext context;
  int sms;
  DrvModule *modules;  /* of the pack, NULL where none is needed */
  Ready *ready;        /* by launch of the pack */
  DrvFunction align, agree, narrow;
  const PackLookup *lookups[4][PACK_PURPOSES][PACK_CLASSES]; /* by dtype index */
  int dtype_index[5];  /* by EpcommDType, -1 where the pack has none or it was not chosen */
  HeapAt at;
  DrvPointer heap[EPCOMM_MAX_RANKS];
  int opened[EPCOMM_MAX_RANKS]; /* 1: by an IPC handle, to be closed */
  volatile EpFault *fault;      /* host memory that the device can write */
  DrvPointer fault_device;
  EpArgs base;                  /* what every launch shares */
  Slot slots[EPCOMM_MAX_SLOTS];
  char text[EPCOMM_TEXT];
};

/* Notes a sentence and gives the status. */
EpcommStatus comm_say(EpComm *c, EpcommStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a result of the driver. */
EpcommStatus comm_driver(EpComm *c, DrvResult result, const char *what);

/* Fills a struct of a caller, whose header may be older: `size`, its first member, says
 * how much of it there is, and stays. */
void comm_give(void *out, const void *whole, size_t bytes);

/* heap.c */
void heap_layout(EpComm *c);
EpcommStatus heap_fill(EpComm *c);

/* load.c */
EpcommStatus load_kernels(EpComm *c);
void unload_kernels(EpComm *c);

/* exchange.c: meets all ranks. Every rank brings the status that it has so far;
 * the result is EPCOMM_OK only if all brought that. `mine` is `bytes` bytes for the
 * others, `all` has room for those of all ranks. */
EpcommStatus exchange(EpComm *c, EpcommStatus status, const void *mine, void *all, size_t bytes);
/* Lets this rank address the heaps of the others. */
EpcommStatus exchange_heaps(EpComm *c, EpcommStatus status);

/* call.c */
void call_prepare(EpComm *c);
void comm_forget_calls(EpComm *c); /* as if none had been made */

/* fault.c */
void fault_sentence(const EpComm *c, const EpFault *f, char *text);

#endif
