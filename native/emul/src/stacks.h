/* Stacks for the fibers of a block. Later launches reuse the stacks. */
#ifndef EP_EMUL_STACKS_H
#define EP_EMUL_STACKS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <mutex>
#include <vector>

#ifdef EP_EMUL_TSAN
#include <sanitizer/tsan_interface.h>
#define EMUL_FIBER_CREATE() __tsan_create_fiber(0)
#else
#define EMUL_FIBER_CREATE() nullptr
#endif

/* Not a power of two, so that the ends of the stacks do not share cache sets. */
const size_t stack_bytes = (128 << 10) + (4 << 10) + 192;

struct Stacks {
  size_t fibers = 0;
  uint8_t *base = nullptr;
  std::vector<void *> tsan;
};

class StackPool {
 public:
  Stacks take(size_t fibers) {
    std::lock_guard<std::mutex> hold(lock_);
    for (size_t i = 0; i < idle_.size(); i++) {
      if (idle_[i].fibers != fibers) continue;
      Stacks s = std::move(idle_[i]);
      idle_[i] = std::move(idle_.back());
      idle_.pop_back();
      return s;
    }
    void *p = mmap(nullptr, fibers * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      perror("emul: stacks");
      abort();
    }
    Stacks s{fibers, static_cast<uint8_t *>(p), {}};
    for (size_t i = 0; i < fibers; i++) s.tsan.push_back(EMUL_FIBER_CREATE());
    return s;
  }
  void give(Stacks s) {
    std::lock_guard<std::mutex> hold(lock_);
    idle_.push_back(std::move(s));
  }

 private:
  std::mutex lock_;
  std::vector<Stacks> idle_;
};

#endif
