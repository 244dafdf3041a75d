#include "choice.h"

EpcommStatus choice_take(EpComm *c, const EpcommCall *given, EpcommCall *out) {
  return comm_take(out, sizeof *out, offsetof(EpcommCall, rows), given) == 0
             ? EPCOMM_OK
             : comm_say(c, EPCOMM_INVALID, "call: set size to sizeof(EpcommCall) and unused members to 0. Its size is too small, or it sets "
                        "a member that this library does not know");
}

static EpcommStatus check_call(EpComm *c, const EpcommCall *call) {
  int most = (int)c->pack.head->max_tokens;
  if (call->slot < 0 || call->slot >= c->options.in_flight)
    return comm_say(c, EPCOMM_INVALID, "slot: %d is outside 0 to %d, see in_flight", call->slot, c->options.in_flight - 1);
  if (call->dtype < 0 || call->dtype > EPCOMM_NVFP4 || c->dtype_index[call->dtype] < 0)
    return comm_say(c, EPCOMM_INVALID, "dtype: %d is not among the dtypes of this EpComm; see options.dtypes", call->dtype);
  if (call->tokens < 0 || call->tokens > most)
    return comm_say(c, EPCOMM_INVALID, "tokens: %d is outside 0 to %d, the pack's max_tokens", call->tokens, most);
  if (call->fullest != 0 && (call->fullest < call->tokens || call->fullest > most))
    return comm_say(c, EPCOMM_INVALID, "fullest: %d is less than call.tokens (%d) or more than max_tokens (%d); give 0 if it is not known",
                    call->fullest, call->tokens, most);
  if (call->routing < 0 || call->routing > EPCOMM_ALL_ROUTINGS || call->purpose < 0 || call->purpose > EPCOMM_FOR_HALVES)
    return comm_say(c, EPCOMM_INVALID, "routing or purpose: routing %d or purpose %d does not exist", call->routing, call->purpose);
  return EPCOMM_OK;
}

static int in_extra(const EpComm *c, const void *p, uint64_t bytes) {
  uint64_t from = (uint64_t)(uintptr_t)p, base = (uint64_t)(uintptr_t)comm_on_heap(c, c->at.extra), all = c->options.extra_bytes;
  return from >= base && from - base <= all && bytes <= all - (from - base);
}

EpcommStatus choice_of(EpComm *c, const EpcommCall *call, int op, Choice *out) {
  EpcommStatus s = check_call(c, call);
  if (s != EPCOMM_OK) return s;
  uint32_t dtype = (uint32_t)c->dtype_index[call->dtype];
  int routing = call->routing != 0 ? call->routing : c->options.routing != 0 ? c->options.routing : EPCOMM_ALL_ROUTINGS;
  const PackLookup *l = c->lookups[dtype][call->purpose][routing - 1];
  const PackRun *runs = &c->pack.runs[l->first_run];
  uint32_t lo = 0, hi = l->runs - 1;
  out->fullest = call->fullest != 0 ? (uint32_t)call->fullest : c->pack.head->max_tokens;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (out->fullest <= runs[mid].last) hi = mid;
    else lo = mid + 1;
  }
  out->run = &runs[lo];
  out->first = lo > 0 ? runs[lo - 1].last + 1 : 1;
  out->dtype = &c->pack.dtypes[dtype];
  out->at = &c->at.slots[call->slot];
  out->op = op;
  out->plan = call->out == NULL || in_extra(c, call->out, out->dtype->out_bytes) ? runs[lo].plan : runs[lo].elsewhere;
  return EPCOMM_OK;
}

static EpcommStatus check_tensors(EpComm *c, const EpcommCall *call) {
  const struct {
    const char *name;
    const void *at;
    unsigned align;
    int by_token; /* not read if there are no tokens */
  } tensors[] = {
      {"x", call->x, 16, 1},
      {"topk_ids", call->topk_ids, call->ids_bits == 64 ? 8 : 4, 1},
      {"weights", call->weights, 4, 1},
      {"input_scale", call->input_scale, 4, 1},
      {"out", call->out, 16, 0},
      {"out_scales", call->out_scales, 16, 0},
      {"row_offsets", call->row_offsets, 4, 0},
      {"expert_ids", call->expert_ids, c->pack.head->layout == PACK_MASKED ? 8 : 4, 0},
      {"src_info", call->src_info, 4, 0},
      {"scale_offsets", call->scale_offsets, 4, 0},
      {"y", call->y, 16, 0},
      {"combined", call->combined, 16, 1},
      {"bias", call->bias, 16, 0},
  };
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    int device = c->options.device;
    if (tensors[i].at == NULL || (tensors[i].by_token && call->tokens == 0)) continue;
    if ((uintptr_t)tensors[i].at % tensors[i].align != 0)
      return comm_say(c, EPCOMM_INVALID, "%s: %p is not a multiple of %u", tensors[i].name, tensors[i].at, tensors[i].align);
    if (c->options.debug && c->driver->pointer_get(&device, DRV_POINTER_DEVICE, (DrvPointer)(uintptr_t)tensors[i].at) != 0)
      return comm_say(c, EPCOMM_INVALID, "%s: %p is not memory of a GPU", tensors[i].name, tensors[i].at);
    if (device != c->options.device)
      return comm_say(c, EPCOMM_INVALID, "%s: it is on GPU %d, but this rank runs on GPU %d", tensors[i].name, device, c->options.device);
  }
  return EPCOMM_OK;
}

EpcommStatus choice_check(EpComm *c, const EpcommCall *call, const Choice *k) {
  int scales = k->dtype->scales > 0, op = k->op;
  if (call->tokens > 0 && (call->topk_ids == NULL || call->weights == NULL || (op == DISPATCH && call->x == NULL)))
    return comm_say(c, EPCOMM_INVALID, "x, topk_ids and weights: one is NULL and there are %d tokens", call->tokens);
  if ((c->pack.head->flags & PACK_RAW) && k->dtype->dtype == EPCOMM_FP8 && op == DISPATCH && call->tokens > 0 && call->input_scale == NULL)
    return comm_say(c, EPCOMM_INVALID, "input_scale: it is NULL, and this pack takes tokens in FP8, which need their scales");
  if (call->ids_bits != 0 && call->ids_bits != 32 && call->ids_bits != 64)
    return comm_say(c, EPCOMM_INVALID, "ids_bits: %d is neither 32 nor 64", call->ids_bits);
  if (call->row_tokens != NULL && (call->out == NULL || c->pack.head->layout != PACK_RANK_PACKED))
    return comm_say(c, EPCOMM_INVALID, "row_tokens: give them only in layout rank packed, and with your own outputs");
  if (call->out != NULL && (call->row_offsets == NULL || call->expert_ids == NULL || call->src_info == NULL ||
                            (scales && call->out_scales == NULL) ||
                            ((k->dtype->dtype == EPCOMM_NVFP4 || pack_by_rank(c->pack.head)) && call->scale_offsets == NULL)))
    return comm_say(c, EPCOMM_INVALID, "outputs: call.out is given, but row_offsets, expert_ids, src_info, out_scales or scale_offsets is "
                    "missing; leave call.out NULL to use the library's own memory");
  if (call->out == NULL && c->options.own_outputs)
    return comm_say(c, EPCOMM_INVALID, "outputs: call.out is NULL, but with the option own_outputs the library has no memory for outputs; "
                    "give your own");
  if (op == COMBINE && (call->y == NULL || (call->tokens > 0 && call->combined == NULL)))
    return comm_say(c, EPCOMM_INVALID, "y and combined: combine needs both");
  if (op == COMBINE && c->nodes > 1 && (uint64_t)(uintptr_t)call->y - (uint64_t)(uintptr_t)comm_heap(c) >= c->at.bytes)
    return comm_say(c, EPCOMM_INVALID, "y: over several nodes the network reads only the library's memory; use y of epcomm_outputs, or memory of epcomm_extra");
  return check_tensors(c, call);
}
