/* A libnvshmem_host for ranks that are processes of this host. Its network delays and reorders operations, but a put's
 * bytes arrive before the word that the put sets.
 *
 * Environment variables:
 *   EMUL_NET_US   longest delay of an operation in us, 300 unless set
 *   EMUL_NVSHMEM  reported version, 3.8.0 unless set */
#include <fcntl.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Group {
  std::atomic<uint32_t> arrived, generation;
};

struct Heap {
  size_t bytes;
  std::vector<uint8_t *> of; /* of[r]: rank r's heap in this process */
};

std::string name;
int me, all;
Group *group;
uint32_t made;
std::map<uint8_t *, Heap> heaps; /* by the address of this rank's own heap */

void *map(const std::string &path, size_t bytes) {
  int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  void *p = fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (fd >= 0) close(fd);
  return p == MAP_FAILED ? nullptr : p;
}

void barrier() {
  uint32_t seen = group->generation;
  if (++group->arrived == static_cast<uint32_t>(all)) {
    group->arrived = 0;
    group->generation++;
    return;
  }
  while (group->generation == seen) usleep(200);
}

/* Returns the address in the heap of `rank` that corresponds to p, or null if p is in no heap. */
uint8_t *there(const void *p, int rank) {
  uint8_t *at = static_cast<uint8_t *>(const_cast<void *>(p));
  auto it = heaps.upper_bound(at);
  if (it == heaps.begin()) return nullptr;
  --it;
  if (at >= it->first + it->second.bytes) return nullptr;
  return it->second.of[static_cast<size_t>(rank)] + (at - it->first);
}

/* ---- the network ---- */

struct Operation {
  void *to;
  const void *from;
  size_t bytes;
  uint64_t *word, value;
  int add;
  std::chrono::steady_clock::time_point due;
};

/* Never destroyed, because the network's thread never ends. */
std::mutex &lock = *new std::mutex;
std::condition_variable &wake = *new std::condition_variable, &calm = *new std::condition_variable;
std::vector<Operation> &flying = *new std::vector<Operation>;
size_t busy;
std::mt19937_64 chance;

void deliver(const Operation &o) {
  if (o.bytes) memcpy(o.to, o.from, o.bytes);
  if (o.add) {
    __atomic_fetch_add(o.word, o.value, __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(o.word, o.value, __ATOMIC_RELEASE);
  }
}

void carry() {
  std::unique_lock<std::mutex> hold(lock);
  for (;;) {
    if (flying.empty()) {
      wake.wait(hold);
      continue;
    }
    auto first = std::min_element(flying.begin(), flying.end(), [](const Operation &a, const Operation &b) { return a.due < b.due; });
    if (first->due > std::chrono::steady_clock::now()) {
      wake.wait_until(hold, first->due);
      continue;
    }
    Operation o = *first;
    *first = flying.back();
    flying.pop_back();
    busy++;
    hold.unlock();
    deliver(o);
    hold.lock();
    busy--;
    if (flying.empty() && busy == 0) calm.notify_all();
  }
}

void launch(Operation o) {
  static int longest = getenv("EMUL_NET_US") ? atoi(getenv("EMUL_NET_US")) : 300;
  std::lock_guard<std::mutex> hold(lock);
  o.due = std::chrono::steady_clock::now() + std::chrono::microseconds(chance() % static_cast<uint64_t>(longest + 1));
  flying.push_back(o);
  wake.notify_one();
}

uint64_t *word_there(uint64_t *word, int rank) {
  uint64_t *w = reinterpret_cast<uint64_t *>(there(word, rank));
  if (!w) {
    fprintf(stderr, "emulated network: %p is not in the symmetric heap\n", static_cast<void *>(word));
    abort();
  }
  return w;
}

} // namespace

extern "C" {

void emul_net_put(void *to, const void *from, size_t bytes, uint64_t *word, uint64_t value, int add, int rank) {
  uint8_t *at = there(to, rank);
  if (!at || !there(from, me)) { /* network cards read only registered memory */
    fprintf(stderr, "emulated network: a put from %p to %p: one of them is not in the symmetric heap\n", from, to);
    abort();
  }
  launch({at, from, bytes, word_there(word, rank), value, add, {}});
}
void emul_net_signal(uint64_t *word, uint64_t value, int add, int rank) { launch({nullptr, nullptr, 0, word_there(word, rank), value, add, {}}); }
void emul_net_quiet(void) {
  std::unique_lock<std::mutex> hold(lock);
  calm.wait(hold, [] { return flying.empty() && busy == 0; });
}

/* ---- NVSHMEM's host interface ---- */

void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch) {
  const char *other = getenv("EMUL_NVSHMEM");
  sscanf(other ? other : "3.8.0", "%d.%d.%d", major, minor, patch);
}
int nvshmemx_get_uniqueid(char *id) {
  snprintf(id + 4, 120, "/dev/shm/epbench-emul-%d-%08x", getpid(), static_cast<unsigned>(std::random_device()()));
  return 0;
}
int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const char *id, void *) {
  name = id + 4;
  me = rank;
  all = ranks;
  return 0;
}
int nvshmemx_hostlib_init_attr(unsigned, void *) {
  Dl_info self; /* lets kernels' modules find this library */
  if (dladdr(reinterpret_cast<void *>(emul_net_put), &self)) dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  group = static_cast<Group *>(map(name, sizeof(Group)));
  if (!group) return 1;
  chance.seed(static_cast<uint64_t>(me) + 7);
  std::thread(carry).detach();
  barrier();
  if (me == 0) unlink(name.c_str());
  return 0;
}
int nvshmemx_init_status(void) { return group ? 2 : 0; }
void *nvshmem_malloc(size_t bytes) {
  Heap h{(bytes + 4095) / 4096 * 4096, {}};
  std::string prefix = name + "-" + std::to_string(made++) + "-";
  for (int r = 0; r < all; r++) h.of.push_back(static_cast<uint8_t *>(map(prefix + std::to_string(r), h.bytes)));
  barrier();
  unlink((prefix + std::to_string(me)).c_str());
  if (std::find(h.of.begin(), h.of.end(), nullptr) != h.of.end()) return nullptr;
  uint8_t *own = h.of[static_cast<size_t>(me)];
  heaps[own] = h;
  return own;
}
void nvshmem_free(void *p) {
  emul_net_quiet();
  barrier();
  auto it = heaps.find(static_cast<uint8_t *>(p));
  if (it == heaps.end()) return;
  for (uint8_t *q : it->second.of) munmap(q, it->second.bytes);
  heaps.erase(it);
}
void *nvshmem_ptr(const void *p, int rank) { return there(p, rank); }
int nvshmemx_cumodule_init(void *) { return 0; }
int nvshmemx_cumodule_finalize(void *) { return 0; }
void nvshmemx_quiet_on_stream(void *) { emul_net_quiet(); }
/* Ends the process. The real function does not wait for puts of kernels, so its use in our code is a mistake. */
void nvshmem_quiet(void) {
  fprintf(stderr, "emulated network: nvshmem_quiet on the host does not wait for kernels' puts; use nvshmemx_quiet_on_stream\n");
  abort();
}

/* ---- libnvJitLink; a link returns its first input ---- */

int nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = 13; *minor = 0; return 0; }
int nvJitLinkCreate(void **h, unsigned, const char **) { *h = new std::string; return 0; }
int nvJitLinkDestroy(void **h) { delete static_cast<std::string *>(*h); return 0; }
int nvJitLinkAddData(void *h, int, const void *data, size_t n, const char *) {
  std::string *s = static_cast<std::string *>(h);
  if (s->empty()) s->assign(static_cast<const char *>(data), n);
  return 0;
}
int nvJitLinkComplete(void *) { return 0; }
int nvJitLinkGetErrorLogSize(void *, size_t *n) { *n = 0; return 0; }
int nvJitLinkGetErrorLog(void *, char *) { return 0; }
int nvJitLinkGetInfoLogSize(void *, size_t *n) { *n = 0; return 0; }
int nvJitLinkGetInfoLog(void *, char *) { return 0; }
int nvJitLinkGetLinkedCubinSize(void *h, size_t *n) { *n = static_cast<std::string *>(h)->size(); return 0; }
int nvJitLinkGetLinkedCubin(void *h, void *p) { memcpy(p, static_cast<std::string *>(h)->data(), static_cast<std::string *>(h)->size()); return 0; }

} // extern "C"
