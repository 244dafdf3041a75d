/* What the kernels around epcomm's calls take, besides EpArgs. */
#ifndef EPCOMM_ARGS_H
#define EPCOMM_ARGS_H

#include "ep_args.h"

/* Arguments of the kernel that narrows top-k ids. */
typedef struct EpIdsArgs {
  const int64_t *wide; /* [count] */
  int32_t *narrow;     /* [count]; -1 where wide is no expert */
  int64_t count;
  int32_t experts; /* over all ranks */
} EpIdsArgs;

#endif
