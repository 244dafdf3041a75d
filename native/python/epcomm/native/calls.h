/* The Python objects behind the low-latency methods of Buffer: Calls (calls.cpp), Hook (hook.cpp), and the methods
 * themselves (methods.cpp). */
#ifndef EPCOMM_NATIVE_CALLS_H
#define EPCOMM_NATIVE_CALLS_H

#include "python.h"

#include <deque>
#include <exception>
#include <string>

#include "low_latency.h"

namespace native {

/* Parameters of the methods, by position. */
enum { X, IDS, MOST, EXPERTS, STATS, WAITS, FP8_ROWS, ROUND_SCALE, UE8M0, ASYNC, HOOK, NVFP4, GLOBAL_SCALE };
enum { WEIGHTS = 2, HANDLE, LOGFMT, ZERO_COPY, COMBINE_ASYNC, COMBINE_HOOK, OUT, COMBINE_WAITS, OVERLAP, MOST_PARAMETERS = 16 };

inline PyObject *kept(PyObject *o) {
  Py_INCREF(o);
  return o;
}

/* Returns the current stream of a GPU, null for the CPU. */
EpcommStream current_stream(int32_t device);

/* Returns a tuple of the items, or null if an item is null. It takes the references to the items. */
PyObject *tuple_of(std::initializer_list<PyObject *> items);
/* Returns the same tuple as an instance of `type`, a subclass of tuple. */
PyObject *tuple_of(PyTypeObject *type, std::initializer_list<PyObject *> items);

/* Raises link.reason(RuntimeError(text)), the exception that says why a call failed. */
PyObject *failed(PyObject *link, const std::string &text);

/* Calls f while other threads of Python may run. Returns true if f threw nothing; otherwise stores the error text. */
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

/* The arguments of dispatches that the ranks have compared once, with the link and the key for such calls. */
struct Known {
  int64_t hidden, experts, topk, most, key;
  bool fp8, later;
  int32_t device; /* -1: CPU */
  Link *native;
  PyObject *link;
  PyObject *begun; /* the list link.begun: for each op the half that is under way, or None */
  PyObject *wide;  /* hidden as Python's int */
  PyObject *sent;  /* the last Sent, which calls with the same number of tokens share */
  int64_t tokens;  /* number of tokens of `sent` */
};

/* Returns a new Hook and stores it in link.begun. It takes the reference to tensors. */
PyObject *new_hook(const Known &k, int op, EpcommStream stream, PyObject *tensors, PyObject *stats);
/* Makes the type Hook. Returns false if Python raised. */
bool add_hooks();

/* Calls holds what the low-latency methods of one Buffer need. */
struct Calls {
  PyObject ob_base;
  std::deque<Known> *known; /* a deque never moves its elements; a call uses one while other threads run */
  Slab *slab;
  PyTypeObject *handle, *sent;
  PyObject *event; /* an EventOverlap without an event, which every call returns */
  bool paused;     /* true: all calls go the long way, so that Python first applies the changes of ranks that it noted */
};

inline Calls *as_calls(PyObject *o) { return reinterpret_cast<Calls *>(o); }

extern PyTypeObject *calls_type;

/* Makes a dispatch and returns its results. If the call must go the long way (see methods.cpp), it returns null
 * and raises nothing. */
PyObject *dispatch_now(Calls *c, PyObject *const *args, bool fp8, bool later);
/* Does the same for a combine of rows y. */
PyObject *combine_now(Calls *c, PyObject *y, PyObject *const *args, bool later);

} // namespace native

#endif
