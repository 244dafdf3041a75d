/* The Python objects behind the methods of Buffer that the extension serves: Calls (calls.cpp, normal_calls.cpp), Hook
 * (hook.cpp), and the methods themselves (methods.cpp). */
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
enum { ROWS_WEIGHTS = 2, BIAS, ADD_CONFIG, ADD_PREVIOUS, ADD_ASYNC }; /* of combine, after ROWS and ROWS_HANDLE */

inline PyObject *kept(PyObject *o) {
  Py_INCREF(o);
  return o;
}

inline bool absent(PyObject *value) { return value == nullptr || value == Py_None; }

/* Returns the current stream of a GPU, null for the CPU. */
EpcommStream current_stream(int32_t device);
/* Returns whether current_stream works: for the CPU, or if PyTorch has the function that it calls. */
bool knows_streams(int32_t device);

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

/* The arguments of low-latency dispatches that the ranks have compared once, with the link (a communicator) and the key
 * for such calls. A key is a number that stands for a call's arguments; see agreement.py. */
struct Known {
  int64_t hidden, experts, topk, most, key;
  bool fp8, later;
  int32_t device; /* -1: CPU */
  Link *native;
  PyObject *link;
  PyObject *begun; /* the list link.begun: for each op (0 dispatch, 1 combine) the Hook of a call not yet received, or None */
  PyObject *wide;  /* the hidden size as Python's int */
  PyObject *sent;  /* the last Sent (what a handle keeps for combine), which calls with the same number of tokens share */
  int64_t tokens;  /* number of tokens of `sent` */
};

/* Normal is the same for normal dispatches. */
struct Normal {
  int64_t hidden, experts, topk, sms, key;
  bool fp8;
  int32_t device; /* -1: CPU */
  Link *native;
  PyObject *link;
  PyObject *nothing; /* an empty tensor */
};

/* Returns a new Hook and stores it in link.begun. It takes the reference to tensors. */
PyObject *new_hook(const Known &k, int op, EpcommStream stream, PyObject *tensors, PyObject *stats);
/* Makes the type Hook. Returns false if Python raised. */
bool add_hooks();

/* Calls holds what the methods of one Buffer need. */
struct Calls {
  PyObject ob_base;
  std::deque<Known> *known; /* a deque, because it never moves its elements: a call uses an element while another thread may add one */
  std::deque<Normal> *normal;
  Slab *slab;
  Link *counter; /* the link whose kernel get_dispatch_layout uses; null until there is a link */
  PyObject *counter_link;
  int32_t counter_device;
  PyTypeObject *handle, *sent, *normal_sent;
  PyObject *event; /* the EventOverlap that every call returns; it holds no event */
  bool paused;     /* all calls go the long way, because Python must first tell the library which ranks left or came back */
};

inline Calls *as_calls(PyObject *o) { return reinterpret_cast<Calls *>(o); }

extern PyTypeObject *calls_type;
extern PyObject *sent_name; /* "sent", an attribute of a handle */

/* Makes a low-latency dispatch and returns its results. If Python must make the call (the long way, see methods.cpp),
 * it returns null and raises nothing. */
PyObject *dispatch_now(Calls *c, PyObject *const *args, bool fp8, bool later);
/* Does the same for a low-latency combine of rows y. */
PyObject *combine_now(Calls *c, PyObject *y, PyObject *const *args, bool later);
/* These do the same for the normal calls: get_dispatch_layout, a new dispatch, combine. */
PyObject *layout_now(Calls *c, PyObject *const *args, int64_t ranks);
PyObject *send_now(Calls *c, PyObject *buffer, PyObject *const *args);
PyObject *add_now(Calls *c, PyObject *const *args);

/* Methods of Calls, in normal_calls.cpp. */
PyObject *learn_normal(PyObject *self, PyObject *args);
PyObject *learn_layout(PyObject *self, PyObject *args);
/* Makes the Python strings that normal_calls.cpp needs. Returns false if Python raised. */
bool add_normal();

} // namespace native

#endif
