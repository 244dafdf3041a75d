/* DeepEP's normal calls as C++ functions. PyTorch's operators (normal.cpp) and the methods of a Buffer that
 * run without Python code (normal_calls.cpp) call them. */
#ifndef EPCOMM_NATIVE_NORMAL_H
#define EPCOMM_NATIVE_NORMAL_H

#include "native.h"

namespace native {

/* Outputs of get_dispatch_layout, which share one allocation. */
struct Layout {
  Owned per_rank, per_expert, in_rank;
};

Layout normal_layout(Link &l, int64_t stream, Ref ids, int64_t experts, int64_t ranks);

/* Inputs of a new dispatch. x holds rows [tokens, hidden] in BF16, or in FP8 with scales. ids and weights may be none.
 * If worst is 0, the host waits for the number of rows; otherwise the outputs have room for `worst` rows. */
struct NormalRows {
  Ref x, scales, per_rank, per_expert, in_rank, ids, weights;
  int64_t align, worst;
};

/* Outputs of a dispatch. scales, ids and weights are none if the inputs lack them. index is the tensor of bytes that a
 * handle keeps. */
struct NormalReceived {
  Owned out, scales, ids, weights, sources, before, index;
};

/* Makes a new dispatch. If the host waited for the counts, the link then holds the number of rows, the token count of
 * the fullest rank, and the number of rows of each expert. */
NormalReceived normal_dispatch(Link &l, int64_t stream, int64_t key, const NormalRows &in);

/* Inputs of a combine. index, fp8 and the numbers come from the dispatch before it. weights may be none. */
struct NormalReturned {
  Ref y, index, weights;
  bool fp8;
  int64_t tokens, received, fullest;
};

struct NormalCombined {
  Owned combined, weights; /* weights: none if the inputs lack them */
};

NormalCombined normal_combine(Link &l, int64_t stream, int64_t key, const NormalReturned &in);

} // namespace native

#endif
