/* DeepEP's low-latency calls as C++ functions. */
#ifndef EPCOMM_NATIVE_LOW_LATENCY_H
#define EPCOMM_NATIVE_LOW_LATENCY_H

#include "native.h"

namespace native {

/* Inputs of a dispatch. x is [tokens, hidden], in BF16 or in FP8 with scales. fp8: rows are sent in FP8. later: only
 * send. stats may be none. */
struct LowRows {
  Ref x, scales, ids, stats;
  bool fp8, later;
};

struct LowReceived {
  Owned out, scales, count, src_info, ranges;
};

LowReceived low_dispatch(Link &l, int64_t stream, int64_t key, const LowRows &in);

/* Cuts small outputs from allocations of 1 MiB, because an allocation takes longer than a view. Captured calls do not
 * use it, because their replays write to the same memory. */
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

/* Returns the output, which is empty if the caller gave an output. */
Owned low_combine(Link &l, int64_t stream, int64_t key, const LowReturned &in);

/* Receives the last sent call. op: 0 dispatch, 1 combine. */
void low_receive(Link &l, int64_t stream, int64_t op, Ref stats);

} // namespace native

#endif
