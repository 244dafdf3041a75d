/* Runs emulated kernels. A line of stdin sets a value, adds a step, or is a command:
 *
 *   object FILE            shared object with the compiled device source
 *   arena FILE             memory of all ranks; keeps the results
 *   ranks N
 *   seed N                 decides the order of the fibers
 *   ptr RANK FIELD OFFSET  sets a field of EpArgs to arena + OFFSET; FIELD[i] is an element of an array
 *   set RANK FIELD VALUE   sets an integer field; RANK * means every rank
 *   fset RANK FIELD VALUE  sets a float field
 *   launch ENTRY GRID BLOCK SHARED [FIELD=VALUE ...]
 *                          step: launch an entry of the last object
 *   launch_silu ...        for an entry that takes EpSiluArgs, with fields silu.FIELD
 *   barrier                step: wait for all ranks
 *   wipe OFFSET BYTES      step: set all bits of a part of each rank's heap
 *   rounds N               gives the next rounds the numbers N+1, N+2, ...
 *   run N                  performs the steps N times
 *   clear                  removes the steps
 *   done                   prints "done"
 *
 * Ranks wait for each other only at barriers.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <barrier>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "ep_args.h"
#include "fiber.h"

namespace {

[[noreturn]] void fail(const std::string &what) {
  fprintf(stderr, "emul: %s\n", what.c_str());
  exit(2);
}

struct Field {
  size_t offset, bytes, count;
};

struct Arguments {
  EpArgs ep;
  EpSiluArgs silu;
};

#define FIELD(name) {#name, {offsetof(Arguments, ep.name), sizeof(EpArgs::name), 1}}
#define ARRAY(name)                                                                                     \
  {                                                                                                     \
#name, { offsetof(Arguments, ep.name), sizeof(EpArgs::name[0]), sizeof(EpArgs::name) / sizeof(EpArgs::name[0]) } \
  }
#define SILU(name) {"silu." #name, {offsetof(Arguments, silu.name), sizeof(EpSiluArgs::name), 1}}
const std::map<std::string, Field> fields = {
    FIELD(rank), FIELD(ranks), FIELD(tokens), FIELD(max_tokens), FIELD(x), FIELD(topk_ids), FIELD(weights),
    FIELD(input_scales), ARRAY(heap), ARRAY(region), FIELD(out), FIELD(out_scales), FIELD(row_offsets),
    FIELD(expert_ids), FIELD(src_info), FIELD(scale_offsets), FIELD(max_rows), FIELD(y), FIELD(combined),
    FIELD(bias), FIELD(epilogue_scale), FIELD(counters), FIELD(round), FIELD(round_base), FIELD(deadline_ns),
    FIELD(fault), FIELD(span), FIELD(sms), FIELD(wait_sms), FIELD(count_sms), FIELD(tile_tokens),
    FIELD(chunk_bytes), FIELD(delay_ns), FIELD(drop_signal), FIELD(skip_a2a), FIELD(allreduce_size),
    FIELD(rotate), FIELD(receivers), FIELD(pause_ns), FIELD(cases), FIELD(step), FIELD(cell_bytes), FIELD(peer),
    FIELD(sizes), FIELD(scope), FIELD(rounds),
    SILU(in), SILU(out), SILU(scales), SILU(row_offsets), SILU(input_scales), SILU(scale_offsets), SILU(max_rows),
    SILU(groups), SILU(limit), SILU(alpha),
};

uint8_t *locate(Arguments *a, std::string name, size_t *bytes) {
  size_t index = 0, open = name.find('[');
  if (open != std::string::npos) {
    index = strtoul(name.c_str() + open + 1, nullptr, 10);
    name.resize(open);
  }
  auto it = fields.find(name);
  if (it == fields.end() || index >= it->second.count) fail("no argument " + name);
  *bytes = it->second.bytes;
  return reinterpret_cast<uint8_t *>(a) + it->second.offset + index * it->second.bytes;
}

void store(Arguments *a, const std::string &name, uint64_t value) {
  size_t bytes;
  uint8_t *p = locate(a, name, &bytes);
  memcpy(p, &value, bytes);
}

struct Step {
  std::string entry; /* empty: a wipe if wipe_bytes is not 0, else a barrier */
  uint64_t wipe_at = 0, wipe_bytes = 0;
  void *kernel = nullptr;
  bool silu = false; /* the entry takes EpSiluArgs */
  void (*touch)() = nullptr;
  uint32_t grid = 0, block = 0;
  size_t shared = 0;
  std::vector<std::pair<std::string, uint64_t>> overrides;
};

/* The SMs of one rank, each an OS thread. The threads live until the end, so that shared memory keeps its contents
 * between kernels, as on the device. */
class Grid {
 public:
  ~Grid() {
    {
      std::lock_guard<std::mutex> hold(lock_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto &t : threads_) t.join();
  }
  void run(const EmulLaunch &launch, const std::function<void()> &kernel) {
    std::unique_lock<std::mutex> hold(lock_);
    while (threads_.size() < launch.grid.x) {
      uint32_t index = static_cast<uint32_t>(threads_.size());
      uint64_t seen = generation_;
      threads_.emplace_back([this, index, seen] { worker(index, seen); });
    }
    launch_ = &launch;
    kernel_ = &kernel;
    running_ = threads_.size();
    generation_++;
    wake_.notify_all();
    done_.wait(hold, [this] { return running_ == 0; });
  }

 private:
  void worker(uint32_t index, uint64_t seen) {
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      wake_.wait(hold, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      if (index < launch_->grid.x) {
        hold.unlock();
        emul_run_block(*launch_, index, *kernel_);
        hold.lock();
      }
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex lock_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const EmulLaunch *launch_ = nullptr;
  const std::function<void()> *kernel_ = nullptr;
  size_t running_ = 0;
  uint64_t generation_ = 0;
  bool stop_ = false;
};

struct Job {
  void *object = nullptr;
  uint8_t *arena = nullptr;
  uint64_t seed = 1, round = 0;
  std::vector<Arguments> args;
  std::vector<std::unique_ptr<Grid>> grids;
  std::vector<Step> steps;
};

void run_rank(const Job &job, size_t rank, uint64_t rounds, std::barrier<> &meet) {
  for (uint64_t i = 0; i < rounds; i++)
    for (const Step &s : job.steps) {
      if (s.wipe_bytes) {
        memset(job.args[rank].ep.heap[rank] + s.wipe_at, 0xff, s.wipe_bytes);
        continue;
      }
      if (s.entry.empty()) {
        meet.arrive_and_wait();
        continue;
      }
      Arguments a = job.args[rank];
      a.ep.round = static_cast<uint32_t>(job.round + i + 1);
      for (auto &o : s.overrides) store(&a, o.first, o.second);
      EmulLaunch launch{s.entry.c_str(), {s.grid, 1, 1}, {s.block, 1, 1}, s.shared,
                        job.seed * 1000003 + (job.round + i) * 131 + rank, s.touch};
      job.grids[rank]->run(launch, [&] {
        if (s.silu) {
          reinterpret_cast<void (*)(EpSiluArgs)>(s.kernel)(a.silu);
        } else {
          reinterpret_cast<void (*)(EpArgs)>(s.kernel)(a.ep);
        }
      });
    }
}

void run_all(Job &job, uint64_t rounds) {
  std::barrier<> meet(static_cast<ptrdiff_t>(job.args.size()));
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < job.args.size(); r++)
    ranks.emplace_back([&, r] { run_rank(job, r, rounds, meet); });
  for (auto &t : ranks) t.join();
  job.round += rounds;
}

void open_arena(Job &job, const std::string &path) {
  if (job.arena) return;
  int fd = open(path.c_str(), O_RDWR);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) fail("cannot open " + path);
  void *p = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) fail("cannot map " + path);
  job.arena = static_cast<uint8_t *>(p);
}

Step parse_launch(const Job &job, std::istringstream &in) {
  Step s;
  in >> s.entry >> s.grid >> s.block >> s.shared;
  s.kernel = dlsym(job.object, s.entry.c_str());
  if (!s.kernel) fail("no entry " + s.entry);
  s.touch = reinterpret_cast<void (*)()>(dlsym(job.object, "emul_touch_shared"));
  for (std::string pair; in >> pair;) {
    size_t eq = pair.find('=');
    if (eq == std::string::npos) fail("not FIELD=VALUE: " + pair);
    s.overrides.push_back({pair.substr(0, eq), strtoull(pair.c_str() + eq + 1, nullptr, 10)});
  }
  return s;
}

void assign(Job &job, const std::string &kind, std::istringstream &in) {
  std::string rank, name, value;
  in >> rank >> name >> value;
  for (size_t r = 0; r < job.args.size(); r++) {
    if (rank != "*" && rank != std::to_string(r)) continue;
    uint64_t bits = strtoull(value.c_str(), nullptr, 10);
    if (kind == "ptr") bits += reinterpret_cast<uint64_t>(job.arena);
    if (kind == "fset") {
      float f = strtof(value.c_str(), nullptr);
      bits = 0;
      memcpy(&bits, &f, sizeof f);
    }
    store(&job.args[r], name, bits);
  }
}

void perform(Job &job, const std::string &line) {
  std::istringstream in(line);
  std::string word, value;
  in >> word;
  if (word == "object") {
    in >> value;
    job.object = dlopen(value.c_str(), RTLD_NOW);
    if (!job.object) fail(dlerror());
  } else if (word == "arena") {
    in >> value;
    open_arena(job, value);
  } else if (word == "ranks") {
    size_t n;
    in >> n;
    job.args.assign(n, Arguments{});
    while (job.grids.size() < n) job.grids.push_back(std::make_unique<Grid>());
  } else if (word == "seed") {
    in >> job.seed;
  } else if (word == "rounds") {
    in >> job.round;
  } else if (word == "ptr" || word == "set" || word == "fset") {
    assign(job, word, in);
  } else if (word == "launch" || word == "launch_silu") {
    job.steps.push_back(parse_launch(job, in));
    job.steps.back().silu = word == "launch_silu";
  } else if (word == "barrier") {
    job.steps.push_back({});
  } else if (word == "wipe") {
    job.steps.push_back({});
    in >> job.steps.back().wipe_at >> job.steps.back().wipe_bytes;
  } else if (word == "run") {
    uint64_t n;
    in >> n;
    run_all(job, n);
  } else if (word == "clear") {
    job.steps.clear();
  } else if (word == "done") {
    puts("done");
    fflush(stdout);
  } else if (!word.empty()) {
    fail("unknown statement " + word);
  }
}

} // namespace

int main() {
  Job job;
  for (std::string line; std::getline(std::cin, line);) perform(job, line);
  return 0;
}
