/* Checks a call's arguments, and looks up its plan. */
#ifndef EPCOMM_CHOICE_H
#define EPCOMM_CHOICE_H

#include "comm.h"

enum { DISPATCH, COMBINE };

/* The choice of kernels (plan) for a call. `run` is the range of token counts with this plan, `first` its least
 * count. */
typedef struct Choice {
  const PackRun *run;
  uint32_t plan, first;
  const PackDType *dtype;
  const SlotAt *at;
  uint32_t fullest;
  int op;
} Choice;

EpcommStatus choice_take(EpComm *c, const EpcommCall *given, EpcommCall *out);

EpcommStatus choice_of(EpComm *c, const EpcommCall *call, int op, Choice *out);

/* Checks that tensors are given and aligned. Debug mode also checks that they are on this rank's GPU. */
EpcommStatus choice_check(EpComm *c, const EpcommCall *call, const Choice *k);

#endif
