/* DeepEP's low-latency calls, whole and in halves. */
#include "ops.h"

namespace native {

/* The data of a dispatch that a handle keeps, in one tensor of bytes. */
struct Index {
  int64_t ranges, scale_offsets, src_info, bytes;
  Index(const Link &l, Elements elements) {
    ranges = padded(4 * (l.local + 1)); /* after row_offsets */
    scale_offsets = ranges + padded(8 * l.local * l.ranks);
    src_info = scale_offsets + padded(4 * l.local);
    bytes = src_info + padded(4 * l.sizes[elements].src_info);
  }
};

static EpcommCall call_of(const Link &l, Elements elements, const Tensor &ids, bool halves, const Tensor &index) {
  Index i(l, elements);
  EpcommCall c = {};
  c.size = sizeof c;
  c.dtype = elements == FP8 ? EPCOMM_FP8 : EPCOMM_BF16;
  c.tokens = static_cast<int>(ids.size(0));
  c.fullest = 0; /* kernels for different token counts may not work together, so all ranks take those for the pack's capacity */
  c.purpose = halves ? EPCOMM_FOR_HALVES : EPCOMM_FOR_PAIR;
  c.ids_bits = wide(ids) ? 64 : 32;
  uint8_t *base = at<uint8_t>(index);
  c.row_offsets = reinterpret_cast<uint32_t *>(base);
  c.expert_ids = reinterpret_cast<int32_t *>(base + i.ranges);
  c.scale_offsets = reinterpret_cast<uint32_t *>(base + i.scale_offsets);
  c.src_info = reinterpret_cast<int32_t *>(base + i.src_info);
  c.topk_ids = at(ids);
  c.weights = reinterpret_cast<float *>(base); /* not read by dispatch */
  c.out = c.out_scales = base;                         /* not read by combine */
  return c;
}

/* Returns recv_x, its scales, recv_count, src_info, layout_range and index. */
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> ll_dispatch(int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales,
                                                                       Tensor ids, int64_t fp8, int64_t later, MaybeTensor stats) {
  Link &l = link_of(link);
  Timer whole(WHOLE);
  Place place = place_of(x);
  Elements elements = fp8 != 0 ? FP8 : BF16;
  fits(l, is(x, scales.has_value() ? FP8 : BF16, {-1, l.hidden}) && is(ids, wide(ids) ? INT64 : INT32, {x.size(0), l.topk}) &&
              (!stats.has_value() || is(*stats, INT32, {l.local})));
  Turn turn(l, stream, key);
  const Sizes &sizes = l.sizes[elements];
  int64_t room = sizes.max_rows / l.local;
  Index i(l, elements);
  Tensor index = make(place, UINT8, {i.bytes}), out = make(place, elements, {l.local, room, l.hidden});
  /* In memory, the scales of one group of columns are contiguous over rows. */
  Tensor given = fp8 != 0 ? make(place, FLOAT, {l.local, room, sizes.scales}, {sizes.scales * room, 1, room}) : index;
  EpcommCall c = call_of(l, elements, ids, later != 0, index);
  c.x = at(x);
  c.input_scale = scales.has_value() ? at<float>(*scales) : nullptr;
  c.out = at(out);
  c.out_scales = at(given);
  if (later != 0) {
    LAUNCHED(l.library->dispatch_send(l.comm, &c, turn.stream));
    l.half[0] = c;
    l.sent_in[0] = turn.capture;
  } else {
    LAUNCHED(l.library->dispatch(l.comm, &c, turn.stream));
    if (stats.has_value()) LAUNCHED(l.library->add_counts(l.comm, c.row_offsets, at<int32_t>(*stats), l.local, turn.stream));
  }
  return {out, given, view(index, 0, INT32, {l.local}), view(index, i.src_info, INT32, {l.local, room}, {2 * room, 2}),
          view(index, i.ranges, INT64, {l.local, l.ranks}), index};
}

Tensor ll_combine(int64_t link, int64_t stream, int64_t key, int64_t fp8, int64_t tokens, int64_t later, Tensor y, Tensor ids, Tensor weights,
                  Tensor index, MaybeTensor given) {
  Link &l = link_of(link);
  Timer whole(WHOLE);
  const Sizes &sizes = l.sizes[fp8 != 0 ? FP8 : BF16];
  fits(l, is(y, BF16, {l.local, sizes.max_rows / l.local, l.hidden}) && is(ids, wide(ids) ? INT64 : INT32, {tokens, l.topk}) &&
              is(weights, FLOAT, {tokens, l.topk}) && (!given.has_value() || is(*given, BF16, {tokens, l.hidden})));
  Turn turn(l, stream, key);
  Tensor combined = given.has_value() ? *given : make(place_of(y), BF16, {tokens, l.hidden});
  EpcommCall c = call_of(l, fp8 != 0 ? FP8 : BF16, ids, later != 0, index);
  c.y = at(y);
  c.weights = at<float>(weights);
  c.combined = at(combined);
  if (later != 0) {
    LAUNCHED(l.library->combine_send(l.comm, &c, turn.stream));
    l.half[1] = c;
    l.sent_in[1] = turn.capture;
  } else {
    LAUNCHED(l.library->combine(l.comm, &c, turn.stream));
  }
  return combined;
}

/* Receives the call of an op that was sent last: 0 dispatch, 1 combine. */
void ll_receive(int64_t link, int64_t stream, int64_t op, MaybeTensor stats) {
  Link &l = link_of(link);
  Timer whole(WHOLE);
  Turn turn(l, stream, 0);
  const EpcommCall &c = l.half[op];
  /* If a graph received a call without sending it, every replay would wait forever. */
  status_of(l) = turn.capture == l.sent_in[op] ? 0 : ELSEWHERE;
  STD_TORCH_CHECK(status_of(l) == 0, "received in another capture than it was sent in");
  LAUNCHED(op == 0 ? l.library->dispatch_recv(l.comm, &c, turn.stream) : l.library->combine_recv(l.comm, &c, turn.stream));
  if (op == 0 && stats.has_value()) LAUNCHED(l.library->add_counts(l.comm, c.row_offsets, at<int32_t>(*stats), l.local, turn.stream));
}

} // namespace native
