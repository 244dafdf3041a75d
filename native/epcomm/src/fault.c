/* Writes error texts, reads faults, resets after a fault, and stops waits. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"

EpcommStatus comm_say(EpComm *c, EpcommStatus status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(c->text, sizeof c->text, format, args);
  va_end(args);
  return status;
}

EpcommStatus comm_driver_error(EpComm *c, DrvResult result, const char *what) {
  char words[DRIVER_WORDS];
  driver_describe(c->driver, result, words);
  return comm_say(c, EPCOMM_DRIVER, "%.200s: %s", what, words);
}

const char *epcomm_error(EpComm *c) { return c->text; }

const char *epcomm_status_name(EpcommStatus status) {
  static const char *const names[] = {"ok", "invalid", "pack", "driver", "machine", "disagree", "gather", "fault", "peer", "network"};
  return (unsigned)status < sizeof names / sizeof names[0] ? names[status] : "unknown";
}

/* Describes a disagreement in debug mode. f->want describes this rank's call, and f->got describes the other rank's.
 * The upper 32 bits hold the number of the call, the lower 32 bits hold EpArgs.about. */
static void describe_disagreement(const EpComm *c, const EpFault *f, char *text) {
  static const char *const ops[] = {"dispatch", "combine"};
  uint32_t mine = (uint32_t)f->want, theirs = (uint32_t)f->got;
  if (f->source == (int32_t)f->rank && f->expert >= 0)
    snprintf(text, EPCOMM_TEXT, "rank %u passed a token that names expert %d twice; give each expert of a token once", f->rank, (int)f->expert);
  else if (f->source == (int32_t)f->rank)
    snprintf(text, EPCOMM_TEXT, "rank %u passed a top-k id that is neither -1 nor one of %llu experts", f->rank,
             (unsigned long long)f->want);
  else if (f->want >> 32 != f->got >> 32)
    snprintf(text, EPCOMM_TEXT, "rank %u waited for rank %d to make call %u of a slot", f->rank, (int)f->source, (uint32_t)(f->want >> 32));
  else
    snprintf(text, EPCOMM_TEXT, "call %u of a slot: rank %u is at %s of plan %u for %u tokens, rank %d at %s of plan %u for %u tokens; all ranks "
             "must pass the same fullest, routing, purpose and dtype", (uint32_t)(f->want >> 32), f->rank, ops[mine & 1],
             mine >> 1 & 2047, (mine >> 12) + 1, (int)f->source, ops[theirs & 1], theirs >> 1 & 2047, (theirs >> 12) + 1);
  (void)c;
}

void fault_sentence(const EpComm *c, const EpFault *f, char *text) {
  static const char *const phases[] = {"?", "a barrier", "dispatch, sending,", "dispatch, receiving,", "combine, sending,",
                                       "combine, receiving,", "debug mode", "dispatch"};
  char expert[32] = "", source[32] = "";
  if (f->phase == EP_PHASE_AGREE) {
    describe_disagreement(c, f, text);
    return;
  }
  if (f->phase == EP_PHASE_LOST) {
    snprintf(text, EPCOMM_TEXT, "rank %u passed a token for expert %d of rank %d, which is lost; route tokens to living "
             "ranks, or set the option survivors to EPCOMM_DROP", f->rank, (int)f->expert, (int)f->source);
    return;
  }
  if (f->phase == EP_PHASE_ROOM) {
    snprintf(text, EPCOMM_TEXT, "rank %u: %llu rows come to a dispatch whose outputs have room for %llu; give more num_worst_tokens", f->rank,
             (unsigned long long)f->got, (unsigned long long)f->want);
    return;
  }
  if (f->expert >= 0) snprintf(expert, sizeof expert, " for expert %d", (int)f->expert);
  if (f->source >= 0) snprintf(source, sizeof source, f->expert >= 0 ? " from rank %d" : " for rank %d", (int)f->source);
  snprintf(text, EPCOMM_TEXT, "no progress within %.3g s: rank %u waited in %s%s%s (block %u wanted %lld, saw %lld)",
           (double)c->options.deadline_ns / 1e9, f->rank, phases[f->phase < 8 ? f->phase : 0], expert, source, f->block,
           (long long)f->want, (long long)f->got);
}

/* Returns whether the fault record is complete. The kernel writes `set` last. */
int fault_is_set(const EpComm *c) { return __atomic_load_n((const uint32_t *)(uintptr_t)&c->fault->set, __ATOMIC_ACQUIRE) != 0; }

EpcommStatus epcomm_fault(EpComm *c, EpcommFault *out) {
  EpFault f;
  if (!fault_is_set(c)) return EPCOMM_OK;
  memcpy(&f, (const void *)(uintptr_t)c->fault, sizeof f);
  fault_sentence(c, &f, c->text);
  if (out == NULL) return EPCOMM_FAULT;
  EpcommFault seen = {
    .rank = (int)f.rank,
    .phase = (int)f.phase,
    .expert = f.expert,
    .source = f.source,
    .block = (int)f.block,
    .want = f.want,
    .got = f.got,
  };
  memcpy(seen.text, c->text, sizeof seen.text);
  comm_give(out, &seen, sizeof seen);
  return EPCOMM_FAULT;
}

EpcommStatus comm_clear(EpComm *c) {
  memset((void *)(uintptr_t)c->fault, 0, sizeof(EpFault));
  comm_forget_calls(c);
  return heap_fill(c);
}

EpcommStatus epcomm_reset(EpComm *c) {
  DrvContext before = NULL;
  if (survive_lost(c)) return survive_reset(c, c->alive);
  c->driver->context_get(&before);
  DrvResult r = c->driver->context_set(c->context);
  if (r == 0) r = c->driver->context_wait();
  EpcommStatus s = r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "wait for the device");
  if (c->nodes > 1 && s == EPCOMM_OK) s = network_settle(c);
  /* No kernel of any rank runs after this exchange. */
  s = exchange(c, STEP_RESET, s, NULL, NULL, 0);
  if (s == EPCOMM_OK) {
    s = comm_clear(c);
    s = exchange(c, STEP_RESET_END, s, NULL, NULL, 0); /* no rank makes a call before all ranks have reset their memory */
  }
  c->driver->context_set(before);
  return s;
}

static DrvResult stop_rank(const EpComm *c, DrvPointer heap) {
  DrvResult r = c->driver->fill(heap + c->at.abort, 1, 1);
  if (r == 0) r = c->driver->fill(heap + c->at.abort + 4, 1, 1);
  for (int slot = 0; slot < c->options.in_flight; slot++)
    for (uint32_t i = 0; i < pack_count(&c->pack, PACK_STATES) && r == 0; i++)
      if (c->dtype_index[c->pack.dtypes[c->pack.states[i].dtype].dtype] >= 0) r = c->driver->fill(heap + c->at.slots[slot].states[i].counters, 1, 1);
  return r;
}

EpcommStatus epcomm_stop(EpComm *c) {
  DrvContext before = NULL;
  if (c->nodes > 1) return comm_say(c, EPCOMM_INVALID, "stop: ranks of several hosts cannot reach each other's memory; wait for the deadline");
  c->driver->context_get(&before);
  DrvResult r = c->driver->context_set(c->context);
  for (int rank = 0; rank < c->options.ranks && r == 0; rank++)
    if (c->alive >> rank & 1) r = stop_rank(c, c->heap[rank]);
  c->driver->context_set(before);
  return r == 0 ? EPCOMM_OK : comm_driver_error(c, r, "stop");
}
