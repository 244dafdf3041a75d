/* Declarations of the Python extension. It uses the stable ABI of PyTorch 2.9, so one binary works with every later
 * PyTorch. */
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

/* Refers to a tensor that another object owns. It may be empty. */
struct Ref {
  AtenTensorHandle handle = nullptr;
  Ref() = default;
  Ref(AtenTensorHandle h) : handle(h) {}
  Ref(const Tensor &t) : handle(t.get()) {}
  Ref(const MaybeTensor &t) : handle(t.has_value() ? t->get() : nullptr) {}
  explicit operator bool() const { return handle != nullptr; }
};

/* Owns a tensor. It may be empty. */
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
bool wide(Ref ids);

struct Place {
  int32_t type, index;
};
Place place_of(Ref t);

Owned make(Place place, Elements elements, std::initializer_list<int64_t> sizes);
/* Returns a tensor in the memory of `bytes`, from byte `at` on. */
Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes);
Owned view(Ref bytes, int64_t at, Elements elements, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides);
inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

const int64_t *sizes_of(Ref t, int64_t *dims);
inline int64_t size(Ref t, int64_t dim) {
  int64_t dims = 0;
  return sizes_of(t, &dims)[dim];
}

void *address(Ref t);

/* Returns an address that is never null, even for an empty tensor. */
template <class T = void>
T *at(Ref t) {
  alignas(16) static uint64_t none[8];
  void *p = address(t);
  return static_cast<T *>(p != nullptr ? p : none);
}

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

/* The last call, which the next call must run behind. */
struct Behind {
  void *stream, *event;
  uint64_t capture;
  bool any, recorded;
};

/* Makes calls on one GPU run one after another, because they share memory and SMs. All Buffers that a thread makes
 * for a GPU share a Lane. */
struct Lane {
  Driver driver;
  int32_t events_left; /* number of next calls that record an event; see EVENTS_AFTER_CHANGE */
  void *context;       /* of the emulated driver; null on a GPU */
  std::mutex order;
  Behind behind[2]; /* [0] last call outside a capture, [1] last captured call */
};

/* Memory that the ranks share to compare their calls (agreement.py). */
struct Board {
  std::atomic<uint32_t> *verdict;
  uint64_t *records;              /* for each rank: the number of its calls, then the keys of its last calls */
  int32_t rank, ranks;
};
constexpr uint64_t BOARD_RING = 1023;

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
  bool debug;
  Sizes sizes[2];
  EpcommCall half[2];  /* last sent dispatch, last sent combine */
  uint64_t sent_in[2]; /* for dispatch and for combine: number of the capture in which it was last sent, or 0 */
  /* Keys of combines, by which the ranks compare their calls. A key is 0 until the ranks have compared a first
   * combine of this kind. A low-latency combine uses [0], or [1] if it sends and receives in two calls. A normal
   * combine uses [0], or [1] if it has weights. */
  int64_t combine_key[2];
  int32_t said[3]; /* last call's status, received rows, fullest rank's tokens */
  uint32_t *per_expert;
};

inline int32_t &status_of(Link &l) { return l.said[0]; }
inline Link &link_of(int64_t handle) { return *reinterpret_cast<Link *>(handle); }

/* Statuses of the extension, besides EpcommStatus. NEEDS_WORST: a new dispatch in a CUDA graph lacks
 * num_worst_tokens. ELSEWHERE: a call was sent in one capture and received in another. MISREAD: a tensor has the
 * wrong device, dtype or shape. */
enum { NEEDS_WORST = 100, ELSEWHERE = 101, MISREAD = 102 };

/* Throws the library's error text if the status is not EPCOMM_OK. */
void check(Link &l, EpcommStatus status);
/* Stores the GPU on which kernels run, or -1 for the CPU. After that, is() returns false for tensors on another kind
 * of device. */
void serve(int32_t device);
/* Throws with status MISREAD if `fine` is false. */
void fits(Link &l, bool fine);
/* Returns true if kernels can read the tensor, and the tensor is contiguous and has this dtype and these sizes. A
 * size of -1 allows any size. */
bool is(Ref t, Elements elements, std::initializer_list<int64_t> sizes);
/* Throws the library's error text if a launch failed. With the emulated driver, which runs kernels on the CPU, it
 * first waits until the call has ended. */
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

/* Makes the stream of a call wait for the Lane's previous call. The call is launched while the Turn exists. */
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
