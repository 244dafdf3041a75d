/* Declarations that the files of the extension share: tensors, a communicator (Link), and the order of calls (Lane).
 *
 * The extension uses PyTorch's stable ABI of 2.9, so one binary works with every later PyTorch
 * and every Python. That ABI cannot choose a stream, and has no events and no record_stream.
 * So the stream is passed as a number, events are the driver's, and Python calls record_stream
 * for the tensors of calls on other streams. */
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

/* A Ref refers to a tensor that another object owns, or to none. Unlike a Tensor, it allocates nothing. */
struct Ref {
  AtenTensorHandle handle = nullptr;
  Ref() = default;
  Ref(AtenTensorHandle h) : handle(h) {}
  Ref(const Tensor &t) : handle(t.get()) {}
  Ref(const MaybeTensor &t) : handle(t.has_value() ? t->get() : nullptr) {}
  explicit operator bool() const { return handle != nullptr; }
};

/* An Owned owns a tensor, or none. It converts to a Tensor, which then owns the tensor. */
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

/* Dtypes as numbers of the stable ABI. */
enum Elements { BF16, FP8, FLOAT, INT32, INT64, UINT8, BOOL };
int32_t dtype_of(Elements e);
bool wide(Ref ids); /* returns whether ids are int64 */

/* A Place is the device of an argument. New tensors are made on the same device. */
struct Place {
  int32_t type, index;
};
Place place_of(Ref t);

Owned make(Place place, Elements elements, std::initializer_list<int64_t> sizes);
/* Returns a tensor over the bytes of another tensor, from byte `at` on. */
Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes);
Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides);
inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/* Returns the sizes of a tensor, and stores the number of sizes in dims. */
const int64_t *sizes_of(Ref t, int64_t *dims);
inline int64_t size(Ref t, int64_t dim) {
  int64_t dims = 0;
  return sizes_of(t, &dims)[dim];
}

void *address(Ref t);

/* Returns the address of a tensor, never null: the library needs an address even if no row arrives. */
template <class T = void>
T *at(Ref t) {
  alignas(16) static uint64_t none[8];
  void *p = address(t);
  return static_cast<T *>(p != nullptr ? p : none);
}

/* Driver holds functions of the CUDA driver. Python passes their addresses. */
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

/* Behind describes the last call of one kind (eager or captured), and the event recorded after it, if any. */
struct Behind {
  void *stream, *event;
  uint64_t capture;
  bool any, recorded;
};

/* A Lane orders the calls of all Buffers that one thread has made for one GPU. Calls of one Buffer must not overlap,
 * because they share memory. Calls of two Buffers must not overlap, because they may need more SMs together
 * than there are. Calls in a graph and calls outside it cannot wait for each other. A program with one stream
 * needs no events; see RECORDED in order.cpp. */
struct Lane {
  Driver driver;
  int32_t recorded; /* number of next calls after which an event is recorded */
  void *context; /* the emulated driver's context, on which the host waits for the end of every call; null on a GPU */
  std::mutex order; /* protects behind and recorded, because two threads may use Buffers that a third thread made */
  Behind behind[2]; /* eager, captured */
};

/* Board lists the calls that all ranks have made, in memory that they share; see agreement.py. */
struct Board {
  std::atomic<uint32_t> *verdict; /* 0 until a rank has found that the ranks differ */
  uint64_t *records;              /* [ranks][1 + BOARD_RING]: number of calls so far, then the keys of the last calls */
  int32_t rank, ranks;
};
constexpr uint64_t BOARD_RING = 1023;

/* Sizes of the outputs of a dtype, from epcomm_outputs. */
struct Sizes {
  int64_t max_rows, out_bytes, scales, src_info;
};

struct Link {
  EpComm *comm;
  const Library *library;
  Lane *lane;
  Board *board; /* null if the ranks share none */
  int32_t ranks, local, hidden, topk, max_tokens, masked;
  int64_t deadline_ms; /* longest wait of the host */
  bool debug;          /* debug mode, in which the ranks compare their calls and the number of tokens of the fullest rank */
  Sizes sizes[2]; /* bf16, fp8 */
  EpcommCall half[2]; /* for dispatch and combine: the call that was sent and not yet received */
  uint64_t sent_in[2]; /* for dispatch and combine: number of the capture in which this call was sent */
  /* Keys of combines, 0 until the ranks have compared them. Layout masked: [0] whole combines, [1] combines in halves.
   * Layout rank:packed: [0] without weights, [1] with weights. */
  int64_t combine_key[2];
  int32_t said[3]; /* results of the last call for Python: status, rows received, tokens of the fullest rank */
  uint32_t *per_expert;
};

inline int32_t &status_of(Link &l) { return l.said[0]; }
inline Link &link_of(int64_t handle) { return *reinterpret_cast<Link *>(handle); }

/* Statuses that EpcommStatus lacks. NEEDS_WORST: a new dispatch in a graph needs num_worst_tokens, because the host
 * cannot wait for counts there. ELSEWHERE: a call is received in another capture than it was sent in. MISREAD: a
 * kernel would misread a tensor; Python then raises an error that names the tensor. */
enum { NEEDS_WORST = 100, ELSEWHERE = 101, MISREAD = 102 };

/* Throws an exception with the library's error text if the status is not EPCOMM_OK. */
void check(Link &l, EpcommStatus status);
/* Stores on which device the kernels of this process run, -1 for the CPU. From then on is() refuses tensors on a device
 * of another type. */
void serve(int32_t device);
/* Throws if fine is false: a kernel would misread a tensor. */
void fits(Link &l, bool fine);
/* Returns whether a tensor is contiguous, on a device whose memory kernels can read, and has the dtype and the sizes; -1 allows any size. */
bool is(Ref t, Elements elements, std::initializer_list<int64_t> sizes);
/* Calls check after a launch. On the emulated driver it first waits for the launch, because PyTorch reuses memory of
 * the CPU without regard to streams. */
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

/* A Turn puts one call in order: its stream waits for the call before it, and the next call waits for this one, even if
 * this one failed after a launch. */
class Turn {
 public:
  Turn(Link &l, int64_t stream, int64_t key);
  ~Turn();
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  EpcommStream stream;
  uint64_t capture; /* number of the capture that the stream is in, 0 outside captures */

 private:
  Link &link_;
};

/* The parts of the host's time. A Profile sums them in ns while it is on. */
enum Part { ORDER, ALLOCATION, LAUNCH, WAIT, WHOLE, PARTS };
struct Profile {
  bool on;
  int64_t ns[PARTS], calls;
};
extern Profile profile;

/* A Timer adds the time from its construction to its destruction to a part. */
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
