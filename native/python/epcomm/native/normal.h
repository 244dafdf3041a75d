/* Declares C++ functions for DeepEP's normal calls. */
#ifndef EPCOMM_NATIVE_NORMAL_H
#define EPCOMM_NATIVE_NORMAL_H

#include "native.h"

namespace native {

struct Layout {
  Owned per_rank, per_expert, in_rank;
};

Layout normal_layout(Link &l, int64_t stream, Ref ids, int64_t experts, int64_t ranks);

/* Inputs of a dispatch without a handle. x is [tokens, hidden], in BF16 or in FP8 with scales. ids and weights may be
 * empty. The outputs have room for `worst` rows. If `worst` is 0, the host waits for the ranks' counts and allocates
 * as many rows as arrive. */
struct NormalRows {
  Ref x, scales, per_rank, per_expert, in_rank, ids, weights;
  int64_t align, worst;
};

/* Outputs of a dispatch. scales, ids and weights may be empty. `index` holds what a handle keeps for later calls. */
struct NormalReceived {
  Owned out, scales, ids, weights, sources, before, index;
};

NormalReceived normal_dispatch(Link &l, int64_t stream, int64_t key, const NormalRows &in);

struct NormalReturned {
  Ref y, index, weights;
  bool fp8;
  int64_t tokens, received, fullest;
};

struct NormalCombined {
  Owned combined, weights;
};

NormalCombined normal_combine(Link &l, int64_t stream, int64_t key, const NormalReturned &in);

} // namespace native

#endif
