/* The first part of a call: checks of its arguments, and the look-up of the plan whose kernels it launches. */
#ifndef EPCOMM_CHOICE_H
#define EPCOMM_CHOICE_H

#include "comm.h"

enum { DISPATCH, COMBINE };

/* The result of the look-up for a call: the range ("run") of token counts in which the call's count lies, the plan of
 * this run, and the dtype and memory that the kernels use. The plan names the kernels. */
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

/* Checks the numbers of a call, and looks its plan up. */
EpcommStatus choice_of(EpComm *c, const EpcommCall *call, int op, Choice *out);

/* Checks the tensors of a call: none that it needs is NULL, each is aligned, and in debug mode each is on this rank's GPU. */
EpcommStatus choice_check(EpComm *c, const EpcommCall *call, const Choice *k);

#endif
