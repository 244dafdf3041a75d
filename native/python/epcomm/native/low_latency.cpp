#include "low_latency.h"

#include "ops.h"

namespace native {

struct Index {
  int64_t ranges, scale_offsets, src_info, scales, bytes;
  Index(const Link &l, Elements elements) {
    const Sizes &sizes = l.sizes[elements];
    ranges = padded(4 * (l.local + 1));
    scale_offsets = ranges + padded(8 * l.local * l.ranks);
    src_info = scale_offsets + padded(4 * l.local);
    scales = src_info + padded(4 * sizes.src_info);
    bytes = scales + (elements == FP8 ? padded(4 * sizes.scales * sizes.max_rows) : 0);
  }
};

static EpcommCall call_of(Elements elements, Ref ids, bool halves, const Index &i, uint8_t *base) {
  EpcommCall c = {};
  c.size = sizeof c;
  c.dtype = elements == FP8 ? EPCOMM_FP8 : EPCOMM_BF16;
  c.tokens = static_cast<int>(size(ids, 0));
  c.fullest = 0; /* selects the kernels for max_tokens: ranks differ in token counts but need equal kernels */
  c.purpose = halves ? EPCOMM_FOR_HALVES : EPCOMM_FOR_PAIR;
  c.ids_bits = wide(ids) ? 64 : 32;
  c.row_offsets = reinterpret_cast<uint32_t *>(base);
  c.expert_ids = reinterpret_cast<int32_t *>(base + i.ranges);
  c.scale_offsets = reinterpret_cast<uint32_t *>(base + i.scale_offsets);
  c.src_info = reinterpret_cast<int32_t *>(base + i.src_info);
  c.topk_ids = at(ids);
  c.weights = reinterpret_cast<float *>(base);
  c.out = c.out_scales = base;
  return c;
}

static void add_counts(Link &l, const EpcommCall &c, Ref stats, EpcommStream stream) {
  if (stats) LAUNCHED(l.library->add_counts(l.comm, c.row_offsets, at<int32_t>(stats), l.local, stream));
}

LowReceived low_dispatch(Link &l, int64_t stream, int64_t key, const LowRows &in) {
  Timer whole(WHOLE);
  Place place = place_of(in.x);
  Elements elements = in.fp8 ? FP8 : BF16;
  fits(l, is(in.x, in.scales ? FP8 : BF16, {-1, l.hidden}) && is(in.ids, wide(in.ids) ? INT64 : INT32, {size(in.x, 0), l.topk}) &&
              (!in.stats || is(in.stats, INT32, {l.local})));
  Turn turn(l, stream, key);
  const Sizes &sizes = l.sizes[elements];
  int64_t room = sizes.max_rows / l.local;
  Index i(l, elements);
  Owned bytes = make(place, UINT8, {i.bytes}), out = make(place, elements, {l.local, room, l.hidden});
  uint8_t *base = at<uint8_t>(bytes);
  EpcommCall c = call_of(elements, in.ids, in.later, i, base);
  c.x = at(in.x);
  c.input_scale = in.scales ? at<float>(in.scales) : nullptr;
  c.out = at(out);
  if (in.fp8) c.out_scales = base + i.scales;
  if (in.later) {
    LAUNCHED(l.library->dispatch_send(l.comm, &c, turn.stream));
    l.half[0] = c;
    l.sent_in[0] = turn.capture;
  } else {
    LAUNCHED(l.library->dispatch(l.comm, &c, turn.stream));
    add_counts(l, c, in.stats, turn.stream);
  }
  LowReceived made;
  made.out = std::move(out);
  if (in.fp8) made.scales = view(bytes, i.scales, FLOAT, {l.local, room, sizes.scales}, {sizes.scales * room, 1, room});
  made.count = view(bytes, 0, INT32, {l.local});
  made.src_info = view(bytes, i.src_info, INT32, {l.local, room}, {2 * room, 2});
  made.ranges = view(bytes, i.ranges, INT64, {l.local, l.ranks});
  return made;
}

Owned Slab::cut(Place place, EpcommStream stream, int64_t tokens, int64_t hidden) {
  int64_t size = padded(2 * tokens * hidden);
  std::lock_guard<std::mutex> alone(order_);
  if (stream != stream_ || at_ + size > BYTES) {
    bytes_ = make(place, UINT8, {BYTES});
    stream_ = stream;
    at_ = 0;
  }
  at_ += size;
  return view(bytes_, at_ - size, BF16, {tokens, hidden});
}

static Owned new_output(const Link &l, const LowReturned &in, const Turn &turn) {
  bool small = in.slab != nullptr && turn.capture == 0 && in.tokens > 0 && 2 * in.tokens * l.hidden <= Slab::BYTES / 2;
  return small ? in.slab->cut(place_of(in.y), turn.stream, in.tokens, l.hidden) : make(place_of(in.y), BF16, {in.tokens, l.hidden});
}

Owned low_combine(Link &l, int64_t stream, int64_t key, const LowReturned &in) {
  Timer whole(WHOLE);
  Elements elements = in.fp8 ? FP8 : BF16;
  fits(l, is(in.y, BF16, {l.local, l.sizes[elements].max_rows / l.local, l.hidden}) &&
              is(in.ids, wide(in.ids) ? INT64 : INT32, {in.tokens, l.topk}) && is(in.weights, FLOAT, {in.tokens, l.topk}) &&
              (!in.given || is(in.given, BF16, {in.tokens, l.hidden})));
  Turn turn(l, stream, key);
  Owned combined;
  if (!in.given) combined = new_output(l, in, turn);
  Index i(l, elements);
  EpcommCall c = call_of(elements, in.ids, in.later, i, at<uint8_t>(in.src_info) - i.src_info);
  c.y = at(in.y);
  c.weights = at<float>(in.weights);
  c.combined = at(in.given ? in.given : Ref(combined));
  if (in.later) {
    LAUNCHED(l.library->combine_send(l.comm, &c, turn.stream));
    l.half[1] = c;
    l.sent_in[1] = turn.capture;
  } else {
    LAUNCHED(l.library->combine(l.comm, &c, turn.stream));
  }
  return combined;
}

void low_receive(Link &l, int64_t stream, int64_t op, Ref stats) {
  Timer whole(WHOLE);
  Turn turn(l, stream, 0);
  const EpcommCall &c = l.half[op];
  /* Refuse a graph that receives but does not send: each of its replays would wait for a new send. */
  status_of(l) = turn.capture == l.sent_in[op] ? 0 : ELSEWHERE;
  STD_TORCH_CHECK(status_of(l) == 0, "received in another capture than it was sent in");
  LAUNCHED(op == 0 ? l.library->dispatch_recv(l.comm, &c, turn.stream) : l.library->combine_recv(l.comm, &c, turn.stream));
  if (op == 0) add_counts(l, c, stats, turn.stream);
}

/* ---- operators ---- */

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> ll_dispatch(int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales, Tensor ids,
                                                               int64_t fp8, int64_t later, MaybeTensor stats) {
  LowReceived made = low_dispatch(link_of(link), stream, key, {x, scales, ids, stats, fp8 != 0, later != 0});
  Tensor count = std::move(made.count);
  return {std::move(made.out), fp8 != 0 ? Tensor(std::move(made.scales)) : count, count, std::move(made.src_info), std::move(made.ranges)};
}

Tensor ll_combine(int64_t link, int64_t stream, int64_t key, int64_t fp8, int64_t tokens, int64_t later, Tensor y, Tensor ids, Tensor weights,
                  Tensor src_info, MaybeTensor given) {
  Owned combined = low_combine(link_of(link), stream, key, {y, ids, weights, src_info, given, fp8 != 0, later != 0, tokens, nullptr});
  return given.has_value() ? *given : Tensor(std::move(combined));
}

void ll_receive(int64_t link, int64_t stream, int64_t op, MaybeTensor stats) { low_receive(link_of(link), stream, op, stats); }

} // namespace native
