/* Takes the memory of this rank's heap, and maps the heaps of the other ranks. Ranks of other processes map a heap by
 * a file descriptor that its owner sends them over a Unix socket. An IPC handle would need no socket. But a kernel is
 * slower on memory that it reaches by an IPC handle: with 8,192 tokens on 24 SMs of H200, a dispatch and a combine took
 * 11 % longer. If descriptors cannot be sent or mapped, all ranks use IPC handles. */
#include <string.h>
#include <unistd.h>

#include "comm.h"
#include "letters.h"

typedef struct HeapMessage {
  Place place;
  uint64_t heap, context;
  uint64_t mapped;     /* bytes of the heap if it can be mapped by a descriptor, else 0 */
  int32_t device, pad;
  DrvIpcHandle handle; /* valid only if mapped is 0 */
  LetterBox box;       /* where this rank receives descriptors */
} HeapMessage;

static void unmap(const EpComm *c, DrvPointer at, uint64_t bytes) {
  c->driver->unmap(at, (size_t)bytes);
  c->driver->address_free(at, (size_t)bytes);
}

/* Lets this rank's GPU use mapped memory. */
static DrvResult allow(const EpComm *c, DrvPointer at, uint64_t bytes) {
  DrvAccess a = {{DRV_ON_DEVICE, c->device}, DRV_READ_WRITE};
  return c->driver->set_access(at, (size_t)bytes, &a, 1);
}

static DrvResult map(const EpComm *c, DrvPointer *at, DrvMemory memory, uint64_t bytes) {
  const Driver *d = c->driver;
  DrvPointer p = 0;
  DrvResult r = d->address_reserve(&p, (size_t)bytes, 0, 0, 0);
  if (r != 0) return r;
  r = d->map(p, (size_t)bytes, 0, memory, 0);
  if (r != 0) {
    d->address_free(p, (size_t)bytes);
    return r;
  }
  r = allow(c, p, bytes);
  if (r != 0) unmap(c, p, bytes);
  else *at = p;
  return r;
}

/* Returns whether this GPU has memory that processes can share by descriptors. */
static int has_descriptors(const EpComm *c) {
  int maps = 0, files = 0;
  if (c->options.ranks == 1 || c->plain) return 0;
  return c->driver->device_attribute(&maps, DRV_MAPS_MEMORY, c->device) == 0 && maps &&
         c->driver->device_attribute(&files, DRV_SHARES_BY_FILE, c->device) == 0 && files;
}

static DrvResult take_mapped_heap(EpComm *c) {
  const int own = c->options.rank;
  DrvMemoryKind kind;
  size_t unit = 0;
  memset(&kind, 0, sizeof kind);
  kind.type = DRV_PINNED;
  kind.handles = DRV_BY_FILE;
  kind.where.type = DRV_ON_DEVICE;
  kind.where.id = c->device;
  DrvResult r = c->driver->granularity(&unit, &kind, DRV_RECOMMENDED);
  if (r != 0) return r;
  const uint64_t bytes = (c->at.bytes + unit - 1) / unit * unit;
  r = c->driver->memory_create(&c->memory, (size_t)bytes, &kind, 0);
  if (r != 0) return r;
  r = map(c, &c->heap[own], c->memory, bytes);
  if (r != 0) c->driver->memory_release(c->memory);
  else c->mapped[own] = bytes;
  return r;
}

EpcommStatus share_take(EpComm *c) {
  size_t free_bytes = 0, total = 0;
  DrvPointer *heap = &c->heap[c->options.rank];
  c->driver->memory_info(&free_bytes, &total);
  *heap = 0;
  if (has_descriptors(c) && take_mapped_heap(c) == 0) return EPCOMM_OK;
  c->plain = 1;
  return c->driver->alloc(heap, (size_t)c->at.bytes) == 0 ? EPCOMM_OK : comm_no_room(c, free_bytes);
}

void share_give(EpComm *c) {
  const int own = c->options.rank;
  if (c->heap[own] == 0) return;
  if (c->mapped[own] == 0) {
    c->driver->free(c->heap[own]);
  } else {
    unmap(c, c->heap[own], c->mapped[own]);
    c->driver->memory_release(c->memory);
  }
  c->heap[own] = c->mapped[own] = 0;
}

static void close_rank(EpComm *c, int rank) {
  if (c->opened[rank] && c->mapped[rank] == 0) c->driver->ipc_close(c->heap[rank]);
  if (c->opened[rank] && c->mapped[rank] != 0) unmap(c, c->heap[rank], c->mapped[rank]);
  c->opened[rank] = 0;
  c->heap[rank] = c->mapped[rank] = 0;
}

void share_close(EpComm *c, uint64_t ranks) {
  for (int r = 0; r < EPCOMM_MAX_RANKS; r++)
    if (c->opened[r] && ranks >> r & 1) close_rank(c, r);
}

static int in_this_process(const HeapMessage *m, const HeapMessage *mine) {
  return memcmp(m->place.process, mine->place.process, sizeof mine->place.process) == 0;
}

static int on_this_host(const HeapMessage *m, const HeapMessage *mine) {
  return strncmp(m->place.host, mine->place.host, sizeof mine->place.host) == 0;
}

/* Returns whether `rank` runs in another process of this host. */
static int is_far(const EpComm *c, const HeapMessage *all, int rank) {
  const HeapMessage *m = &all[rank], *mine = &all[c->options.rank];
  if (rank == c->options.rank || !(c->gathers >> rank & 1)) return 0;
  return on_this_host(m, mine) && !in_this_process(m, mine);
}

/* Sends this rank's descriptor to the ranks of other processes. Returns whether all were sent. */
static int send_files(EpComm *c, const HeapMessage *all, int socket) {
  const HeapMessage *mine = &all[c->options.rank];
  const Letter letter = {mine->box.key, c->options.rank, 0};
  int file = -1, ok = 1;
  if (mine->mapped == 0) return 1;
  if (c->driver->memory_export(&file, c->memory, DRV_BY_FILE, 0) != 0) return 0;
  for (int r = 0; r < c->options.ranks; r++)
    if (is_far(c, all, r)) ok &= letter_send(socket, &all[r].box, letter, file);
  close(file);
  return ok;
}

/* Maps the heap of a rank, whose descriptor has come. */
static int open_file(EpComm *c, int rank, const HeapMessage *m, int file) {
  DrvMemory memory = 0;
  if (c->driver->memory_import(&memory, (void *)(intptr_t)file, DRV_BY_FILE) != 0) return 0;
  DrvResult r = map(c, &c->heap[rank], memory, m->mapped);
  c->driver->memory_release(memory); /* the mapping keeps the memory */
  if (r != 0) return 0;
  c->handles[rank] = m->heap;
  c->opened[rank] = 1;
  c->mapped[rank] = m->mapped;
  return 1;
}

/* Receives the descriptors of all ranks in `wanted`, a set of ranks, and maps the heaps that are not open yet. Ignores
 * letters of other programs. Returns whether all descriptors came and could be mapped. */
static int receive_files(EpComm *c, const HeapMessage *all, int socket, uint64_t wanted) {
  const int64_t end = letter_end();
  int ok = 1;
  while (wanted != 0) {
    Letter letter;
    const int file = letter_receive(socket, end, &letter);
    if (file < 0) return 0;
    const int rank = letter.rank;
    if (rank >= 0 && rank < c->options.ranks && wanted >> rank & 1 && letter.key == all[rank].box.key) {
      if (c->heap[rank] == 0) ok &= open_file(c, rank, &all[rank], file);
      wanted &= ~((uint64_t)1 << rank);
    }
    close(file);
  }
  return ok;
}

/* Exchanges descriptors with the ranks of other processes. Returns whether all were sent, came, and could be mapped. */
static int exchange_files(EpComm *c, const HeapMessage *all, int socket) {
  uint64_t wanted = 0;
  int letters = 0, sockets = socket >= 0;
  for (int r = 0; r < c->options.ranks; r++) {
    if (!is_far(c, all, r) || (all[r].mapped == 0 && c->mapped[c->options.rank] == 0)) continue;
    if (all[r].mapped != 0) wanted |= (uint64_t)1 << r;
    sockets &= all[r].box.key != 0;
    letters = 1;
  }
  if (!letters) return 1;
  return sockets && send_files(c, all, socket) && receive_files(c, all, socket, wanted);
}

static EpcommStatus open_near(EpComm *c, int rank, const HeapMessage *m) {
  int can = 0;
  DrvResult r = 0;
  if (m->device != c->options.device) {
    r = c->driver->can_access_peer(&can, c->device, (DrvDevice)m->device);
    if (r == 0 && !can)
      return comm_say(c, EPCOMM_MACHINE, "GPU %d cannot address GPU %d of rank %d; choose GPUs that are linked", c->options.device,
                      (int)m->device, rank);
    if (r == 0) r = m->mapped != 0 ? allow(c, m->heap, m->mapped) : c->driver->enable_peer((DrvContext)(uintptr_t)m->context, 0);
    if (r == DRV_PEER_ALREADY) r = 0;
  }
  if (r == 0) c->heap[rank] = m->heap;
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "enable peer access");
}

static EpcommStatus open_ipc(EpComm *c, int rank, const HeapMessage *m) {
  DrvPointer p = 0;
  DrvResult r = c->driver->ipc_open(&p, m->handle, DRV_IPC_PEER_ACCESS);
  if (r != 0) {
    char words[DRIVER_WORDS];
    driver_describe(c->driver, r, words);
    return comm_say(c, EPCOMM_MACHINE, "GPU %d cannot map the heap of rank %d: %s; both GPUs must be of one host, linked, and "
                    "visible to one IPC namespace", c->options.device, rank, words);
  }
  c->heap[rank] = p;
  c->handles[rank] = m->heap;
  c->opened[rank] = 1;
  return EPCOMM_OK;
}

/* Returns whether the heap of a rank that takes part in calls is open already. Closes the old heap of a rank that comes
 * back. Such a rank may have the same process and address, but another heap. */
static int is_open(EpComm *c, int rank, const HeapMessage *m) {
  if (c->heap[rank] == 0) return 0;
  if (c->alive >> rank & 1 && memcmp(&c->places[rank], &m->place, sizeof m->place) == 0 &&
      (c->opened[rank] ? c->handles[rank] : c->heap[rank]) == m->heap)
    return 1;
  close_rank(c, rank);
  return 0;
}

/* Opens the heaps that need no descriptor. Closes the old heaps of ranks that come back. */
static EpcommStatus open_others(EpComm *c, const HeapMessage *all) {
  const HeapMessage *mine = &all[c->options.rank];
  EpcommStatus s = EPCOMM_OK;
  for (int r = 0; r < c->options.ranks && s == EPCOMM_OK; r++) {
    if (r == c->options.rank || !(c->gathers >> r & 1) || is_open(c, r, &all[r])) continue;
    c->places[r] = all[r].place;
    if (!on_this_host(&all[r], mine))
      s = comm_say(c, EPCOMM_MACHINE, "rank %d is on another host, but these kernels reach only GPUs of one host; make a pack with --nodes", r);
    else if (in_this_process(&all[r], mine))
      s = open_near(c, r, &all[r]);
    else if (all[r].mapped == 0)
      s = open_ipc(c, r, &all[r]);
  }
  return s;
}

/* Exchanges what ranks must know to open each other's heaps. Opens this rank's socket, or sets it to -1. */
static EpcommStatus tell(EpComm *c, EpcommStatus status, HeapMessage *all, int *socket) {
  const int own = c->options.rank;
  HeapMessage mine;
  memset(&mine, 0, sizeof mine);
  mine.place = comm_place();
  mine.heap = c->heap[own];
  mine.context = (uint64_t)(uintptr_t)c->context;
  mine.device = c->options.device;
  mine.mapped = c->mapped[own];
  *socket = c->options.ranks > 1 ? letter_open(&mine.box) : -1;
  if (status == EPCOMM_OK && c->options.ranks > 1 && mine.mapped == 0) {
    DrvResult r = c->driver->ipc_handle(&mine.handle, c->heap[own]);
    if (r != 0) status = comm_driver_error(c, r, "cuIpcGetMemHandle");
  }
  return exchange(c, STEP_CREATE, status, &mine, all, sizeof mine);
}

typedef struct Outcome {
  int32_t failed;  /* 1: this rank has not mapped all heaps */
  int32_t running; /* 1: this rank has made calls, or joins ranks that have */
} Outcome;

/* Exchanges the outcomes. Sets a member of *sum if any rank has set it. Returns the common status. */
static EpcommStatus ask(EpComm *c, EpcommStatus s, const Outcome *mine, Outcome *sum) {
  Outcome all[EPCOMM_MAX_RANKS];
  memset(all, 0, sizeof all);
  s = exchange(c, STEP_CREATE, s, mine, all, sizeof *mine);
  for (int r = 0; r < c->options.ranks; r++) {
    if (!(c->gathers >> r & 1)) continue;
    sum->failed |= all[r].failed;
    sum->running |= all[r].running;
  }
  return s;
}

/* Takes new heaps on all ranks, and shares them by IPC handles. No rank takes a heap before all have closed the old
 * ones, because a GPU may not have memory for both. */
static EpcommStatus share_plainly(EpComm *c) {
  share_close(c, ~(uint64_t)0);
  for (int r = 0; r < c->options.ranks; r++)
    if (r != c->options.rank) c->heap[r] = 0;
  EpcommStatus s = exchange(c, STEP_CREATE, EPCOMM_OK, NULL, NULL, 0);
  share_give(c);
  c->plain = 1;
  if (s == EPCOMM_OK) s = share_take(c);
  if (s == EPCOMM_OK) s = heap_fill(c);
  return share_heaps(c, s, 0);
}

/* Opens the heaps of all ranks. All ranks make the same exchanges, whatever fails: of messages, and of outcomes. */
EpcommStatus share_heaps(EpComm *c, EpcommStatus status, int running) {
  HeapMessage all[EPCOMM_MAX_RANKS];
  Outcome mine = {0, running}, sum = {0, 0};
  int socket = -1;
  memset(all, 0, sizeof all);
  EpcommStatus s = tell(c, status, all, &socket);
  const int told = s == EPCOMM_OK;
  if (told) s = open_others(c, all);
  if (told) mine.failed = !exchange_files(c, all, socket);
  s = ask(c, s, &mine, &sum);
  /* Until all ranks have sent, the socket keeps its name. Otherwise another program could take the name. */
  if (socket >= 0) close(socket);
  if (s != EPCOMM_OK || !sum.failed) return s;
  if (sum.running)
    return comm_say(c, EPCOMM_MACHINE, "a rank cannot map the heap of another rank; start ranks with one network namespace, or start all ranks "
                    "again: running ranks keep their heaps");
  return share_plainly(c);
}
