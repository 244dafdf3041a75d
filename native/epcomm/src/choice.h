/* The first part of a call: checks of its arguments, and the look-up of its plan. */
#ifndef EPCOMM_CHOICE_H
#define EPCOMM_CHOICE_H

#include "comm.h"

enum { DISPATCH, COMBINE };

/* The result of the look-up for a call. `run` is the range of token counts with this plan, `first` its first count. */
typedef struct Choice {
  const PackRun *run;
  uint32_t plan, first;
  const PackDType *dtype;
  const SlotAt *at;
  uint32_t fullest;
  int op;
} Choice;

/* Members that an older header lacks become 0. */
EpcommStatus choice_take(EpComm *c, const EpcommCall *given, EpcommCall *out);

EpcommStatus choice_of(EpComm *c, const EpcommCall *call, int op, Choice *out);

/* Checks the tensors of a call: given, aligned, and in debug mode on this rank's GPU. */
EpcommStatus choice_check(EpComm *c, const EpcommCall *call, const Choice *k);

#endif
