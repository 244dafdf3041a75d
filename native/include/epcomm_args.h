/* Arguments of the kernels around epcomm's calls, besides EpArgs. */
#ifndef EPCOMM_ARGS_H
#define EPCOMM_ARGS_H

#include "ep_args.h"

/* Arguments of the kernel that narrows top-k ids. */
typedef struct EpIdsArgs {
  const int64_t *wide; /* [count] */
  int32_t *narrow;     /* [count]; -1 where masked, -1 - refused where wide is neither masked nor an expert */
  int64_t count;
  int32_t experts; /* over all ranks */
  int32_t refused; /* 1 in debug mode, whose check then finds such ids; else they count as masked */
} EpIdsArgs;

#endif
