/* Joins ranks on several nodes by NVSHMEM. NVSHMEM allocates their heaps. A process never leaves NVSHMEM's group,
 * because nvshmem_finalize waits for all ranks, even for dead ones. nvshmem_free waits for all ranks too, so we call it
 * only after an exchange with all ranks. */
#include <pthread.h>
#include <stdlib.h>

#include "comm.h"
#include "ep_nvshmem.h"

static struct {
  EpShmem library;
  EpShmemID id;
  int rank, ranks;
  int joined;
  int lost;
  uint64_t spare; /* bytes of freed heaps; NVSHMEM keeps this memory for the next heap */
} group;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static void library_path(const EpComm *c, char *path, size_t bytes) {
  const char *folder = c->options.nvshmem != NULL ? c->options.nvshmem : getenv(EP_SHMEM_FOLDER);
  if (folder == NULL || folder[0] == 0) snprintf(path, bytes, "%s", EP_SHMEM_LIBRARY);
  else snprintf(path, bytes, "%s/lib/%s", folder, EP_SHMEM_LIBRARY);
}

static EpcommStatus load(EpComm *c) {
  const uint32_t *want = c->pack.hosts->network;
  char path[300], why[160];
  if (group.library.library != NULL) return EPCOMM_OK;
  library_path(c, path, sizeof path);
  if (ep_shmem_load(&group.library, path, why, sizeof why) == 0) return EPCOMM_OK;
  group.library.library = NULL;
  return comm_say(c, EPCOMM_NETWORK, "cannot load NVSHMEM (%s): install it by pip install nvidia-nvshmem-cu13==%u.%u.%u, or by make cuda-deps "
                  "NVSHMEM=1; then set options.nvshmem or the environment variable %s to the folder that contains NVSHMEM's lib/",
                  why, want[0], want[1], want[2], EP_SHMEM_FOLDER);
}

static EpcommStatus check_version(EpComm *c) {
  const uint32_t *want = c->pack.hosts->network;
  int have[3] = {0, 0, 0};
  group.library.version(&have[0], &have[1], &have[2]);
  if (have[0] == (int)want[0] && have[1] == (int)want[1] && have[2] == (int)want[2]) return EPCOMM_OK;
  return comm_say(c, EPCOMM_NETWORK, "NVSHMEM %d.%d.%d is installed, but the pack's kernels are linked to %u.%u.%u: pip install "
                  "nvidia-nvshmem-cu13==%u.%u.%u, or make the pack again with this NVSHMEM", have[0], have[1], have[2], want[0], want[1], want[2],
                  want[0], want[1], want[2]);
}

EpcommStatus network_open(EpComm *c) {
  pthread_mutex_lock(&loading);
  EpcommStatus s = load(c);
  if (s == EPCOMM_OK) s = check_version(c);
  pthread_mutex_unlock(&loading);
  if (s != EPCOMM_OK || !group.joined) return s;
  if (group.lost)
    return comm_say(c, EPCOMM_NETWORK, "NVSHMEM: ranks of this process's group are gone, and a process cannot join a second group; start all "
                    "ranks again");
  if (group.rank == c->options.rank && group.ranks == c->options.ranks) return EPCOMM_OK;
  return comm_say(c, EPCOMM_NETWORK, "NVSHMEM: this process has joined as rank %d of %d and cannot be rank %d of %d", group.rank,
                  group.ranks, c->options.rank, c->options.ranks);
}

typedef struct Hello {
  Place place;
  EpShmemID id; /* group that this process has joined; rank 0 makes a new group if it has joined none */
  int32_t joined, pad;
} Hello;

static EpcommStatus check_hello(EpComm *c, const Hello *all) {
  int ranks = c->options.ranks, each = ranks / c->nodes;
  for (int b = 0; b < ranks; b++) {
    int a = b / each * each;
    if (strncmp(all[a].place.host, all[b].place.host, sizeof all[a].place.host) != 0)
      return comm_say(c, EPCOMM_MACHINE, "ranks %d and %d are on different hosts, but with %d nodes of %d ranks they must be on one host: "
                      "rank r belongs on node r / %d", a, b, c->nodes, each, each);
    for (int p = 0; p < b; p++)
      if (memcmp(all[p].place.process, all[b].place.process, sizeof all[p].place.process) == 0)
        return comm_say(c, EPCOMM_INVALID, "ranks %d and %d are in one process; with several nodes each rank must be a separate process", p, b);
    if (all[b].joined != all[0].joined || (all[0].joined && memcmp(&all[b].id, &all[0].id, sizeof all[b].id) != 0))
      return comm_say(c, EPCOMM_NETWORK, "NVSHMEM: ranks 0 and %d are of different groups; start all ranks again", b);
  }
  return EPCOMM_OK;
}

static EpcommStatus enter(EpComm *c, const EpShmemID *id) {
  int rank = c->options.rank, ranks = c->options.ranks, r = ep_shmem_join(&group.library, id, rank, ranks);
  if (r != 0)
    return comm_say(c, EPCOMM_NETWORK, "NVSHMEM: rank %d of %d could not join: error %d; NVSHMEM_DEBUG=INFO tells more; without "
                    "InfiniBand set NVSHMEM_REMOTE_TRANSPORT=none if all ranks are on one host", rank, ranks, r);
  group.id = *id;
  group.rank = rank;
  group.ranks = ranks;
  group.joined = 1;
  return EPCOMM_OK;
}

EpcommStatus network_join(EpComm *c) {
  Hello mine, all[EPCOMM_MAX_RANKS];
  EpcommStatus s = EPCOMM_OK;
  memset(&mine, 0, sizeof mine);
  memset(all, 0, sizeof all);
  mine.place = comm_place();
  mine.joined = group.joined;
  mine.id = group.id;
  if (!group.joined && c->options.rank == 0 && ep_shmem_unique(&group.library, &mine.id) != 0)
    s = comm_say(c, EPCOMM_NETWORK, "NVSHMEM: no unique id; NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME chooses the network interface");
  s = exchange(c, STEP_CREATE, s, &mine, all, sizeof mine);
  if (s == EPCOMM_OK) s = check_hello(c, all);
  if (s != EPCOMM_OK) return s;
  if (!group.joined) s = enter(c, &all[0].id);
  return exchange(c, STEP_CREATE, s, NULL, NULL, 0);
}

/* Checks the free memory before nvshmem_malloc. If one rank's memory is too small, nvshmem_malloc never returns on the
 * other ranks. */
static EpcommStatus check_room(EpComm *c) {
  size_t free_bytes = 0, total = 0;
  DrvResult r = c->driver->memory_info(&free_bytes, &total);
  if (r != 0) return comm_driver_error(c, r, "memory");
  return free_bytes + group.spare >= c->at.bytes ? EPCOMM_OK : comm_no_room(c, free_bytes + group.spare);
}

static EpcommStatus find_heaps(EpComm *c) {
  int each = c->options.ranks / c->nodes, first = c->options.rank / each * each;
  void *own = comm_heap(c);
  for (int r = first; r < first + each; r++) {
    c->heap[r] = (DrvPointer)(uintptr_t)group.library.peer(own, r);
    if (c->heap[r] == 0)
      return comm_say(c, EPCOMM_MACHINE, "GPU %d cannot address the heap of rank %d on the same node; make a pack with more --nodes than %d, so that "
                      "these ranks are on different nodes, and set options.nodes to the same number", c->options.device, r, c->nodes);
  }
  return EPCOMM_OK;
}

/* Allocates the heap. If only some ranks get memory, they do not free it, because nvshmem_free waits for all ranks. */
EpcommStatus network_take(EpComm *c, EpcommStatus s) {
  DrvPointer *own = &c->heap[c->options.rank];
  if (s == EPCOMM_OK) s = check_room(c);
  s = exchange(c, STEP_CREATE, s, NULL, NULL, 0);
  if (s != EPCOMM_OK) return s;
  *own = (DrvPointer)(uintptr_t)group.library.alloc((size_t)c->at.bytes);
  if (*own == 0)
    s = comm_say(c, EPCOMM_NETWORK, "NVSHMEM could not allocate %llu bytes of symmetric memory; NVSHMEM_SYMMETRIC_SIZE sets how much there is",
                 (unsigned long long)c->at.bytes);
  s = exchange(c, STEP_CREATE, s, NULL, NULL, 0);
  if (s != EPCOMM_OK) {
    *own = 0;
    return s;
  }
  group.spare = group.spare > c->at.bytes ? group.spare - c->at.bytes : 0;
  return find_heaps(c);
}

void network_give(EpComm *c) {
  DrvPointer own = c->heap[c->options.rank];
  if (own == 0) return;
  group.library.free((void *)(uintptr_t)own);
  group.spare += c->at.bytes;
}

void network_abandon(EpComm *c) {
  (void)c;
  if (group.joined) group.lost = 1;
}

EpcommStatus network_module(EpComm *c, DrvModule module) {
  int r = group.library.add_module(module);
  return r == 0 ? EPCOMM_OK : comm_say(c, EPCOMM_NETWORK, "NVSHMEM: error %d while it registered a module", r);
}

void network_drop(DrvModule module) { group.library.drop_module(module); }

EpcommStatus network_table(EpComm *c) {
  uint64_t table[EPCOMM_MAX_RANKS];
  for (int r = 0; r < c->options.ranks; r++) table[r] = c->heap[r];
  DrvResult r = c->driver->upload(c->heap[c->options.rank] + c->at.world, table, sizeof *table * (size_t)c->options.ranks);
  if (r == 0) r = c->driver->context_wait(); /* an upload from pageable memory may return before the copy ends */
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "upload the table of heaps");
}

EpcommStatus network_settle(EpComm *c) {
  group.library.quiet_on_stream(NULL);
  DrvResult r = c->driver->context_wait();
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "wait for the network");
}
