/* DeepEP's low-latency calls, without a dispatcher and without Python: what the operators and the calls
 * of a Buffer (calls.cpp) share. */
#ifndef EPCOMM_NATIVE_LOW_LATENCY_H
#define EPCOMM_NATIVE_LOW_LATENCY_H

#include "native.h"

namespace native {

/* Inputs of a dispatch: x are rows [tokens, hidden] of BF16, or of FP8 with scales. fp8 selects the dtype in
 * which rows travel. With later, the call only sends. stats may be none. */
struct LowRows {
  Ref x, scales, ids, stats;
  bool fp8, later;
};

/* Outputs of a dispatch. scales, count, src_info and ranges lie in one allocation, which a handle keeps by
 * its src_info; scales is none in BF16. */
struct LowReceived {
  Owned out, scales, count, src_info, ranges;
};

LowReceived low_dispatch(Link &l, int64_t stream, int64_t key, const LowRows &in);

/* Inputs of a combine. given is the caller's output, or none. src_info is the one of the handle. */
struct LowReturned {
  Ref y, ids, weights, src_info, given;
  bool fp8, later;
  int64_t tokens;
};

/* Returns the output, none if the caller gave one. */
Owned low_combine(Link &l, int64_t stream, int64_t key, const LowReturned &in);

/* Receives the call of an op that was sent last: 0 dispatch, 1 combine. */
void low_receive(Link &l, int64_t stream, int64_t op, Ref stats);

} // namespace native

#endif
