/* Takes the memory of this rank's heap, and maps the heaps of the other ranks. Ranks of other processes map a heap by
 * a file descriptor that its owner sends them over a Unix socket. An IPC handle would need no socket, but kernels are
 * slower on memory that an IPC handle opened: with 8,192 tokens on 24 SMs of H200, a dispatch and a combine took 11 %
 * longer. If descriptors cannot be sent or mapped, all ranks use IPC handles. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm.h"

enum {
  SECONDS = 5,    /* how long a rank waits for a message */
  STRANGERS = 64, /* messages of other programs that a rank ignores */
};

typedef struct HeapMessage {
  Place place;
  uint64_t heap, context;
  uint64_t mapped;     /* bytes of the heap if it can be mapped by a descriptor, else 0 */
  int32_t device, pad;
  DrvIpcHandle handle; /* if mapped is 0 */
  char socket[8];      /* abstract name of the rank's socket */
} HeapMessage;

/* What a rank sends with its descriptor. Only a process that took part in the exchange knows the key. */
typedef struct Letter {
  uint64_t key;
  int32_t rank, pad;
} Letter;

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
  DrvResult r = has_descriptors(c) ? take_mapped_heap(c) : c->driver->alloc(heap, (size_t)c->at.bytes);
  return r == 0 ? EPCOMM_OK : comm_no_room(c, free_bytes);
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

void share_close(EpComm *c) {
  for (int r = 0; r < EPCOMM_MAX_RANKS; r++)
    if (c->opened[r]) close_rank(c, r);
}

/* Returns a socket with an abstract name that the kernel chooses, or -1. */
static int open_socket(char name[8]) {
  struct sockaddr_un a;
  socklen_t size = sizeof a.sun_family;
  const struct timeval limit = {SECONDS, 0};
  int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  memset(&a, 0, sizeof a);
  a.sun_family = AF_UNIX;
  int ok = s >= 0 && bind(s, (struct sockaddr *)&a, size) == 0;
  size = sizeof a;
  ok = ok && getsockname(s, (struct sockaddr *)&a, &size) == 0 && size > sizeof a.sun_family && size <= sizeof a.sun_family + 7;
  ok = ok && setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 && setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0;
  if (!ok) {
    if (s >= 0) close(s);
    return -1;
  }
  name[7] = (char)(size - sizeof a.sun_family);
  memcpy(name, a.sun_path, (size_t)name[7]);
  return s;
}

/* A message of one Letter and one descriptor. */
typedef struct Packet {
  Letter letter;
  struct iovec text;
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } room;
  struct msghdr head;
} Packet;

static void packet_init(Packet *p) {
  memset(p, 0, sizeof *p);
  p->text.iov_base = &p->letter;
  p->text.iov_len = sizeof p->letter;
  p->head.msg_iov = &p->text;
  p->head.msg_iovlen = 1;
  p->head.msg_control = p->room.bytes;
  p->head.msg_controllen = CMSG_LEN(sizeof(int)); /* no room for a second descriptor */
}

static int send_file(int socket, const char name[8], Letter letter, int file) {
  struct sockaddr_un a;
  Packet p;
  packet_init(&p);
  p.letter = letter;
  memset(&a, 0, sizeof a);
  a.sun_family = AF_UNIX;
  memcpy(a.sun_path, name, (size_t)name[7]);
  p.head.msg_name = &a;
  p.head.msg_namelen = (socklen_t)(sizeof a.sun_family + (size_t)name[7]);
  struct cmsghdr *c = CMSG_FIRSTHDR(&p.head);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(c), &file, sizeof file);
  return sendmsg(socket, &p.head, MSG_NOSIGNAL) == (ssize_t)sizeof p.letter;
}

/* Waits for a message. Returns its descriptor, or -1 if none came in time. A message without a descriptor, or of
 * another size, comes from a stranger: its letter gets rank -1. */
static int receive_file(int socket, Letter *letter) {
  Packet p;
  int file = -1;
  packet_init(&p);
  ssize_t n;
  do n = recvmsg(socket, &p.head, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n < 0) return -1;
  struct cmsghdr *c = CMSG_FIRSTHDR(&p.head);
  if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof file))
    memcpy(&file, CMSG_DATA(c), sizeof file);
  *letter = p.letter;
  if (file < 0 || n != (ssize_t)sizeof p.letter) letter->rank = -1;
  return file < 0 ? socket : file;
}

static int in_this_process(const HeapMessage *m, const HeapMessage *mine) {
  return memcmp(m->place.process, mine->place.process, sizeof mine->place.process) == 0;
}

static int on_this_host(const HeapMessage *m, const HeapMessage *mine) {
  return strncmp(m->place.host, mine->place.host, sizeof mine->place.host) == 0;
}

/* Returns whether a rank's heap comes by a descriptor. */
static int by_file(const EpComm *c, const HeapMessage *all, int rank) {
  const HeapMessage *m = &all[rank], *mine = &all[c->options.rank];
  return rank != c->options.rank && c->gathers >> rank & 1 && m->mapped != 0 && on_this_host(m, mine) && !in_this_process(m, mine);
}

/* Sends this rank's descriptor to the ranks of other processes. Returns whether all were sent. */
static int send_files(EpComm *c, const HeapMessage *all, int socket) {
  const HeapMessage *mine = &all[c->options.rank];
  const Letter letter = {mine->place.process[0], c->options.rank, 0};
  int file = -1, ok = 1;
  if (mine->mapped == 0) return 1;
  if (c->driver->memory_export(&file, c->memory, DRV_BY_FILE, 0) != 0) return 0;
  for (int r = 0; r < c->options.ranks; r++)
    if (by_file(c, all, r)) ok &= send_file(socket, all[r].socket, letter, file);
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

/* Receives the descriptors of all ranks in `wanted`, a set of ranks, and maps the heaps that are not open yet. Returns
 * whether all came and could be mapped. */
static int receive_files(EpComm *c, const HeapMessage *all, int socket, uint64_t wanted) {
  int ok = 1;
  for (int left = STRANGERS; wanted != 0 && left > 0; left--) {
    Letter letter;
    const int file = receive_file(socket, &letter);
    if (file < 0) return 0;
    const int rank = letter.rank;
    const int known = rank >= 0 && rank < c->options.ranks && wanted >> rank & 1 && letter.key == all[rank].place.process[0];
    if (known) {
      if (c->heap[rank] == 0) ok &= open_file(c, rank, &all[rank], file);
      wanted &= ~((uint64_t)1 << rank);
      left++;
    }
    if (file != socket) close(file);
  }
  return ok && wanted == 0;
}

/* Exchanges descriptors with the ranks of other processes. Returns whether all heaps are mapped. */
static int exchange_files(EpComm *c, const HeapMessage *all, int socket) {
  uint64_t wanted = 0;
  int sockets = socket >= 0;
  for (int r = 0; r < c->options.ranks; r++) {
    if (!by_file(c, all, r)) continue;
    wanted |= (uint64_t)1 << r;
    sockets &= all[r].socket[7] != 0;
  }
  if (wanted == 0) return 1;
  return sockets && send_files(c, all, socket) && receive_files(c, all, socket, wanted);
}

static EpcommStatus open_near(EpComm *c, int rank, const HeapMessage *m) {
  int can = 0;
  c->heap[rank] = m->heap;
  if (m->device == c->options.device) return EPCOMM_OK;
  DrvResult r = c->driver->can_access_peer(&can, c->device, (DrvDevice)m->device);
  if (r == 0 && !can)
    return comm_say(c, EPCOMM_MACHINE, "GPU %d cannot address GPU %d of rank %d; choose GPUs that are linked", c->options.device,
                    (int)m->device, rank);
  if (r == 0) r = m->mapped != 0 ? allow(c, m->heap, m->mapped) : c->driver->enable_peer((DrvContext)(uintptr_t)m->context, 0);
  return r == 0 || r == DRV_PEER_ALREADY ? EPCOMM_OK : comm_driver_error(c, r, "enable peer access");
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

/* Returns whether a rank's heap is open already. If the rank has another process or heap than before, closes its old
 * heap. */
static int is_open(EpComm *c, int rank, const HeapMessage *m) {
  if (c->heap[rank] == 0) return 0;
  if (memcmp(&c->places[rank], &m->place, sizeof m->place) == 0 && (c->opened[rank] ? c->handles[rank] : c->heap[rank]) == m->heap) return 1;
  close_rank(c, rank);
  return 0;
}

/* Opens the heaps that need no descriptor, and closes those that their ranks have left. */
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

static EpcommStatus tell(EpComm *c, EpcommStatus status, HeapMessage *all, int *socket) {
  const int own = c->options.rank;
  HeapMessage mine;
  memset(&mine, 0, sizeof mine);
  mine.place = comm_place();
  mine.heap = c->heap[own];
  mine.context = (uint64_t)(uintptr_t)c->context;
  mine.device = c->options.device;
  mine.mapped = c->mapped[own];
  if (mine.mapped != 0) *socket = open_socket(mine.socket);
  if (status == EPCOMM_OK && c->options.ranks > 1 && mine.mapped == 0) {
    DrvResult r = c->driver->ipc_handle(&mine.handle, c->heap[own]);
    if (r != 0) status = comm_driver_error(c, r, "cuIpcGetMemHandle");
  }
  return exchange(c, STEP_CREATE, status, &mine, all, sizeof mine);
}

/* Takes the heap again, as memory that IPC handles can share. */
static EpcommStatus retake(EpComm *c) {
  share_close(c);
  for (int r = 0; r < c->options.ranks; r++)
    if (r != c->options.rank) c->heap[r] = 0;
  share_give(c);
  c->plain = 1;
  EpcommStatus s = share_take(c);
  return s == EPCOMM_OK ? heap_fill(c) : s;
}

/* Tells the ranks whether this rank has mapped all heaps. If a rank has not, all ranks use IPC handles. A rank that is
 * running keeps its heap, because its graphs hold addresses of the heap. */
static EpcommStatus settle(EpComm *c, EpcommStatus s, int ok, int running) {
  int32_t failed[EPCOMM_MAX_RANKS] = {0}, mine = !ok, rank = -1;
  s = exchange(c, STEP_CREATE, s, &mine, failed, sizeof mine);
  for (int r = 0; r < c->options.ranks && s == EPCOMM_OK; r++)
    if (c->gathers >> r & 1 && failed[r]) rank = r;
  if (s != EPCOMM_OK || rank < 0) return s;
  if (running) return comm_say(c, EPCOMM_MACHINE, "rank %d cannot map the heap of another rank; start ranks with one network namespace, or start all ranks again", rank);
  return share_heaps(c, retake(c), 0);
}

EpcommStatus share_heaps(EpComm *c, EpcommStatus status, int running) {
  HeapMessage all[EPCOMM_MAX_RANKS];
  int socket = -1, any = 0, ok = 1;
  memset(all, 0, sizeof all);
  EpcommStatus s = tell(c, status, all, &socket);
  const int told = s == EPCOMM_OK;
  for (int r = 0; r < c->options.ranks && told; r++) any |= c->gathers >> r & 1 && all[r].mapped != 0;
  if (s == EPCOMM_OK) s = open_others(c, all);
  if (told && any) ok = exchange_files(c, all, socket);
  if (socket >= 0) close(socket);
  return told && any ? settle(c, s, ok, running) : s;
}
