/* Declares C++ functions that make the calls of the Python class Buffer without Python code (methods.cpp). */
#ifndef EPCOMM_NATIVE_CALLS_H
#define EPCOMM_NATIVE_CALLS_H

#include "python.h"

#include <deque>
#include <exception>
#include <string>

#include "low_latency.h"
#include "normal.h"

namespace native {

/* Indices of the parameters of Buffer's methods. */
enum { X, IDS, MOST, EXPERTS, STATS, WAITS, FP8_ROWS, ROUND_SCALE, UE8M0, ASYNC, HOOK, NVFP4, GLOBAL_SCALE };
enum { WEIGHTS = 2, HANDLE, LOGFMT, ZERO_COPY, COMBINE_ASYNC, COMBINE_HOOK, OUT, COMBINE_WAITS, OVERLAP, MOST_PARAMETERS = 16 };
enum { LAYOUT_IDS, LAYOUT_EXPERTS, LAYOUT_PREVIOUS, LAYOUT_ASYNC };
enum { ROWS, ROWS_HANDLE, PER_RANK, PER_RDMA_RANK, IN_RANK, PER_EXPERT, TOPK_IDS, TOPK_WEIGHTS, ALIGNMENT, WORST, CONFIG, PREVIOUS, ROWS_ASYNC };
enum { ROWS_WEIGHTS = 2, BIAS, ADD_CONFIG, ADD_PREVIOUS, ADD_ASYNC };

inline PyObject *kept(PyObject *o) {
  Py_INCREF(o);
  return o;
}

inline bool absent(PyObject *value) { return value == nullptr || value == Py_None; }

EpcommStream current_stream(int32_t device);
bool knows_streams(int32_t device);

/* Return a new tuple, or null if an item is null. The tuple owns the references that the caller passes. */
PyObject *tuple_of(std::initializer_list<PyObject *> items);
PyObject *tuple_of(PyTypeObject *type, std::initializer_list<PyObject *> items);

PyObject *failed(PyObject *link, const std::string &text);

/* Calls f without Python's global lock. If f throws, it stores the error text and returns false. */
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

/* The arguments of a low-latency dispatch. The ranks have agreed on them (agreement.py), so a call with equal
 * arguments needs no Python code. */
struct Known {
  int64_t hidden, experts, topk, most, key;
  bool fp8, later;
  int32_t device; /* -1: CPU */
  Link *native;
  PyObject *link;
  PyObject *begun; /* a list [dispatch, combine]: the Hook of a sent call that is not received yet, or None */
  PyObject *wide;
  PyObject *sent;  /* the last object of type Sent; the next call uses it again if it has as many tokens */
  int64_t tokens;
};

struct Normal {
  int64_t hidden, experts, topk, sms, key;
  bool fp8;
  int32_t device; /* -1: CPU */
  Link *native;
  PyObject *link;
  PyObject *nothing;
};

/* Stores a new Hook in k.begun. The Hook owns the reference `tensors` that the caller passes. */
PyObject *new_hook(const Known &k, int op, EpcommStream stream, PyObject *tensors, PyObject *stats);
/* Returns false if a Python function raised an exception. */
bool add_hooks();

struct Calls {
  PyObject ob_base;
  std::deque<Known> *known; /* a deque, because other threads hold pointers to elements */
  std::deque<Normal> *normal;
  Slab *slab;
  Link *counter;
  PyObject *counter_link;
  int32_t counter_device;
  PyTypeObject *handle, *sent, *normal_sent;
  PyObject *event; /* the event that every call returns */
  bool paused;     /* all calls go through Python */
};

inline Calls *as_calls(PyObject *o) { return reinterpret_cast<Calls *>(o); }

extern PyTypeObject *calls_type;
extern PyObject *sent_name;

/* Make a call. They return null without an exception if the caller must call the Python method instead. */
PyObject *dispatch_now(Calls *c, PyObject *const *args, bool fp8, bool later);
PyObject *combine_now(Calls *c, PyObject *y, PyObject *const *args, bool later);
PyObject *layout_now(Calls *c, PyObject *const *args, int64_t ranks);
PyObject *send_now(Calls *c, PyObject *buffer, PyObject *const *args);
PyObject *add_now(Calls *c, PyObject *const *args);

PyObject *learn_normal(PyObject *self, PyObject *args);
PyObject *learn_layout(PyObject *self, PyObject *args);
/* Returns false if a Python function raised an exception. */
bool add_normal();

} // namespace native

#endif
