/* Makes the calls of the Python class EP. */
#include "ops.h"

namespace native {

/* Makes one call. `which` is 0 for dispatch, 1 for dispatch_send, 2 for dispatch_recv, 3 for combine, 4 for
 * combine_send and 5 for combine_recv. `rows` holds the tokens of a dispatch, or the experts' outputs of a combine. */
void call(int64_t link, int64_t stream, int64_t which, Tensor rows, Tensor ids, Tensor weights, MaybeTensor out, int64_t fullest,
          int64_t slot, int64_t dtype, int64_t routing, int64_t purpose) {
  Timer whole(WHOLE);
  Link &l = link_of(link);
  bool combines = which >= 3;
  int64_t tokens = ids.size(0);
  fits(l, is(ids, wide(ids) ? INT64 : INT32, {-1, l.topk}) && is(weights, FLOAT, {tokens, l.topk}) &&
              (is(rows, BF16, {-1, l.hidden}) && (combines || rows.size(0) >= tokens)) &&
              (!combines || (out.has_value() && is(*out, BF16, {-1, l.hidden}) && out->size(0) >= tokens)));
  EpcommCall c = {};
  c.size = sizeof c;
  c.slot = static_cast<int>(slot);
  c.dtype = static_cast<int>(dtype);
  c.tokens = static_cast<int>(tokens);
  c.fullest = static_cast<int>(fullest);
  c.routing = static_cast<int>(routing);
  c.purpose = static_cast<int>(purpose);
  c.ids_bits = wide(ids) ? 64 : 32;
  c.topk_ids = at(ids);
  c.weights = at<float>(weights);
  (combines ? c.y : c.x) = at(rows);
  c.combined = combines ? at(*out) : nullptr;
  const Library &f = *l.library;
  EpcommStatus (*const calls[])(EpComm *, const EpcommCall *, EpcommStream) = {f.dispatch, f.dispatch_send, f.dispatch_recv,
                                                                               f.combine, f.combine_send, f.combine_recv};
  Timer timer(LAUNCH);
  check(l, calls[which](l.comm, &c, reinterpret_cast<void *>(stream)));
}

} // namespace native
