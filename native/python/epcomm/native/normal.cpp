#include "normal.h"

#include "ops.h"

#include <sched.h>

#include <chrono>

namespace native {

struct Index {
  int64_t src_info, ids, before, bytes;
  Index(const Link &l, Elements elements, int64_t tokens) {
    src_info = padded(4 * (l.ranks + 1));
    ids = src_info + padded(4 * l.sizes[elements].src_info);
    before = ids + padded(4 * tokens * l.topk);
    bytes = before + padded(4 * l.ranks * l.ranks);
  }
};

Layout normal_layout(Link &l, int64_t stream, Ref ids, int64_t experts, int64_t ranks) {
  Timer whole(WHOLE);
  fits(l, is(ids, wide(ids) ? INT64 : INT32, {-1, -1}));
  Turn turn(l, stream, 0);
  int64_t tokens = size(ids, 0);
  int64_t by_expert = padded(4 * ranks), by_token = by_expert + padded(4 * experts);
  Owned bytes = make(place_of(ids), UINT8, {by_token + padded(tokens * ranks)});
  EpcommLayoutOf call = {};
  call.size = sizeof call;
  call.topk_ids = at(ids);
  call.ids_bits = wide(ids) ? 64 : 32;
  call.tokens = static_cast<int>(tokens);
  call.topk = static_cast<int>(size(ids, 1));
  call.experts = static_cast<int>(experts);
  call.ranks = static_cast<int>(ranks);
  call.per_rank = at<int32_t>(bytes);
  call.per_expert = reinterpret_cast<int32_t *>(at<uint8_t>(bytes) + by_expert);
  call.in_rank = at<uint8_t>(bytes) + by_token;
  LAUNCHED(l.library->layout(l.comm, &call, turn.stream));
  return {view(bytes, 0, INT32, {ranks}), view(bytes, by_expert, INT32, {experts}), view(bytes, by_token, BOOL, {tokens, ranks})};
}

static EpcommCall call_of(const Link &l, Elements elements, int64_t tokens, int64_t fullest, Ref index) {
  Index i(l, elements, tokens);
  EpcommCall c = {};
  c.size = sizeof c;
  c.dtype = elements == FP8 ? EPCOMM_FP8 : EPCOMM_BF16;
  c.tokens = static_cast<int>(tokens);
  /* If the token counts of other ranks are not known, each rank takes the kernels for its own tokens. In debug mode
   * c.fullest stays 0, because the ranks compare it. */
  if (fullest == 0 && !l.debug) fullest = tokens > 0 ? tokens : 1;
  c.fullest = static_cast<int>(fullest);
  c.ids_bits = 32;
  uint8_t *base = at<uint8_t>(index);
  c.row_offsets = reinterpret_cast<uint32_t *>(base);
  c.src_info = reinterpret_cast<int32_t *>(base + i.src_info);
  c.topk_ids = base + i.ids;
  c.weights = reinterpret_cast<float *>(base + i.ids); /* no kernel reads it here */
  c.out = c.out_scales = base;
  c.expert_ids = c.src_info;
  c.scale_offsets = c.row_offsets;
  return c;
}

/* Waits for the counts of all ranks, and stores them in the link. */
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

/* Outputs of a dispatch. `rest` holds the rows' local experts, weights, sources and scales. If `direct` is true, the
 * dispatch kernel writes them in the form that DeepEP's interface has. If not, convert() writes copies in this form. */
struct Rows {
  bool direct;
  int64_t rows;
  /* Offsets in `rest`. convert() copies the experts to `ids`, and the weights to `cut`. */
  int64_t weights, sources, scales, ids, cut;
  Owned out, rest;

  Rows(const Link &l, Place place, Elements elements, int64_t n, int64_t given, bool is_direct)
      : direct(is_direct), rows(n), weights(padded((direct ? 8 : 4) * n * l.topk)), sources(weights + padded(4 * n * l.topk)),
        scales(sources + padded(4 * n)), ids(scales + (elements == FP8 ? padded(4 * n * l.sizes[FP8].scales) : 0)),
        cut(ids + (direct ? 0 : padded(8 * n * given))), out(make(place, elements, {n, l.hidden})),
        rest(make(place, UINT8, {cut + (direct ? 0 : padded(4 * n * given))})) {}

  Owned scales_of(const Link &l, Elements elements) const {
    return elements == FP8 ? view(rest, scales, FLOAT, {rows, l.sizes[FP8].scales}) : Owned();
  }
};

static void place_rows(Link &l, EpcommCall &c, Ref x, Ref scales, const Rows &rows, EpcommStream stream) {
  c.x = at(x);
  c.input_scale = scales ? at<float>(scales) : nullptr;
  c.out = at(rows.out);
  c.out_scales = at<uint8_t>(rows.rest) + rows.scales;
  c.row_tokens = rows.direct ? reinterpret_cast<int32_t *>(at<uint8_t>(rows.rest) + rows.sources) : nullptr;
  c.rows = static_cast<uint64_t>(rows.rows);
  c.expert_ids = at<int32_t>(rows.rest);
  c.scale_offsets = reinterpret_cast<uint32_t *>(at<uint8_t>(rows.rest) + rows.weights);
  LAUNCHED(l.library->dispatch(l.comm, &c, stream));
}

/* Sends the counts to all ranks. If the caller's top-k is smaller than the pack's, `filled` is memory for weights
 * that are padded to the pack's top-k. */
static void announce(Link &l, const NormalRows &in, int64_t tokens, int64_t given, Ref filled, Ref index, const Index &i, const Turn &turn) {
  EpcommAnnounce a = {};
  a.size = sizeof a;
  a.per_rank = at<int32_t>(in.per_rank);
  a.per_expert = at<int32_t>(in.per_expert);
  a.in_rank = at<uint8_t>(in.in_rank);
  a.topk_ids = in.ids ? at(in.ids) : nullptr;
  a.ids_bits = in.ids && wide(in.ids) ? 64 : 32;
  a.topk = static_cast<int>(given);
  a.tokens = static_cast<int>(tokens);
  a.align = static_cast<int>(in.align);
  a.worst = static_cast<int>(in.worst);
  a.weights = in.weights ? at<float>(in.weights) : nullptr;
  a.padded = filled ? at<float>(filled) : nullptr;
  a.ids = reinterpret_cast<int32_t *>(at<uint8_t>(index) + i.ids);
  a.before = reinterpret_cast<int32_t *>(at<uint8_t>(index) + i.before);
  LAUNCHED(l.library->announce(l.comm, &a, turn.stream));
  l.said[1] = static_cast<int32_t>(in.worst);
  l.said[2] = 0;
  l.per_expert = nullptr;
}

static void convert(Link &l, const EpcommCall &c, const Rows &rows, int64_t given, bool pads, const Turn &turn) {
  uint8_t *rest = at<uint8_t>(rows.rest);
  EpcommReceived r = {};
  r.size = sizeof r;
  r.expert_ids = c.expert_ids;
  r.weights = reinterpret_cast<float *>(rest + rows.weights);
  r.src_info = c.src_info;
  r.row_offsets = c.row_offsets;
  r.rows = static_cast<int>(rows.rows);
  r.topk = static_cast<int>(given);
  r.ids = given > 0 ? reinterpret_cast<int64_t *>(rest + rows.ids) : nullptr;
  r.cut = pads ? reinterpret_cast<float *>(rest + rows.cut) : nullptr;
  r.tokens = reinterpret_cast<int32_t *>(rest + rows.sources);
  LAUNCHED(l.library->received(l.comm, &r, turn.stream));
}

NormalReceived normal_dispatch(Link &l, int64_t stream, int64_t key, const NormalRows &in) {
  Timer whole(WHOLE);
  int64_t tokens = size(in.x, 0), given = in.ids ? size(in.ids, 1) : 0;
  Elements elements = in.scales ? FP8 : BF16;
  fits(l, is(in.x, elements, {-1, l.hidden}) && is(in.per_rank, INT32, {l.ranks}) && is(in.per_expert, INT32, {l.ranks * l.local}) &&
              is(in.in_rank, BOOL, {tokens, l.ranks}) && (!in.scales || is(in.scales, FLOAT, {tokens, l.sizes[FP8].scales})) &&
              (!in.ids || is(in.ids, wide(in.ids) ? INT64 : INT32, {tokens, -1})) && (!in.weights || is(in.weights, FLOAT, {tokens, given})));
  Turn turn(l, stream, key);
  status_of(l) = NEEDS_WORST;
  STD_TORCH_CHECK(in.worst > 0 || turn.capture == 0, "dispatch in a CUDA graph");
  Place place = place_of(in.x);
  bool pads = in.weights && given != l.topk;
  Index i(l, elements, tokens);
  NormalReceived made;
  made.index = make(place, UINT8, {i.bytes});
  Owned filled;
  if (pads) filled = make(place, FLOAT, {tokens, l.topk});
  announce(l, in, tokens, given, filled, made.index, i, turn);
  made.before = view(made.index, i.before, INT32, {l.ranks, l.ranks});
  if (in.worst == 0) wait_counts(l);
  bool direct = in.worst == 0 && (given == 0 || given == l.topk);
  Rows rows(l, place, elements, l.said[1], given, direct);
  EpcommCall c = call_of(l, elements, tokens, l.said[2], made.index);
  if (in.weights) c.weights = at<float>(pads ? Ref(filled) : in.weights);
  place_rows(l, c, in.x, in.scales, rows, turn.stream);
  if (!direct) convert(l, c, rows, given, pads, turn);
  made.scales = rows.scales_of(l, elements);
  made.sources = view(rows.rest, rows.sources, INT32, {rows.rows});
  if (given > 0) made.ids = view(rows.rest, direct ? 0 : rows.ids, INT64, {rows.rows, given});
  if (in.weights) made.weights = view(rows.rest, pads ? rows.cut : rows.weights, FLOAT, {rows.rows, given});
  made.out = std::move(rows.out);
  return made;
}

NormalCombined normal_combine(Link &l, int64_t stream, int64_t key, const NormalReturned &in) {
  Timer whole(WHOLE);
  fits(l, is(in.y, BF16, {in.received, l.hidden}) && (!in.weights || is(in.weights, FLOAT, {in.received, -1})));
  Turn turn(l, stream, key);
  Place place = place_of(in.y);
  NormalCombined made;
  made.combined = make(place, BF16, {in.tokens, l.hidden});
  EpcommCall c = call_of(l, in.fp8 ? FP8 : BF16, in.tokens, in.fullest, in.index);
  c.y = in.received > 0 ? at(in.y) : c.out;
  c.combined = at(made.combined);
  LAUNCHED(l.library->combine(l.comm, &c, turn.stream));
  if (!in.weights) return made;
  int64_t given = size(in.weights, 1);
  made.weights = make(place, FLOAT, {in.tokens, given});
  EpcommReturn r = {};
  r.size = sizeof r;
  r.weights = at<float>(in.weights);
  r.src_info = c.src_info;
  r.row_offsets = c.row_offsets;
  r.ids = static_cast<const int32_t *>(c.topk_ids);
  r.tokens = c.tokens;
  r.topk = static_cast<int>(given);
  r.out = at<float>(made.weights);
  LAUNCHED(l.library->return_weights(l.comm, &r, turn.stream));
  return made;
}

/* ---- operators ---- */

std::tuple<Tensor, Tensor, Tensor> layout(int64_t link, int64_t stream, Tensor ids, int64_t experts, int64_t ranks) {
  Layout made = normal_layout(link_of(link), stream, ids, experts, ranks);
  return {std::move(made.per_rank), std::move(made.per_expert), std::move(made.in_rank)};
}

static Tensor either(Owned made, const Tensor &other) { return made.get() != nullptr ? Tensor(std::move(made)) : other; }

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> dispatch(
    int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales, Tensor per_rank, Tensor per_expert, Tensor in_rank,
    MaybeTensor ids, MaybeTensor weights, int64_t align, int64_t worst) {
  NormalReceived made = normal_dispatch(link_of(link), stream, key, {x, scales, per_rank, per_expert, in_rank, ids, weights, align, worst});
  Tensor out = std::move(made.out), sources = std::move(made.sources);
  return {out, either(std::move(made.scales), out), either(std::move(made.ids), sources), either(std::move(made.weights), sources), sources,
          std::move(made.before), std::move(made.index)};
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
  Owned out_scales = rows.scales_of(l, elements);
  Tensor out = std::move(rows.out);
  return {out, either(std::move(out_scales), out)};
}

std::tuple<Tensor, Tensor> combine(int64_t link, int64_t stream, int64_t key, int64_t fp8, int64_t tokens, int64_t received, int64_t fullest, Tensor y,
                                   Tensor index, MaybeTensor weights) {
  NormalCombined made = normal_combine(link_of(link), stream, key, {y, index, weights, fp8 != 0, tokens, received, fullest});
  Tensor combined = std::move(made.combined);
  return {combined, either(std::move(made.weights), combined)};
}

} // namespace native
