/* The extension replaces some methods of the Python class Buffer. This file declares the objects that they use and the
 * calls that they make. */
#ifndef EPCOMM_NATIVE_CALLS_H
#define EPCOMM_NATIVE_CALLS_H

#include "python.h"

#include <deque>
#include <exception>
#include <string>

#include "low_latency.h"
#include "normal.h"

namespace native {

/* Parameters of the methods, by position. */
enum { X, IDS, MOST, EXPERTS, STATS, WAITS, FP8_ROWS, ROUND_SCALE, UE8M0, ASYNC, HOOK, NVFP4, GLOBAL_SCALE };
enum { WEIGHTS = 2, HANDLE, LOGFMT, ZERO_COPY, COMBINE_ASYNC, COMBINE_HOOK, OUT, COMBINE_WAITS, OVERLAP, MOST_PARAMETERS = 16 };
enum { LAYOUT_IDS, LAYOUT_EXPERTS, LAYOUT_PREVIOUS, LAYOUT_ASYNC };
enum { ROWS, ROWS_HANDLE, PER_RANK, PER_RDMA_RANK, IN_RANK, PER_EXPERT, TOPK_IDS, TOPK_WEIGHTS, ALIGNMENT, WORST, CONFIG, PREVIOUS, ROWS_ASYNC };
enum { ROWS_WEIGHTS = 2, BIAS, ADD_CONFIG, ADD_PREVIOUS, ADD_ASYNC }; /* of a normal combine, after ROWS and ROWS_HANDLE */

inline PyObject *kept(PyObject *o) {
  Py_INCREF(o);
  return o;
}

inline bool absent(PyObject *value) { return value == nullptr || value == Py_None; }

/* Returns null for the CPU. */
EpcommStream current_stream(int32_t device);
/* Returns whether current_stream works. */
bool knows_streams(int32_t device);

/* Takes the references to the items. Returns null if an item is null. */
PyObject *tuple_of(std::initializer_list<PyObject *> items);
/* Returns a tuple of the items as an instance of `type`, a subclass of tuple. */
PyObject *tuple_of(PyTypeObject *type, std::initializer_list<PyObject *> items);

/* Raises the exception that link.reason makes of a RuntimeError with this text. Returns null. */
PyObject *failed(PyObject *link, const std::string &text);

/* Calls f without Python's global lock. Returns true, or stores the error text of what f threw. */
template <class F>
bool released(F f, std::string *text) {
  Released others;
  try {
    f();
    return true;
  } catch (const std::exception &e) {
    *text = e.what();
  }
  return false;
}

template <class F>
void *slot(F f) {
  return reinterpret_cast<void *>(f);
}

/* Arguments of low-latency dispatches that the ranks have compared. A key is a number that stands for arguments; see
 * agreement.py. */
struct Known {
  int64_t hidden, experts, topk, most, key;
  bool fp8, later;
  int32_t device; /* -1: CPU */
  Link *native;
  PyObject *link;
  PyObject *begun; /* by op (0 dispatch, 1 combine): the Hook of a call not yet received, or None */
  PyObject *wide;  /* hidden, as Python's int */
  PyObject *sent;  /* what the last handle keeps for combine (a Sent); handles for the same number of tokens share it */
  int64_t tokens;
};

/* Arguments of normal dispatches that the ranks have compared. */
struct Normal {
  int64_t hidden, experts, topk, sms, key;
  bool fp8;
  int32_t device; /* -1: CPU */
  Link *native;
  PyObject *link;
  PyObject *nothing; /* an empty tensor */
};

/* Stores a new Hook in link.begun. It takes the reference to tensors. */
PyObject *new_hook(const Known &k, int op, EpcommStream stream, PyObject *tensors, PyObject *stats);
/* Returns false if Python raised. */
bool add_hooks();

/* What the methods of one Buffer need. */
struct Calls {
  PyObject ob_base;
  std::deque<Known> *known; /* a deque never moves its elements, which calls use while another thread adds one */
  std::deque<Normal> *normal;
  Slab *slab;
  Link *counter; /* the link whose kernel get_dispatch_layout uses; may be null */
  PyObject *counter_link;
  int32_t counter_device;
  PyTypeObject *handle, *sent, *normal_sent;
  PyObject *event; /* every call returns this object, which holds no CUDA event */
  bool paused;     /* ranks have left or come back, so all calls go the long way (see dispatch_now) */
};

inline Calls *as_calls(PyObject *o) { return reinterpret_cast<Calls *>(o); }

extern PyTypeObject *calls_type;
extern PyObject *sent_name;

/* Makes a low-latency dispatch. Returns null without an exception if Python must make the call (the long way, see
 * methods.cpp). */
PyObject *dispatch_now(Calls *c, PyObject *const *args, bool fp8, bool later);
PyObject *combine_now(Calls *c, PyObject *y, PyObject *const *args, bool later);
/* These functions return null in the same cases as dispatch_now. */
PyObject *layout_now(Calls *c, PyObject *const *args, int64_t ranks);
PyObject *send_now(Calls *c, PyObject *buffer, PyObject *const *args);
PyObject *add_now(Calls *c, PyObject *const *args);

PyObject *learn_normal(PyObject *self, PyObject *args);
PyObject *learn_layout(PyObject *self, PyObject *args);
/* Returns false if Python raised. */
bool add_normal();

} // namespace native

#endif
