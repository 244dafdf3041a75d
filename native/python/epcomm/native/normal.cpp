/* DeepEP's normal calls: get_dispatch_layout, dispatch, combine. */
#include "ops.h"

#include <sched.h>

#include <chrono>

namespace native {

/* An Index holds the offsets in the tensor of bytes that a handle keeps: row_offsets are first, then src_info and
 * the others. before is the rank_prefix_matrix. */
struct Index {
  int64_t src_info, ids, before, bytes;
  Index(const Link &l, Elements elements, int64_t tokens) {
    src_info = padded(4 * (l.ranks + 1)); /* after row_offsets */
    ids = src_info + padded(4 * l.sizes[elements].src_info);
    before = ids + padded(4 * tokens * l.topk);
    bytes = before + padded(4 * l.ranks * l.ranks);
  }
};

std::tuple<Tensor, Tensor, Tensor> layout(int64_t link, int64_t stream, Tensor ids, int64_t experts, int64_t ranks) {
  Link &l = link_of(link);
  Timer whole(WHOLE);
  fits(l, is(ids, wide(ids) ? INT64 : INT32, {-1, -1}));
  Turn turn(l, stream, 0);
  Place place = place_of(ids);
  int64_t tokens = ids.size(0);
  int64_t by_expert = padded(4 * ranks), by_token = by_expert + padded(4 * experts);
  Tensor bytes = make(place, UINT8, {by_token + padded(tokens * ranks)});
  Tensor per_rank = view(bytes, 0, INT32, {ranks}), per_expert = view(bytes, by_expert, INT32, {experts});
  Tensor in_rank = view(bytes, by_token, BOOL, {tokens, ranks});
  EpcommLayoutOf call = {};
  call.size = sizeof call;
  call.topk_ids = at(ids);
  call.ids_bits = wide(ids) ? 64 : 32;
  call.tokens = static_cast<int>(tokens);
  call.topk = static_cast<int>(ids.size(1));
  call.experts = static_cast<int>(experts);
  call.ranks = static_cast<int>(ranks);
  call.per_rank = at<int32_t>(per_rank);
  call.per_expert = at<int32_t>(per_expert);
  call.in_rank = at<uint8_t>(in_rank);
  LAUNCHED(l.library->layout(l.comm, &call, turn.stream));
  return {per_rank, per_expert, in_rank};
}

/* Returns a call that reads or writes its row_offsets, src_info and so on in the index of a handle. */
static EpcommCall call_of(const Link &l, Elements elements, int64_t tokens, int64_t fullest, const Tensor &index) {
  Index i(l, elements, tokens);
  EpcommCall c = {};
  c.size = sizeof c;
  c.dtype = elements == FP8 ? EPCOMM_FP8 : EPCOMM_BF16;
  c.tokens = static_cast<int>(tokens);
  /* If no rank waited for the counts, each rank takes the kernels for its own number of tokens. In this layout
   * a rank can take another kernel than its peers. Debug mode would report the different numbers as an error. */
  if (fullest == 0 && !l.debug) fullest = tokens > 0 ? tokens : 1;
  c.fullest = static_cast<int>(fullest);
  c.ids_bits = 32;
  uint8_t *base = at<uint8_t>(index);
  c.row_offsets = reinterpret_cast<uint32_t *>(base);
  c.src_info = reinterpret_cast<int32_t *>(base + i.src_info);
  c.topk_ids = base + i.ids;
  c.weights = reinterpret_cast<float *>(base + i.ids); /* any floats: the kernel needs an address, and nobody reads the weights that it sends */
  /* Fields that a combine does not read must be set nevertheless. */
  c.out = c.out_scales = base;
  c.expert_ids = c.src_info;
  c.scale_offsets = c.row_offsets;
  return c;
}

/* Waits until the counts of all ranks are on this host. Then stores rows, fullest and per_expert in the link. */
static void wait_counts(Link &l) {
  Timer timer(WAIT);
  EpcommTold told = {};
  told.size = sizeof told;
  auto start = std::chrono::steady_clock::now();
  for (uint32_t looks = 1;; looks++) {
    check(l, l.library->told(l.comm, &told));
    if (told.ready) break;
    if (looks % 256 != 0) continue;
    bool differ = l.board != nullptr && l.board->verdict->load(std::memory_order_acquire) != 0;
    if (differ) status_of(l) = EPCOMM_DISAGREE;
    STD_TORCH_CHECK(!differ, "the ranks differ in what they call");
    if (l.lane->context != nullptr) sched_yield();
    auto waited = std::chrono::steady_clock::now() - start;
    STD_TORCH_CHECK(waited < std::chrono::milliseconds(2 * l.deadline_ms), "dispatch: the counts of the ranks did not arrive; check whether the stream "
                    "of this call waits for other work");
  }
  l.said[1] = told.rows;
  l.said[2] = told.fullest;
  l.per_expert = const_cast<uint32_t *>(told.per_expert);
}

/* Rows holds the outputs: the rows, and one tensor of bytes with the other data of each row. If the caller's
 * top-k is the pack's and the number of rows is known (worst is 0), dispatch writes the other data as the caller
 * gets them. Otherwise ep_received converts them. */
struct Rows {
  bool direct;
  int64_t rows;
  /* Offsets in rest. The local experts are first, with 64 bits each if `direct`. cut: offset of the weights with the
   * caller's top-k. */
  int64_t weights, sources, scales, ids, cut;
  Tensor out, rest;

  Rows(const Link &l, Place place, Elements elements, int64_t n, int64_t given, bool is_direct)
      : direct(is_direct), rows(n), weights(padded((direct ? 8 : 4) * n * l.topk)), sources(weights + padded(4 * n * l.topk)),
        scales(sources + padded(4 * n)), ids(scales + (elements == FP8 ? padded(4 * n * l.sizes[FP8].scales) : 0)),
        cut(ids + (direct ? 0 : padded(8 * n * given))), out(make(place, elements, {n, l.hidden})),
        rest(make(place, UINT8, {cut + (direct ? 0 : padded(4 * n * given))})) {}

  Tensor scales_of(const Link &l, Elements elements) const {
    return elements == FP8 ? view(rest, scales, FLOAT, {rows, l.sizes[FP8].scales}) : out;
  }
};

/* Launches the pack's dispatch into the rows. */
static void place_rows(Link &l, EpcommCall &c, const Tensor &x, const MaybeTensor &scales, const Rows &rows, EpcommStream stream) {
  c.x = at(x);
  c.input_scale = scales.has_value() ? at<float>(*scales) : nullptr;
  c.out = at(rows.out);
  c.out_scales = at<uint8_t>(rows.rest) + rows.scales;
  c.row_tokens = rows.direct ? reinterpret_cast<int32_t *>(at<uint8_t>(rows.rest) + rows.sources) : nullptr;
  c.rows = static_cast<uint64_t>(rows.rows);
  c.expert_ids = at<int32_t>(rows.rest);
  c.scale_offsets = reinterpret_cast<uint32_t *>(at<uint8_t>(rows.rest) + rows.weights);
  LAUNCHED(l.library->dispatch(l.comm, &c, stream));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> dispatch(
    int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales, Tensor per_rank, Tensor per_expert, Tensor in_rank,
    MaybeTensor ids, MaybeTensor weights, int64_t align, int64_t worst) {
  Link &l = link_of(link);
  Timer whole(WHOLE);
  int64_t tokens = x.size(0), given = ids.has_value() ? ids->size(1) : 0;
  Elements elements = scales.has_value() ? FP8 : BF16;
  fits(l, is(x, elements, {-1, l.hidden}) && is(per_rank, INT32, {l.ranks}) && is(per_expert, INT32, {l.ranks * l.local}) &&
              is(in_rank, BOOL, {tokens, l.ranks}) && (!scales.has_value() || is(*scales, FLOAT, {tokens, l.sizes[FP8].scales})) &&
              (!ids.has_value() || is(*ids, wide(*ids) ? INT64 : INT32, {tokens, -1})) &&
              (!weights.has_value() || is(*weights, FLOAT, {tokens, given})));
  Turn turn(l, stream, key);
  status_of(l) = NEEDS_WORST;
  STD_TORCH_CHECK(worst > 0 || turn.capture == 0, "dispatch in a CUDA graph");
  Place place = place_of(x);
  bool pads = weights.has_value() && given != l.topk;
  Index i(l, elements, tokens);
  Tensor index = make(place, UINT8, {i.bytes});
  MaybeTensor filled;
  if (pads) filled = make(place, FLOAT, {tokens, l.topk});
  EpcommAnnounce a = {};
  a.size = sizeof a;
  a.per_rank = at<int32_t>(per_rank);
  a.per_expert = at<int32_t>(per_expert);
  a.in_rank = at<uint8_t>(in_rank);
  a.topk_ids = ids.has_value() ? at(*ids) : nullptr;
  a.ids_bits = ids.has_value() && wide(*ids) ? 64 : 32;
  a.topk = static_cast<int>(given);
  a.tokens = static_cast<int>(tokens);
  a.align = static_cast<int>(align);
  a.worst = static_cast<int>(worst);
  a.weights = weights.has_value() ? at<float>(*weights) : nullptr;
  a.padded = pads ? at<float>(*filled) : nullptr;
  a.ids = reinterpret_cast<int32_t *>(at<uint8_t>(index) + i.ids);
  a.before = reinterpret_cast<int32_t *>(at<uint8_t>(index) + i.before);
  LAUNCHED(l.library->announce(l.comm, &a, turn.stream));
  l.said[1] = static_cast<int32_t>(worst);
  l.said[2] = 0;
  l.per_expert = nullptr;
  if (worst == 0) wait_counts(l);
  bool direct = worst == 0 && (given == 0 || given == l.topk);
  Rows rows(l, place, elements, l.said[1], given, direct);
  EpcommCall c = call_of(l, elements, tokens, l.said[2], index);
  if (weights.has_value()) c.weights = pads ? at<float>(*filled) : at<float>(*weights);
  place_rows(l, c, x, scales, rows, turn.stream);
  Tensor out_scales = rows.scales_of(l, elements), before = view(index, i.before, INT32, {l.ranks, l.ranks});
  Tensor sources = view(rows.rest, rows.sources, INT32, {rows.rows});
  if (direct)
    return {rows.out, out_scales, given > 0 ? view(rows.rest, 0, INT64, {rows.rows, given}) : sources,
            weights.has_value() ? view(rows.rest, rows.weights, FLOAT, {rows.rows, given}) : sources, sources, before, index};
  uint8_t *rest = at<uint8_t>(rows.rest);
  EpcommReceived r = {};
  r.size = sizeof r;
  r.expert_ids = c.expert_ids;
  r.weights = reinterpret_cast<float *>(rest + rows.weights);
  r.src_info = c.src_info;
  r.row_offsets = c.row_offsets;
  r.rows = l.said[1];
  r.topk = static_cast<int>(given);
  r.ids = given > 0 ? reinterpret_cast<int64_t *>(rest + rows.ids) : nullptr;
  r.cut = pads ? reinterpret_cast<float *>(rest + rows.cut) : nullptr;
  r.tokens = reinterpret_cast<int32_t *>(rest + rows.sources);
  LAUNCHED(l.library->received(l.comm, &r, turn.stream));
  return {rows.out, out_scales, given > 0 ? view(rows.rest, rows.ids, INT64, {rows.rows, given}) : sources,
          weights.has_value() ? view(rows.rest, pads ? rows.cut : rows.weights, FLOAT, {rows.rows, given}) : sources, sources,
          before, index};
}

std::tuple<Tensor, Tensor> dispatch_again(int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales, Tensor index,
                                          int64_t tokens, int64_t received, int64_t fullest) {
  Link &l = link_of(link);
  Timer whole(WHOLE);
  Elements elements = scales.has_value() ? FP8 : BF16;
  fits(l, is(x, elements, {tokens, l.hidden}) && (!scales.has_value() || is(*scales, FLOAT, {tokens, l.sizes[FP8].scales})));
  Turn turn(l, stream, key);
  Rows rows(l, place_of(x), elements, received, 0, true);
  EpcommCall c = call_of(l, elements, tokens, fullest, index);
  place_rows(l, c, x, scales, rows, turn.stream);
  return {rows.out, rows.scales_of(l, elements)};
}

std::tuple<Tensor, Tensor> combine(int64_t link, int64_t stream, int64_t key, int64_t fp8, int64_t tokens, int64_t received, int64_t fullest, Tensor y,
                                   Tensor index, MaybeTensor weights) {
  Link &l = link_of(link);
  Timer whole(WHOLE);
  fits(l, is(y, BF16, {received, l.hidden}) && (!weights.has_value() || is(*weights, FLOAT, {received, -1})));
  Turn turn(l, stream, key);
  Place place = place_of(y);
  Elements elements = fp8 != 0 ? FP8 : BF16;
  Tensor combined = make(place, BF16, {tokens, l.hidden});
  EpcommCall c = call_of(l, elements, tokens, fullest, index);
  c.y = received > 0 ? at(y) : c.out; /* no row is read, but debug mode needs an address on this GPU */
  c.combined = at(combined);
  LAUNCHED(l.library->combine(l.comm, &c, turn.stream));
  if (!weights.has_value()) return {combined, combined};
  int64_t given = weights->size(1);
  Tensor back = make(place, FLOAT, {tokens, given});
  EpcommReturn r = {};
  r.size = sizeof r;
  r.weights = at<float>(*weights);
  r.src_info = c.src_info;
  r.row_offsets = c.row_offsets;
  r.ids = static_cast<const int32_t *>(c.topk_ids);
  r.tokens = c.tokens;
  r.topk = static_cast<int>(given);
  r.out = at<float>(back);
  LAUNCHED(l.library->return_weights(l.comm, &r, turn.stream));
  return {combined, back};
}

} // namespace native
