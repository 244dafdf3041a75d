/* Declarations shared by the files of the extension.
 *
 * The extension uses PyTorch's stable ABI of 2.9, so one binary works with every later PyTorch and every Python. That
 * ABI has no streams, events or record_stream: streams are numbers, events the driver's, and Python calls
 * record_stream. */
#ifndef EPCOMM_NATIVE_H
#define EPCOMM_NATIVE_H

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "epcomm_deepep.h"

namespace native {

using torch::stable::Tensor;
using MaybeTensor = std::optional<Tensor>;

/* Refers to a tensor that another object owns, or to none. */
struct Ref {
  AtenTensorHandle handle = nullptr;
  Ref() = default;
  Ref(AtenTensorHandle h) : handle(h) {}
  Ref(const Tensor &t) : handle(t.get()) {}
  Ref(const MaybeTensor &t) : handle(t.has_value() ? t->get() : nullptr) {}
  explicit operator bool() const { return handle != nullptr; }
};

/* Owns a tensor, or none. */
class Owned {
 public:
  explicit Owned(AtenTensorHandle h = nullptr) : handle_(h) {}
  Owned(Owned &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }
  operator Ref() const { return Ref(handle_); }
  operator Tensor() && { return Tensor(std::exchange(handle_, nullptr)); }
  AtenTensorHandle get() const { return handle_; }

 private:
  AtenTensorHandle handle_;
};

/* Dtypes of the stable ABI. */
enum Elements { BF16, FP8, FLOAT, INT32, INT64, UINT8, BOOL };
int32_t dtype_of(Elements e);
bool wide(Ref ids); /* whether ids are int64 */

/* The device of an argument, on which new tensors are made. */
struct Place {
  int32_t type, index;
};
Place place_of(Ref t);

Owned make(Place place, Elements elements, std::initializer_list<int64_t> sizes);
/* Returns a tensor over another's bytes, from byte `at` on. */
Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes);
Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides);
inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/* Stores the number of sizes in dims. */
const int64_t *sizes_of(Ref t, int64_t *dims);
inline int64_t size(Ref t, int64_t dim) {
  int64_t dims = 0;
  return sizes_of(t, &dims)[dim];
}

void *address(Ref t);

/* Never null: the library needs an address even if no row arrives. */
template <class T = void>
T *at(Ref t) {
  alignas(16) static uint64_t none[8];
  void *p = address(t);
  return static_cast<T *>(p != nullptr ? p : none);
}

/* Functions of the CUDA driver, at addresses from Python. */
struct Driver {
  int (*event_create)(void **, unsigned);
  int (*event_record)(void *, void *);
  int (*stream_wait)(void *, void *, unsigned);
  int (*capture_info)(void *, int *, uint64_t *, void *, void *, void *);
  int (*context_set)(void *);
  int (*context_wait)();
};

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

/* The last call of one kind (eager or captured), and the event after it, if any. */
struct Behind {
  void *stream, *event;
  uint64_t capture;
  bool any, recorded;
};

/* Orders the calls of all Buffers that one thread has made for one GPU. Two calls at once could use the same memory,
 * or need more SMs than there are. Calls in a graph and calls outside it cannot wait for each other. */
struct Lane {
  Driver driver;
  int32_t recorded; /* how many of the next calls record an event */
  void *context; /* the emulated driver's context, on which every call is awaited; null on a GPU */
  std::mutex order; /* two threads may use Buffers that a third made */
  Behind behind[2]; /* eager, captured */
};

/* The calls that all ranks have made, in shared memory; see agreement.py. */
struct Board {
  std::atomic<uint32_t> *verdict; /* not 0 once ranks differ */
  uint64_t *records;              /* [ranks][1 + BOARD_RING]: number of calls, then the last keys */
  int32_t rank, ranks;
};
constexpr uint64_t BOARD_RING = 1023;

/* Sizes of a dtype's outputs. */
struct Sizes {
  int64_t max_rows, out_bytes, scales, src_info;
};

struct Link {
  EpComm *comm;
  const Library *library;
  Lane *lane;
  Board *board;
  int32_t ranks, local, hidden, topk, max_tokens, masked;
  int64_t deadline_ms;
  bool debug;          /* debug mode, in which the ranks compare their calls */
  Sizes sizes[2]; /* bf16, fp8 */
  EpcommCall half[2]; /* by op: the call sent and not yet received */
  uint64_t sent_in[2]; /* by op: capture of the last send */
  /* Keys of combines, 0 until compared. Layout masked: [0] whole, [1] in halves. Layout rank:packed: [0] without
   * weights, [1] with weights. */
  int64_t combine_key[2];
  int32_t said[3]; /* of the last call: status, rows received, tokens of the fullest rank */
  uint32_t *per_expert;
};

inline int32_t &status_of(Link &l) { return l.said[0]; }
inline Link &link_of(int64_t handle) { return *reinterpret_cast<Link *>(handle); }

/* Statuses that EpcommStatus lacks. NEEDS_WORST: a new dispatch in a graph needs num_worst_tokens, because the host
 * cannot wait for counts there. ELSEWHERE: a call is received in another capture than it was sent in. MISREAD: a
 * kernel would misread a tensor; Python then raises an error that names the tensor. */
enum { NEEDS_WORST = 100, ELSEWHERE = 101, MISREAD = 102 };

/* Throws the library's error text if the status is not EPCOMM_OK. */
void check(Link &l, EpcommStatus status);
/* Stores the device of this process's kernels, -1 for the CPU; is() then refuses tensors elsewhere. */
void serve(int32_t device);
/* Throws MISREAD if fine is false. */
void fits(Link &l, bool fine);
/* Returns whether kernels can read a tensor, and it is contiguous, with this dtype and these sizes; -1 allows any
 * size. */
bool is(Ref t, Elements elements, std::initializer_list<int64_t> sizes);
/* Calls check. On the emulated driver it first waits, because PyTorch reuses CPU memory without regard to streams. */
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

/* Puts one call in order between the call before it and the next one, even if it fails after a launch. */
class Turn {
 public:
  Turn(Link &l, int64_t stream, int64_t key);
  ~Turn();
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  EpcommStream stream;
  uint64_t capture;

 private:
  Link &link_;
};

/* Parts of the host's time, in ns. */
enum Part { ORDER, ALLOCATION, LAUNCH, WAIT, WHOLE, PARTS };
struct Profile {
  bool on;
  int64_t ns[PARTS], calls;
};
extern Profile profile;

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
