/* Declarations that the files of the extension share: tensors, one communicator, and the
 * order of calls.
 *
 * The extension stands on PyTorch's stable ABI of 2.9, so that one binary serves every later
 * PyTorch and every Python. That ABI has no streams of a caller's choice, no events and no
 * record_stream: the stream comes as a number, events are the driver's, and what a call on
 * another stream has to record is recorded in Python. */
#ifndef EPCOMM_NATIVE_H
#define EPCOMM_NATIVE_H

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "epcomm.h"

namespace native {

using torch::stable::Tensor;
using MaybeTensor = std::optional<Tensor>;

/* Dtypes as numbers of the stable ABI. */
enum Elements { BF16, FP8, FLOAT, INT32, INT64, UINT8, BOOL };
int32_t dtype_of(Elements e);
bool wide(const Tensor &ids); /* whether they are int64 */

/* Where new tensors are made: on the device of a tensor that came in. */
struct Place {
  int32_t type, index;
};
Place place_of(const Tensor &t);

Tensor make(Place place, Elements elements, std::initializer_list<int64_t> sizes);
Tensor make(Place place, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides);
/* A tensor over bytes of another, from byte `at` on. */
Tensor view(const Tensor &bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes);
Tensor view(const Tensor &bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides);
inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/* The address of a tensor; never null, since the library needs an address even if no row
 * arrives. */
template <class T = void>
T *at(const Tensor &t) {
  alignas(16) static uint64_t none[8];
  void *p = t.data_ptr();
  return static_cast<T *>(p != nullptr ? p : none);
}

/* The driver's functions, by their addresses: the library found the driver. */
struct Driver {
  int (*event_create)(void **, unsigned);
  int (*event_record)(void *, void *);
  int (*stream_wait)(void *, void *, unsigned);
  int (*capture_info)(void *, int *, uint64_t *, void *, void *, void *);
  int (*context_set)(void *);
  int (*context_wait)();
};

/* Functions of libepcomm. */
struct Library {
  EpcommStatus (*dispatch)(EpComm *, const EpcommCall *, EpcommStream);
  EpcommStatus (*dispatch_send)(EpComm *, const EpcommCall *, EpcommStream);
  EpcommStatus (*dispatch_recv)(EpComm *, const EpcommCall *, EpcommStream);
  EpcommStatus (*combine)(EpComm *, const EpcommCall *, EpcommStream);
  EpcommStatus (*combine_send)(EpComm *, const EpcommCall *, EpcommStream);
  EpcommStatus (*combine_recv)(EpComm *, const EpcommCall *, EpcommStream);
  EpcommStatus (*layout)(EpComm *, const EpcommLayoutOf *, EpcommStream);
  EpcommStatus (*announce)(EpComm *, const EpcommAnnounce *, EpcommStream);
  EpcommStatus (*told)(EpComm *, EpcommTold *);
  EpcommStatus (*received)(EpComm *, const EpcommReceived *, EpcommStream);
  EpcommStatus (*return_weights)(EpComm *, const EpcommReturn *, EpcommStream);
  EpcommStatus (*add_counts)(EpComm *, const uint32_t *, int32_t *, int, EpcommStream);
  const char *(*error)(EpComm *);
};

/* The last call of one kind, and the event after it if one was recorded. */
struct Behind {
  void *stream, *event;
  uint64_t capture;
  bool any, recorded;
};

/* Orders the calls of a Buffer: they share memory. Calls in a graph and calls outside it
 * cannot wait for each other. A program with one stream needs no events: they are recorded
 * behind each call from when a second stream comes. */
struct Lane {
  Driver driver;
  bool streams; /* more than one was seen */
  void *context; /* set where each call is waited for at once: the emulated driver's */
  Behind behind[2]; /* eager, captured */
};

/* What all ranks have called so far, in memory that they share; see agreement.py. */
struct Board {
  std::atomic<uint32_t> *verdict; /* not 0 once ranks differ */
  uint64_t *records;              /* [ranks][1 + BOARD_RING]: calls so far, then the keys of the last ones */
  int32_t rank, ranks;
};
constexpr uint64_t BOARD_RING = 1023;

/* Outputs that a dtype has, of epcomm_outputs. */
struct Sizes {
  int64_t max_rows, out_bytes, scales, src_info;
};

struct Link {
  EpComm *comm;
  const Library *library;
  Lane *lane;
  Board *board; /* null if the ranks share none */
  int32_t ranks, local, hidden, topk, max_tokens, masked;
  int64_t deadline_ms; /* of a wait of the host */
  bool debug;          /* calls are compared over ranks, fullest too */
  Sizes sizes[2]; /* bf16, fp8 */
  EpcommCall half[2]; /* that was sent and waits to be received, by op */
  uint64_t sent_in[2]; /* capture of its stream */
  int32_t said[3]; /* what Python reads behind a call: status, rows received, tokens of the fullest rank */
  uint32_t *per_expert;
};

inline int32_t &status_of(Link &l) { return l.said[0]; }
inline Link &link_of(int64_t handle) { return *reinterpret_cast<Link *>(handle); }

/* Statuses beside EpcommStatus: a new dispatch in a graph, where the host cannot wait; a half in
 * another capture than its send; a tensor that a kernel would misread, which Python then names. */
enum { NEEDS_WORST = 100, ELSEWHERE = 101, MISREAD = 102 };

/* Ends in an exception that carries the library's sentence. */
void check(Link &l, EpcommStatus status);
/* Fails with an error that says that a tensor does not fit. */
void fits(Link &l, bool fine);
/* Whether a tensor is contiguous and of a dtype and sizes; a size of -1 is any. */
bool is(const Tensor &t, Elements elements, std::initializer_list<int64_t> sizes);
/* The same behind a launch, for which it waits on the emulated driver: memory of the CPU is not
 * given away in the order of a stream. */
void launched(Link &l, EpcommStatus status);
#define LAUNCHED(call)                    \
  do {                                    \
    EpcommStatus status_;                 \
    {                                     \
      Timer timer_(LAUNCH);               \
      status_ = (call);                   \
    }                                     \
    launched(l, status_);                 \
  } while (0)

/* Holds the place of one call on a stream: it waits for the call before, and the next one
 * for it, also where it failed behind a launch. */
class Turn {
 public:
  Turn(Link &l, int64_t stream, int64_t key);
  ~Turn();
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  EpcommStream stream;
  uint64_t capture; /* that the stream is in, 0 outside captures */

 private:
  Link &link_;
};

/* The parts of the host's time, in ns, if a program asks for them. */
enum Part { ORDER, ALLOCATION, LAUNCH, WAIT, WHOLE, PARTS };
struct Profile {
  bool on;
  int64_t ns[PARTS], calls;
};
extern Profile profile;

/* Adds the time that it lives to a part. */
class Timer {
 public:
  explicit Timer(Part part) : part_(part), start_(profile.on ? now() : 0) {}
  ~Timer() {
    if (profile.on) profile.ns[part_] += now() - start_;
  }

 private:
  static int64_t now();
  Part part_;
  int64_t start_;
};

} // namespace native

#endif
