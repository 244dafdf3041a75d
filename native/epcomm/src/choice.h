/* The first part of a call: checks of its arguments, and the look-up of the plan whose kernels it launches. */
#ifndef EPCOMM_CHOICE_H
#define EPCOMM_CHOICE_H

#include "comm.h"

enum { DISPATCH, COMBINE };

/* The result of the look-up for a call. `run` is the range of token counts in which the call's count lies, and `first`
 * is the first count of this range. `plan` is the number of the run's plan, which names the kernels. */
typedef struct Choice {
  const PackRun *run;
  uint32_t plan, first;
  const PackDType *dtype;
  const SlotAt *at;
  uint32_t fullest;
  int op;
} Choice;

/* Copies the caller's struct into one of this version. Members that an older header lacks become 0. */
EpcommStatus choice_take(EpComm *c, const EpcommCall *given, EpcommCall *out);

/* Checks the numbers of a call, and looks up its plan. */
EpcommStatus choice_of(EpComm *c, const EpcommCall *call, int op, Choice *out);

/* Checks the tensors of a call: those that it needs are given, all are aligned, and in debug mode all are on this rank's GPU. */
EpcommStatus choice_check(EpComm *c, const EpcommCall *call, const Choice *k);

#endif
