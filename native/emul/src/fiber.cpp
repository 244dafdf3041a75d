#include "fiber.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <vector>

#include "stacks.h"
#include "switch.h"

/* Tells the race detector (ThreadSanitizer) about fibers, barriers and fences. */
#ifdef EP_EMUL_TSAN
#include <sanitizer/tsan_interface.h>
#define EMUL_FIBER_CURRENT() __tsan_get_current_fiber()
#define EMUL_FIBER_SWITCH(f) __tsan_switch_to_fiber(f, __tsan_switch_to_fiber_no_sync)
#define EMUL_ACQUIRE(p) __tsan_acquire(const_cast<void *>(static_cast<const void *>(p)))
#define EMUL_RELEASE(p) __tsan_release(const_cast<void *>(static_cast<const void *>(p)))
extern "C" void AnnotateIgnoreReadsBegin(const char *file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char *file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char *file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char *file, int line);
#else
#define EMUL_FIBER_CURRENT() nullptr
#define EMUL_FIBER_SWITCH(f) (void)(f)
#define EMUL_ACQUIRE(p) (void)(p)
#define EMUL_RELEASE(p) (void)(p)
#endif

namespace {

/* While an object of this type exists, the race detector does not watch this thread. It is for data of the emulator
 * that all fibers of a block use. */
struct Unwatched {
#ifdef EP_EMUL_TSAN
  Unwatched() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unwatched() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unwatched() {}
#endif
};

struct Barrier {
  uint32_t key = 0; /* mask of lanes, or number of a block's barrier */
  uint32_t arrived = 0;
  uint32_t want = 0; /* threads that must arrive; 0: all running threads */
  uint64_t generation = 0;
  int op = 0; /* EmulOp, or 0 for a block's barrier */
  uint64_t slots[2][32]; /* lanes' values; slots[generation & 1] is in use */
};

const int remembered = 16;

/* A bulk store. emul_bulk_wait performs it, as late as possible. */
struct BulkStore {
  void *to;
  const void *from;
  uint32_t bytes, group;
  std::vector<uint8_t> data;
};

/* A bulk load, performed when a thread polls `bar`. */
struct BulkLoad {
  void *to;
  const void *from;
  uint32_t bytes;
  uint64_t *bar;
};

/* A fiber that made fewer than busy_steps steps since its last emul_spin counts as polling. */
const uint32_t busy_steps = 32;

/* The scheduler reads the first five members of every fiber in every pass, so they share a cache line. */
struct alignas(64) Fiber {
  EmulContext context;
  Barrier *waits = nullptr;
  uint64_t generation = 0;
  bool done = false;
  uint32_t steps = busy_steps;
  EmulThread id;
  void *tsan = nullptr;
  const void *reads[remembered] = {}; /* last atomic reads; a fence makes them acquires */
  uint32_t read = 0;
  std::vector<BulkStore> stores;
  uint32_t group = 0;
  bool fenced = false; /* fenced since the last barrier: atomic writes are releases */
};

struct Warp {
  std::vector<Barrier *> masks;
};

struct Block {
  const EmulLaunch *launch;
  const std::function<void()> *kernel;
  uint32_t index;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier bars[16];
  Stacks stacks;
  uint8_t *shared;
  EmulContext scheduler;
  void *tsan = nullptr;
  Fiber *running = nullptr;
  std::vector<BulkLoad> loads;
  uint32_t alive;
  uint64_t random;
};

thread_local Block *block;

uint64_t next_random() {
  uint64_t x = block->random;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return block->random = x;
}

/* Switches to the scheduler. Returns when the scheduler picks this fiber again. */
void leave() {
  Fiber *self = block->running;
  EMUL_FIBER_SWITCH(block->tsan);
  emul_jump(&self->context, &block->scheduler);
}

bool blocked(const Fiber &f) { return f.waits && f.waits->generation == f.generation; }

[[noreturn]] void report_deadlock() {
  fprintf(stderr, "emul: %s block %u: no thread can run\n", block->launch->name, block->index);
  for (Fiber &f : block->fibers) {
    if (f.done || !f.waits) continue;
    Barrier *b = f.waits;
    fprintf(stderr, "  thread %u waits at %s %08x: %u of %u threads have arrived\n", f.id.thread.x,
            b->op ? "collective of lanes" : "barrier", b->key, b->arrived, b->want ? b->want : block->alive);
  }
  abort();
}

void complete(Barrier *b) {
  b->arrived = 0;
  b->generation++;
}

void retire(Fiber *f) {
  f->done = true;
  block->alive--;
  Barrier *all = &block->bars[0];
  if (block->alive && all->arrived >= block->alive) complete(all);
}

void fiber_main() {
  EMUL_ACQUIRE(block);
  (*block->kernel)();
  emul_bulk_commit();
  emul_bulk_wait(0, true);
  EMUL_RELEASE(block);
  retire(block->running);
  leave();
  abort();
}

void arrive(Barrier *b) {
  Fiber *self = block->running;
  self->steps++;
  self->waits = b;
  self->fenced = false;
  self->generation = b->generation;
  EMUL_RELEASE(b);
  uint32_t want = b->want ? b->want : block->alive;
  if (++b->arrived >= want) complete(b);
  while (blocked(*self)) leave();
  EMUL_ACQUIRE(b);
  self->waits = nullptr;
}

Barrier *mask_barrier(uint32_t mask) {
  Warp &w = block->warps[emul_self->thread.x >> 5];
  for (Barrier *b : w.masks)
    if (b->key == mask) return b;
  Barrier *b = new Barrier;
  b->key = mask;
  b->want = static_cast<uint32_t>(__builtin_popcount(mask));
  w.masks.push_back(b);
  return b;
}

void run_fiber(Fiber *f) {
  block->running = f;
  emul_self = &f->id;
  EMUL_FIBER_SWITCH(f->tsan);
  emul_jump(&block->scheduler, &f->context);
}

/* Gives each fiber a turn, in random order. Returns whether any fiber did more than poll. */
bool pass() {
  size_t n = block->fibers.size();
  size_t start = next_random() % n, stride = next_random() % n;
  while (std::gcd(stride, n) != 1) stride++;
  bool ran = false, progress = false;
  /* A block has up to 1024 stacks, which are too many for the processor's caches. So a fiber's state and then its stack
   * are loaded some turns ahead. */
  Fiber *fibers = block->fibers.data();
  auto after = [=](size_t i, size_t turns) { return (i + turns * stride) % n; };
  size_t at = start, soon = after(start, 3), later = after(start, 8);
  auto advance = [=](size_t &i) { i += i + stride < n ? stride : stride - n; };
  for (size_t i = 0; i < n; i++, advance(at), advance(soon), advance(later)) {
    Fiber *f = &fibers[at];
    __builtin_prefetch(&fibers[later]);
    emul_prefetch(fibers[soon].context);
    if (f->done || blocked(*f)) continue;
    run_fiber(f);
    ran = true;
    progress |= f->steps >= busy_steps;
  }
  if (!ran && block->alive) report_deadlock();
  return progress;
}

/* Runnable threads of the host per processor, at least 1. */
std::atomic<double> crowding{1};

void read_load(uint64_t now) {
  static const int file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  static const double processors = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  static uint64_t read_at;
  if (file < 0 || now - read_at < 5'000'000) return;
  read_at = now;
  char text[80] = "";
  int running = 0;
  if (pread(file, text, sizeof text - 1, 0) > 0) sscanf(text, "%*f %*f %*f %d", &running);
  crowding = std::max({1.0, running / processors, crowding * 0.95});
}

void idle(int passes) {
  timespec nap{0, passes < 20 ? 20'000 : static_cast<long>(300'000 * crowding)};
  passes < 3 ? (void)sched_yield() : (void)nanosleep(&nap, nullptr);
}

StackPool pool;

void set_up(Block *b, const EmulLaunch &launch, uint32_t index) {
  uint32_t n = launch.block.x;
  b->launch = &launch;
  b->index = index;
  b->alive = n;
  b->random = (launch.seed + 1) * 0x9e3779b97f4a7c15ull ^ (index + 1) * 0xbf58476d1ce4e5b9ull;
  b->fibers.resize(n);
  b->warps.resize((n + 31) / 32);
  b->shared = static_cast<uint8_t *>(aligned_alloc(128, (launch.shared + 255) / 128 * 128));
  memset(b->shared, 0xa5, launch.shared);
  b->stacks = pool.take(n);
  for (uint32_t i = 0; i < n; i++) {
    Fiber &f = b->fibers[i];
    f.id = {{i, 0, 0}, {index, 0, 0}, launch.block, launch.grid};
    emul_prepare(&f.context, b->stacks.base + i * stack_bytes, stack_bytes, fiber_main);
    f.tsan = b->stacks.tsan[i];
  }
}

void tear_down(Block *b) {
  for (Warp &w : b->warps)
    for (Barrier *m : w.masks) delete m;
  pool.give(std::move(b->stacks));
  free(b->shared);
}

} // namespace

void emul_run_block(const EmulLaunch &launch, uint32_t index, const std::function<void()> &kernel) {
  Block b;
  set_up(&b, launch, index);
  b.kernel = &kernel;
  block = &b;
  b.tsan = EMUL_FIBER_CURRENT();
  if (launch.touch) launch.touch();
  EMUL_RELEASE(&b);
  for (int idle_passes = 0; b.alive;) {
    idle_passes = pass() ? 0 : idle_passes + 1;
    if (idle_passes) idle(idle_passes);
  }
  EMUL_ACQUIRE(&b);
  tear_down(&b);
  block = nullptr;
}

/* ---- the functions that cuda_emul.h declares ---- */

thread_local EmulThread *emul_self;

/* Lets another fiber run with probability 1/16. */
extern "C" void emul_point(void) {
  block->running->steps++;
  if ((next_random() & 15) == 0) leave();
}

extern "C" void emul_spin(void) {
  block->running->steps = 0;
  leave();
}

/* Tells the race detector that earlier atomic reads are acquires and later atomic writes are releases. To
 * the detector, data writes between a fence and the atomic write after it seem released, too. On a GPU they are not, so
 * the detector misses such races. */
extern "C" void emul_fence(void) {
  Fiber *self = block->running;
  for (const void *&p : self->reads) {
    if (p) EMUL_ACQUIRE(p);
    p = nullptr;
  }
  self->fenced = true;
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

extern "C" void emul_reads(const void *p) {
  emul_point();
  block->running->reads[block->running->read++ % remembered] = p;
}

extern "C" void emul_writes(const void *p) {
  emul_point();
  if (block->running->fenced) EMUL_RELEASE(p);
}

extern "C" void emul_updates(const void *p) {
  emul_writes(p);
  block->running->reads[block->running->read++ % remembered] = p;
}

/* Returns the device's time in ns. This time passes `crowding` times more slowly than the host's time, so that waits on
 * a busy host keep their deadlines. */
extern "C" uint64_t emul_time_ns(void) {
  static std::mutex reading;
  static uint64_t seen;
  static double shown;
  std::lock_guard<std::mutex> lock(reading);
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t now = static_cast<uint64_t>(t.tv_sec) * 1000000000ull + static_cast<uint64_t>(t.tv_nsec);
  read_load(now);
  shown += std::min(static_cast<double>(now - seen) / crowding, 40e6);
  seen = now;
  return static_cast<uint64_t>(shown);
}

extern "C" void emul_sleep(uint32_t) { emul_spin(); }

extern "C" uint8_t *emul_dynamic_shared(void) { return block->shared; }

extern "C" void emul_bar_sync(uint32_t id, uint32_t threads) {
  Barrier *b = &block->bars[id];
  b->key = id;
  b->want = threads;
  arrive(b);
}

extern "C" void emul_collect(uint32_t mask, int op, uint64_t in, uint64_t *out) {
  uint32_t lane = emul_self->thread.x & 31u;
  Barrier *b = mask_barrier(mask);
  if (!(mask >> lane & 1u) || (b->arrived && b->op != op)) {
    fprintf(stderr, "emul: %s block %u thread %u: collective %d with mask %08x meets collective %d\n",
            block->launch->name, block->index, emul_self->thread.x, op, mask, b->op);
    abort();
  }
  b->op = op;
  uint64_t *slots = b->slots[b->generation & 1];
  slots[lane] = in;
  arrive(b);
  if (op != EMUL_SYNC) memcpy(out, slots, sizeof b->slots[0]);
}

/* An mbarrier. Its phase ends when `bytes` and `pending` are 0. Then `pending` becomes `arrivals` again. */
namespace {
struct Mbar {
  int32_t bytes;
  uint16_t pending, arrivals : 15, phase : 1;
};
static_assert(sizeof(Mbar) == sizeof(uint64_t));

void settle(Mbar *m) {
  if (m->pending || m->bytes) return;
  m->phase ^= 1;
  m->pending = m->arrivals;
}
} // namespace

extern "C" void emul_mbar_init(uint64_t *bar, uint32_t arrivals) {
  const Unwatched own;
  Mbar m{0, static_cast<uint16_t>(arrivals), static_cast<uint16_t>(arrivals & 0x7fff), 0};
  memcpy(bar, &m, sizeof m);
}

extern "C" void emul_mbar_expect(uint64_t *bar, uint32_t bytes) {
  EMUL_RELEASE(bar);
  const Unwatched own;
  Mbar *m = reinterpret_cast<Mbar *>(bar);
  m->bytes += static_cast<int32_t>(bytes);
  m->pending--;
  settle(m);
}

namespace {
/* Takes the first load of `bar` from the list. At each load of the list it gives up with probability 1/2, and returns
 * false. */
bool take_load(const uint64_t *bar, BulkLoad *out) {
  const Unwatched own;
  for (size_t i = 0; i < block->loads.size() && (next_random() & 1); i++) {
    *out = block->loads[i];
    if (out->bar != bar) continue;
    block->loads.erase(block->loads.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }
  return false;
}

/* Counts `loaded` bytes as arrived. Returns whether the phase with this parity has ended. */
bool phase_ended(uint64_t *bar, uint32_t loaded, uint32_t parity) {
  const Unwatched own;
  Mbar *m = reinterpret_cast<Mbar *>(bar);
  m->bytes -= static_cast<int32_t>(loaded);
  if (loaded != 0) settle(m);
  return m->phase != parity;
}
} // namespace

extern "C" bool emul_mbar_try(uint64_t *bar, uint32_t parity) {
  for (BulkLoad l; take_load(bar, &l);) {
    EMUL_ACQUIRE(bar);
    memcpy(l.to, l.from, l.bytes);
    EMUL_RELEASE(bar);
    phase_ended(bar, l.bytes, parity);
  }
  if (!phase_ended(bar, 0, parity)) {
    emul_spin();
    return false;
  }
  EMUL_ACQUIRE(bar);
  return true;
}

extern "C" void emul_bulk_load(void *shared, const void *global, uint32_t bytes, uint64_t *bar) {
  emul_point();
  EMUL_RELEASE(bar);
  const Unwatched own;
  block->loads.push_back({shared, global, bytes, bar});
}

extern "C" void emul_bulk_store(void *global, const void *shared, uint32_t bytes) {
  emul_point();
  block->running->stores.push_back({global, shared, bytes, block->running->group, {}});
}

extern "C" void emul_bulk_commit(void) { block->running->group++; }

extern "C" void emul_bulk_wait(uint32_t groups_left, bool written) {
  Fiber *self = block->running;
  size_t kept = 0;
  for (BulkStore &s : self->stores) {
    bool due = s.group + groups_left < self->group;
    const uint8_t *from = static_cast<const uint8_t *>(s.from);
    if (due && s.data.empty()) s.data.assign(from, from + s.bytes);
    if (due && written) {
      memcpy(s.to, s.data.data(), s.bytes);
    } else {
      BulkStore keep = std::move(s);
      self->stores[kept++] = std::move(keep);
    }
  }
  self->stores.resize(kept);
}
