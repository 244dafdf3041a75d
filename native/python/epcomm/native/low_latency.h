/* Declares C++ functions for DeepEP's low-latency calls. */
#ifndef EPCOMM_NATIVE_LOW_LATENCY_H
#define EPCOMM_NATIVE_LOW_LATENCY_H

#include "native.h"

namespace native {

/* Inputs of a dispatch. x is [tokens, hidden], in BF16 or in FP8 with scales. If `fp8` is true, rows are sent in FP8.
 * If `later` is true, the call only sends, and low_receive receives. stats may be an empty Ref. */
struct LowRows {
  Ref x, scales, ids, stats;
  bool fp8, later;
};

struct LowReceived {
  Owned out, scales, count, src_info, ranges;
};

LowReceived low_dispatch(Link &l, int64_t stream, int64_t key, const LowRows &in);

/* Cuts small outputs from allocations of 1 MiB, because an allocation for each output would take longer. Calls in a
 * CUDA graph get allocations of their own: each replay writes to the same memory, which no other call may use. */
struct Slab {
  static constexpr int64_t BYTES = 1 << 20;
  Owned cut(Place place, EpcommStream stream, int64_t tokens, int64_t hidden);

 private:
  std::mutex order_;
  Owned bytes_;
  EpcommStream stream_ = nullptr;
  int64_t at_ = BYTES;
};

struct LowReturned {
  Ref y, ids, weights, src_info, given;
  bool fp8, later;
  int64_t tokens;
  Slab *slab;
};

/* Returns a new output. If in.given is an output of the caller, it writes there and returns an empty Owned. */
Owned low_combine(Link &l, int64_t stream, int64_t key, const LowReturned &in);

/* Receives the call that was sent last. `op` is 0 for a dispatch and 1 for a combine. */
void low_receive(Link &l, int64_t stream, int64_t op, Ref stats);

} // namespace native

#endif
