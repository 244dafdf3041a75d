/* Runs an emulated block, whose threads are fibers. */
#ifndef EP_EMUL_FIBER_H
#define EP_EMUL_FIBER_H

#include <functional>

#include "cuda_emul.h"

struct EmulLaunch {
  const char *name;
  dim3 grid, block;
  size_t shared;
  uint64_t seed;           /* decides the order of the fibers */
  void (*touch)(void);     /* emul_touch_shared of the kernel's module, or null */
};

/* Runs block `index` of a launch on the calling OS thread. Aborts if no thread can run. */
void emul_run_block(const EmulLaunch &launch, uint32_t index, const std::function<void()> &kernel);

#endif
