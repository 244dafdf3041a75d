#include "native.h"

#include <chrono>

namespace native {

Profile profile;

int64_t Timer::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void check(Link &l, EpcommStatus status) {
  status_of(l) = status;
  STD_TORCH_CHECK(status == EPCOMM_OK, l.library->error(l.comm));
}

void fits(Link &l, bool fine) {
  status_of(l) = fine ? 0 : MISREAD;
  STD_TORCH_CHECK(fine, "a tensor does not fit");
}

void launched(Link &l, EpcommStatus status) {
  const Lane &lane = *l.lane;
  if (lane.context != nullptr) { /* the emulated driver uses CPU memory, which PyTorch reuses at once, so wait */
    lane.driver.context_set(lane.context);
    lane.driver.context_wait();
  }
  check(l, status);
}

/* Compares this rank's call with the call of the same number on other ranks. */
static void compare(Link &l, uint64_t key) {
  Board *b = l.board;
  if (b == nullptr) return;
  const uint64_t words = 1 + BOARD_RING;
  uint64_t *mine = b->records + static_cast<uint64_t>(b->rank) * words;
  bool differ = b->verdict->load(std::memory_order_acquire) != 0;
  uint64_t n = mine[0];
  if (key != 0) { /* 0: Python has already compared this call */
    n++;
    __atomic_store_n(&mine[1 + n % BOARD_RING], key, __ATOMIC_RELAXED);
    __atomic_store_n(&mine[0], n, __ATOMIC_RELEASE);
  }
  for (int32_t r = 0; r < b->ranks && key != 0; r++) {
    uint64_t *theirs = b->records + static_cast<uint64_t>(r) * words;
    uint64_t calls = __atomic_load_n(&theirs[0], __ATOMIC_ACQUIRE);
    if (calls < n || calls - n >= BOARD_RING - 1) continue;
    differ |= __atomic_load_n(&theirs[1 + n % BOARD_RING], __ATOMIC_RELAXED) != key;
  }
  if (differ) status_of(l) = EPCOMM_DISAGREE;
  STD_TORCH_CHECK(!differ, "the ranks differ in what they call");
}

static uint64_t capture_of(const Driver &d, void *stream) {
  int status = 0;
  uint64_t number = 0;
  d.capture_info(stream, &status, &number, nullptr, nullptr, nullptr);
  return status != 0 ? number : 0;
}

/* How many calls after a change of stream record an event. If the stream then changes again, the next call waits for
 * the last event. Later calls record no events, because an event delays the next kernel. */
constexpr int32_t EVENTS_AFTER_CHANGE = 32;

Turn::Turn(Link &l, int64_t handle, int64_t key) : stream(reinterpret_cast<void *>(handle)), capture(0), link_(l) {
  Timer timer(ORDER);
  profile.calls++;
  status_of(l) = EPCOMM_OK;
  compare(l, static_cast<uint64_t>(key));
  Lane &lane = *l.lane;
  if (lane.context != nullptr) return;
  capture = capture_of(lane.driver, stream);
  std::lock_guard<std::mutex> alone(lane.order);
  Behind &b = lane.behind[capture != 0];
  if (!b.any || b.stream == stream || b.capture != capture) return;
  lane.events_left = EVENTS_AFTER_CHANGE;
  /* If the previous call recorded no event, record one now. This is not possible if a capture has begun on the
   * previous call's stream. Then no wait is needed: torch.cuda.graph has waited for the GPU before that capture. */
  if (!b.recorded && capture_of(lane.driver, b.stream) != capture) return;
  if (!b.recorded) lane.driver.event_record(b.event, b.stream);
  lane.driver.stream_wait(stream, b.event, 0);
}

Turn::~Turn() {
  Lane &lane = *link_.lane;
  if (lane.context != nullptr) return;
  std::lock_guard<std::mutex> alone(lane.order);
  Behind &b = lane.behind[capture != 0];
  b = {stream, b.event, capture, true, lane.events_left > 0};
  if (!b.recorded) return;
  lane.events_left--;
  Timer timer(ORDER);
  lane.driver.event_record(b.event, stream);
}

} // namespace native

/* ---- functions that Python calls by ctypes ---- */

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT int64_t epcomm_native_version() { return 4; }

/* `addresses` holds the functions of native::Driver. Events are never destroyed, because a stream could be in a
 * capture at that moment. */
EXPORT native::Lane *epcomm_native_lane(const uint64_t *addresses, void *context) {
  native::Lane *lane = new native::Lane();
  static_assert(sizeof lane->driver == 6 * sizeof *addresses);
  __builtin_memcpy(&lane->driver, addresses, sizeof lane->driver);
  lane->context = context;
  for (native::Behind &b : lane->behind)
    if (context == nullptr && lane->driver.event_create(&b.event, 2) != 0) {
      delete lane;
      return nullptr;
    }
  return lane;
}

EXPORT native::Board *epcomm_native_board(uint32_t *verdict, uint64_t *records, int32_t rank, int32_t ranks) {
  return new native::Board{reinterpret_cast<std::atomic<uint32_t> *>(verdict), records, rank, ranks};
}

/* `numbers` begins with ranks, local experts, hidden, topk, max_tokens, and 1 for layout masked. Next come four numbers
 * for BF16 and the same four for FP8: max_rows, out_bytes, scales, and how many 4-byte words src_info has. The last two
 * numbers are the deadline in ms, and 1 in debug mode. */
EXPORT native::Link *epcomm_native_link(EpComm *comm, const uint64_t *functions, native::Lane *lane, native::Board *board,
                                        const int64_t *numbers) {
  native::Library *library = new native::Library();
  __builtin_memcpy(library, functions, sizeof *library);
  native::Link *l = new native::Link();
  l->comm = comm;
  l->library = library;
  l->lane = lane;
  l->board = board;
  int32_t *into[] = {&l->ranks, &l->local, &l->hidden, &l->topk, &l->max_tokens, &l->masked};
  for (int i = 0; i < 6; i++) *into[i] = static_cast<int32_t>(numbers[i]);
  __builtin_memcpy(l->sizes, numbers + 6, sizeof l->sizes);
  l->deadline_ms = numbers[14];
  l->debug = numbers[15] != 0;
  return l;
}

EXPORT const int32_t *epcomm_native_said(const native::Link *l) { return l->said; }
EXPORT const uint32_t *epcomm_native_per_expert(const native::Link *l) { return l->per_expert; }
EXPORT int32_t epcomm_native_experts(const native::Link *l) { return l->local; }

/* Begins a profile if `on` is 1, and ends it if `on` is 0. It stores in `out` the time of each Part in ns, then the
 * number of calls. */
EXPORT void epcomm_native_profile(int32_t on, int64_t *out) {
  native::Profile &p = native::profile;
  for (int i = 0; i < native::PARTS; i++) out[i] = p.ns[i];
  out[native::PARTS] = p.calls;
  p = {};
  p.on = on != 0;
}

EXPORT uint64_t epcomm_native_sent_in(const native::Link *l, int32_t op) { return l->sent_in[op]; }

} // extern "C"
