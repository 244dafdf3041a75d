/* The low-latency methods of Buffer. They look up the link for the arguments in the Buffer's Calls, make the call
 * and return DeepEP's tuple. A Hook receives a call that was only sent. If no link is known for the arguments, if an
 * option is on that this file lacks, or if a tensor must be copied, they call the methods that serve() replaced,
 * before anything is sent. That is the long way. */
#include "python.h"

#include <dlfcn.h>

#include <deque>
#include <exception>
#include <string>

#include "low_latency.h"

namespace native {
namespace {

PyTypeObject *hook_type, *calls_type;
PyObject *sent_name, *calls_name, *next_name; /* attributes: "sent" of a handle, "_calls" and "_next_combine" of a Buffer */

/* Parameters of the methods, by position. */
enum { X, IDS, MOST, EXPERTS, STATS, WAITS, FP8_ROWS, ROUND_SCALE, UE8M0, ASYNC, HOOK, NVFP4, GLOBAL_SCALE };
enum { WEIGHTS = 2, HANDLE, LOGFMT, ZERO_COPY, COMBINE_ASYNC, COMBINE_HOOK, OUT, COMBINE_WAITS, OVERLAP, MOST_PARAMETERS = 16 };

PyObject *kept(PyObject *o) {
  Py_INCREF(o);
  return o;
}

using Current = AOTITorchError (*)(int32_t, void **);

/* Returns PyTorch's function that returns the current stream of a GPU, or null if this PyTorch has none. */
Current current_of_torch() {
  void *cuda = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  return cuda != nullptr ? reinterpret_cast<Current>(dlsym(cuda, "aoti_torch_get_current_cuda_stream")) : nullptr;
}

/* Returns the current stream of a GPU, null for the CPU. */
EpcommStream current_stream(int32_t device) {
  static const Current current = current_of_torch();
  void *stream = nullptr;
  if (device >= 0) TORCH_ERROR_CODE_CHECK(current(device, &stream));
  return stream;
}

/* Returns a tuple of the items, or null if an item is null. It takes the references to the items. */
PyObject *tuple_of(std::initializer_list<PyObject *> items) {
  PyObject *all = PyTuple_New(static_cast<Py_ssize_t>(items.size()));
  bool fine = all != nullptr;
  Py_ssize_t i = 0;
  for (PyObject *o : items) {
    fine = fine && o != nullptr;
    if (all != nullptr) PyTuple_SetItem(all, i++, o);
    else Py_XDECREF(o);
  }
  if (!fine) Py_CLEAR(all);
  return all;
}

/* Returns the same tuple as an instance of `type`, a subclass of tuple. */
PyObject *tuple_of(PyTypeObject *type, std::initializer_list<PyObject *> items) {
  static const auto make = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
  PyObject *plain = tuple_of(items), *args = plain != nullptr ? tuple_of({plain}) : nullptr;
  PyObject *all = args != nullptr ? make(type, args, nullptr) : nullptr;
  Py_XDECREF(args);
  return all;
}

/* A Known holds the link and the key for the arguments of a dispatch that all ranks have compared. */
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

/* Raises link.reason(RuntimeError(text)), the exception that says why a call failed. */
PyObject *failed(PyObject *link, const std::string &text) {
  PyObject *error = PyObject_CallFunction(PyExc_RuntimeError, "s", text.c_str());
  PyObject *why = error != nullptr ? PyObject_CallMethod(link, "reason", "O", error) : nullptr;
  if (why != nullptr) PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(why)), why);
  Py_XDECREF(error);
  Py_XDECREF(why);
  return nullptr;
}

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

/* ---- Hook ---- */

/* A Hook receives a call that was sent. Until then it keeps the call's tensors, which must not change. */
struct Hook {
  PyObject ob_base;
  PyObject *link, *begun, *tensors, *stats;
  Link *native;
  EpcommStream stream;
  int32_t device, op;
  bool pending, lost;
};

Hook *as_hook(PyObject *o) { return reinterpret_cast<Hook *>(o); }

int hook_traverse(PyObject *self, visitproc visit, void *arg) {
  Hook *h = as_hook(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(h->link);
  Py_VISIT(h->begun);
  Py_VISIT(h->tensors);
  Py_VISIT(h->stats);
  return 0;
}

int hook_clear(PyObject *self) {
  Hook *h = as_hook(self);
  Py_CLEAR(h->link);
  Py_CLEAR(h->begun);
  Py_CLEAR(h->tensors);
  Py_CLEAR(h->stats);
  h->pending = false;
  return 0;
}

void hook_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  hook_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

/* Notes that the call was received, and drops the call's tensors. */
void end(PyObject *self) {
  Hook *h = as_hook(self);
  h->pending = false;
  Py_CLEAR(h->tensors);
  Py_CLEAR(h->stats);
  if (PyList_GetItem(h->begun, h->op) == self) PyList_SetItem(h->begun, h->op, kept(Py_None)); /* this drops a reference to self; the caller holds another */
}

PyObject *hook_finish(PyObject *self, PyObject *) {
  Hook *h = as_hook(self);
  std::string text;
  EpcommStream stream = nullptr;
  if (h->lost) {
    PyErr_SetString(PyExc_RuntimeError, "hook: ranks left or came back after its call, which is lost; make the call again");
    return nullptr;
  }
  if (!h->pending) Py_RETURN_NONE;
  bool fine = released([&] {
    stream = current_stream(h->device);
    low_receive(*h->native, reinterpret_cast<int64_t>(stream), h->op, h->stats != nullptr ? tensor_in(h->stats) : Ref());
  }, &text);
  if (!fine) {
    if (h->native->sent_in[h->op] != 0) h->pending = false; /* once the capture has ended, the call cannot be received any more */
    return failed(h->link, text);
  }
  PyObject *used = stream != h->stream ? PyObject_CallMethod(h->link, "used", "O", h->tensors) : kept(Py_None);
  end(self);
  return used;
}

PyObject *hook_call(PyObject *self, PyObject *, PyObject *) { return hook_finish(self, nullptr); }

PyObject *hook_lose(PyObject *self, PyObject *) {
  as_hook(self)->lost = true;
  end(self);
  Py_RETURN_NONE;
}

PyObject *hook_pending(PyObject *self, void *) { return PyBool_FromLong(as_hook(self)->pending); }

PyMethodDef hook_methods[] = {{"finish", hook_finish, METH_NOARGS, "Receives the call on the current stream. Only the first finish() does anything."},
                              {"lose", hook_lose, METH_NOARGS, "Notes that the call cannot be received any more, because ranks left or came back."},
                              {nullptr, nullptr, 0, nullptr}};
PyGetSetDef hook_values[] = {{"pending", hook_pending, nullptr, "Whether the call is still to be received.", nullptr},
                             {nullptr, nullptr, nullptr, nullptr, nullptr}};
template <class F>
void *slot(F f) {
  return reinterpret_cast<void *>(f);
}
PyType_Slot hook_slots[] = {{Py_tp_dealloc, slot(hook_free)}, {Py_tp_traverse, slot(hook_traverse)}, {Py_tp_clear, slot(hook_clear)},
                            {Py_tp_call, slot(hook_call)}, {Py_tp_methods, hook_methods}, {Py_tp_getset, hook_values}, {0, nullptr}};
PyType_Spec hook_spec = {"epcomm_native.Hook", sizeof(Hook), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, hook_slots};

/* Returns a new Hook and stores it in link.begun. It takes the reference to tensors. */
PyObject *new_hook(const Known &k, int op, EpcommStream stream, PyObject *tensors, PyObject *stats) {
  PyObject *self = tensors != nullptr ? PyType_GenericAlloc(hook_type, 0) : nullptr;
  if (self == nullptr) {
    Py_XDECREF(tensors);
    return nullptr;
  }
  Hook *h = as_hook(self);
  h->link = kept(k.link);
  h->begun = kept(k.begun);
  h->tensors = tensors;
  h->stats = stats != Py_None ? kept(stats) : nullptr;
  h->native = k.native;
  h->stream = stream;
  h->device = k.device;
  h->op = op;
  h->pending = true;
  PyList_SetItem(h->begun, op, kept(self));
  return self;
}

/* ---- Calls ---- */

struct Calls {
  PyObject ob_base;
  std::deque<Known> *known; /* a deque never moves its elements; a call uses one while other threads run */
  Slab *slab;
  PyTypeObject *handle, *sent;
  PyObject *event; /* an EventOverlap without an event, which every call returns */
  bool paused;     /* true: calls go the long way, where Python first applies noted changes of ranks */
};

Calls *as_calls(PyObject *o) { return reinterpret_cast<Calls *>(o); }

PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *handle = nullptr, *sent = nullptr, *event = nullptr;
  if (!PyArg_ParseTuple(args, "OOO", &handle, &sent, &event)) return nullptr;
  PyObject *self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  Calls *c = as_calls(self);
  c->known = new std::deque<Known>();
  c->slab = new Slab();
  c->handle = reinterpret_cast<PyTypeObject *>(kept(handle));
  c->sent = reinterpret_cast<PyTypeObject *>(kept(sent));
  c->event = kept(event);
  return self;
}

void calls_free(PyObject *self) {
  Calls *c = as_calls(self);
  PyTypeObject *type = Py_TYPE(self);
  for (Known &k : *c->known)
    for (PyObject *o : {k.link, k.begun, k.wide, k.sent}) Py_XDECREF(o);
  delete c->known;
  delete c->slab;
  Py_DECREF(c->handle);
  Py_DECREF(c->sent);
  Py_DECREF(c->event);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* learn_dispatch(hidden, experts, topk, most, fp8, later, link, number, begun, device, key) stores the link and the
 * key that later calls of dispatch with these arguments use. device is -1 for the CPU. It stores nothing if PyTorch
 * has no function that returns the current stream. */
PyObject *learn_dispatch(PyObject *self, PyObject *args) {
  Known k = {};
  long long hidden = 0, experts = 0, topk = 0, most = 0, number = 0, key = 0;
  int fp8 = 0, later = 0, device = 0;
  if (!PyArg_ParseTuple(args, "LLLLppOLOiL", &hidden, &experts, &topk, &most, &fp8, &later, &k.link, &number, &k.begun, &device, &key)) return nullptr;
  k.hidden = hidden, k.experts = experts, k.topk = topk, k.most = most, k.key = key;
  k.fp8 = fp8 != 0, k.later = later != 0, k.device = device;
  k.native = reinterpret_cast<Link *>(number);
  if (device >= 0 && current_of_torch() == nullptr) Py_RETURN_NONE;
  k.wide = PyLong_FromLongLong(hidden);
  if (k.wide == nullptr) return nullptr;
  Py_INCREF(k.link);
  Py_INCREF(k.begun);
  as_calls(self)->known->push_back(k);
  Py_RETURN_NONE;
}

/* learn_combine(number, later, key) stores the key that later combines of this link use. */
PyObject *learn_combine(PyObject *, PyObject *args) {
  long long number = 0, key = 0;
  int later = 0;
  if (!PyArg_ParseTuple(args, "LpL", &number, &later, &key)) return nullptr;
  reinterpret_cast<Link *>(number)->combine_key[later] = key;
  Py_RETURN_NONE;
}

bool idle(const Known &k, int op) { return PyList_GetItem(k.begun, op) == Py_None; }

/* Returns the Sent of a call with that many tokens, or null if Python raised. */
PyObject *sent_of(Calls *c, Known &k, int64_t tokens) {
  if (k.sent != nullptr && k.tokens == tokens) return kept(k.sent);
  PyObject *sent = tuple_of(c->sent, {kept(k.link), kept(k.fp8 ? Py_True : Py_False), PyLong_FromLongLong(tokens)});
  if (sent == nullptr) return nullptr;
  Py_XDECREF(k.sent);
  k.sent = kept(sent);
  k.tokens = tokens;
  return sent;
}

/* Returns the results of low_latency_dispatch: (recv_x, recv_count, handle, event, hook). */
PyObject *dispatched(Calls *c, Known &k, PyObject *const *args, PyObject *stats, int64_t tokens, EpcommStream stream, const LowReceived &made) {
  PyObject *out = wrap(made.out.get()), *count = wrap(made.count.get()), *src_info = wrap(made.src_info.get());
  PyObject *received = k.fp8 ? tuple_of({out, wrap(made.scales.get())}) : out;
  PyObject *hook = nullptr;
  if (received == nullptr || src_info == nullptr) {
    for (PyObject *o : {received, count, src_info}) Py_XDECREF(o);
    return nullptr;
  }
  if (!k.later) hook = kept(Py_None);
  else hook = new_hook(k, 0, stream, tuple_of({kept(args[X]), kept(args[IDS]), kept(received), kept(src_info), kept(stats)}), stats);
  PyObject *handle = tuple_of(c->handle, {src_info, wrap(made.ranges.get()), kept(args[MOST]), kept(k.wide), kept(args[EXPERTS])});
  PyObject *sent = handle != nullptr ? sent_of(c, k, tokens) : nullptr;
  if (sent == nullptr || PyObject_SetAttr(handle, sent_name, sent) != 0) Py_CLEAR(handle);
  Py_XDECREF(sent);
  return tuple_of({received, count, handle, kept(c->event), hook});
}

/* Makes a dispatch and returns its results. Returns null without an exception if the call must go the long
 * way. */
PyObject *dispatch_now(Calls *c, PyObject *const *args, bool fp8, bool later) {
  PyObject *stats = args[STATS] != nullptr ? args[STATS] : Py_None;
  if (!is_tensor(args[X]) || !is_tensor(args[IDS]) || (stats != Py_None && !is_tensor(stats))) return nullptr;
  LowRows in = {tensor_in(args[X]), Ref(), tensor_in(args[IDS]), Ref(), fp8, later};
  const int64_t most = PyLong_AsLongLong(args[MOST]), experts = PyLong_AsLongLong(args[EXPERTS]);
  int64_t dims = 0, of_ids = 0;
  const int64_t *x = sizes_of(in.x, &dims), *ids = sizes_of(in.ids, &of_ids);
  PyErr_Clear(); /* an argument that is not a number; the long way raises the error */
  if (dims != 2 || of_ids != 2 || x[0] > most) return nullptr;
  if (!later && stats != Py_None) in.stats = tensor_in(stats);
  for (Known &k : *c->known) {
    if (k.hidden != x[1] || k.experts != experts || k.topk != ids[1] || k.most != most || k.fp8 != fp8 || k.later != later) continue;
    if (!idle(k, 0)) break;
    LowReceived made;
    EpcommStream stream = nullptr;
    std::string text;
    bool fine = released([&] {
      stream = current_stream(k.device);
      made = low_dispatch(*k.native, reinterpret_cast<int64_t>(stream), k.key, in);
    }, &text);
    if (fine) return dispatched(c, k, args, stats, x[0], stream, made);
    return status_of(*k.native) == MISREAD ? nullptr : failed(k.link, text);
  }
  return nullptr;
}

/* Returns the results of low_latency_combine: (combined, event, hook). */
PyObject *combined(Calls *c, const Known &k, PyObject *y, PyObject *const *args, PyObject *given, bool later, EpcommStream stream, const Owned &made) {
  PyObject *out = given != Py_None ? kept(given) : wrap(made.get()), *hook = nullptr;
  if (out == nullptr) return nullptr;
  if (!later) hook = kept(Py_None);
  else hook = new_hook(k, 1, stream, tuple_of({kept(y), kept(args[IDS]), kept(args[WEIGHTS]), kept(args[HANDLE]), kept(out)}), Py_None);
  return tuple_of({out, kept(c->event), hook});
}

/* Does the same for a combine of rows y. */
PyObject *combine_now(Calls *c, PyObject *y, PyObject *const *args, bool later) {
  PyObject *handle = args[HANDLE], *given = args[OUT] != nullptr ? args[OUT] : Py_None;
  if (!is_tensor(y) || !is_tensor(args[IDS]) || !is_tensor(args[WEIGHTS]) || (given != Py_None && !is_tensor(given))) return nullptr;
  PyObject *sent = PyTuple_Check(handle) ? PyObject_GetAttr(handle, sent_name) : nullptr;
  if (sent == nullptr) PyErr_Clear();
  Py_XDECREF(sent); /* the handle keeps it */
  if (sent == nullptr || Py_TYPE(sent) != c->sent) return nullptr;
  PyObject *link = PyTuple_GetItem(sent, 0);
  for (Known &k : *c->known) {
    if (k.link != link) continue;
    if (k.native->combine_key[later] == 0 || !idle(k, 1)) break;
    LowReturned in = {tensor_in(y), tensor_in(args[IDS]), tensor_in(args[WEIGHTS]), tensor_in(PyTuple_GetItem(handle, 0)),
                      given != Py_None ? tensor_in(given) : Ref(), PyTuple_GetItem(sent, 1) == Py_True, later,
                      PyLong_AsLongLong(PyTuple_GetItem(sent, 2)), c->slab};
    Owned made;
    EpcommStream stream = nullptr;
    std::string text;
    bool fine = released([&] {
      stream = current_stream(k.device);
      made = low_combine(*k.native, reinterpret_cast<int64_t>(stream), k.native->combine_key[later], in);
    }, &text);
    if (fine) return combined(c, k, y, args, given, later, stream, made);
    return status_of(*k.native) == MISREAD ? nullptr : failed(k.link, text);
  }
  return nullptr;
}

/* pause(on): sends all calls the long way, or no more. */
PyObject *calls_pause(PyObject *self, PyObject *on) {
  as_calls(self)->paused = PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}

PyMethodDef calls_methods[] = {{"learn_dispatch", learn_dispatch, METH_VARARGS, nullptr}, {"learn_combine", learn_combine, METH_VARARGS, nullptr},
                               {"pause", calls_pause, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot calls_slots[] = {{Py_tp_new, slot(calls_new)}, {Py_tp_dealloc, slot(calls_free)}, {Py_tp_methods, calls_methods}, {0, nullptr}};
PyType_Spec calls_spec = {"epcomm_native.Calls", sizeof(Calls), 0, Py_TPFLAGS_DEFAULT, calls_slots};

/* ---- methods of Buffer ---- */

/* A Method is one that the extension serves: its parameters, and the Python function for the long way. */
struct Method {
  const char *names[MOST_PARAMETERS];
  int positional; /* how many of them may be given by position */
  PyObject *interned[MOST_PARAMETERS], *longer;
  std::string doc;
  PyMethodDef def;
};

/* Writes the given arguments by parameter, null for those that were not given. Returns false if they do not fit. */
bool take(const Method &m, PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **out) {
  if (n > m.positional) return false;
  for (Py_ssize_t i = 0; i < n; i++) out[i] = args[i];
  for (Py_ssize_t k = 0, count = names != nullptr ? PyTuple_Size(names) : 0; k < count; k++) {
    PyObject *name = PyTuple_GetItem(names, k);
    int i = 0;
    while (i < MOST_PARAMETERS && m.interned[i] != name) i++; /* names in a program's text are interned */
    if (i == MOST_PARAMETERS || out[i] != nullptr) return false;
    out[i] = args[n + k];
  }
  return true;
}

/* Calls the method that serve() replaced. */
PyObject *long_way(const Method &m, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  PyObject *all = PyTuple_New(n + 1), *by_name = PyDict_New(), *made = nullptr;
  if (all != nullptr && by_name != nullptr) {
    PyTuple_SetItem(all, 0, kept(self));
    for (Py_ssize_t i = 0; i < n; i++) PyTuple_SetItem(all, i + 1, kept(args[i]));
    for (Py_ssize_t k = 0; names != nullptr && k < PyTuple_Size(names); k++) PyDict_SetItem(by_name, PyTuple_GetItem(names, k), args[n + k]);
    made = PyObject_Call(m.longer, all, by_name);
  }
  Py_XDECREF(all);
  Py_XDECREF(by_name);
  return made;
}

bool on(PyObject *flag) { return flag != nullptr && flag != Py_False && (flag == Py_True || PyObject_IsTrue(flag) == 1); }
bool absent(PyObject *value) { return value == nullptr || value == Py_None; }

/* Returns the Calls of a Buffer, null if its calls go the long way now. */
PyObject *calls_of(PyObject *buffer) {
  PyObject *calls = PyObject_GetAttr(buffer, calls_name);
  if (calls == nullptr) PyErr_Clear();
  if (calls != nullptr && (Py_TYPE(calls) != calls_type || as_calls(calls)->paused)) Py_CLEAR(calls);
  return calls;
}

Method dispatch_method = {{"x", "topk_idx", "num_max_dispatch_tokens_per_rank", "num_experts", "cumulative_local_expert_recv_stats",
                           "dispatch_wait_recv_cost_stats", "use_fp8", "round_scale", "use_ue8m0", "async_finish", "return_recv_hook",
                           "use_nvfp4", "x_global_scale"}, 11, {}, nullptr, {}, {}};

PyObject *low_latency_dispatch(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  PyObject *given[MOST_PARAMETERS] = {}, *made = nullptr;
  bool short_way = take(dispatch_method, args, n, names, given) && given[EXPERTS] != nullptr && given[MOST] != nullptr && given[IDS] != nullptr &&
                   given[X] != nullptr && absent(given[WAITS]) && absent(given[GLOBAL_SCALE]) && !on(given[ROUND_SCALE]) && !on(given[UE8M0]) &&
                   !on(given[ASYNC]) && !on(given[NVFP4]);
  PyObject *calls = short_way ? calls_of(self) : nullptr;
  if (calls != nullptr) made = dispatch_now(as_calls(calls), given, given[FP8_ROWS] == nullptr || on(given[FP8_ROWS]), on(given[HOOK]));
  Py_XDECREF(calls);
  return made != nullptr || PyErr_Occurred() ? made : long_way(dispatch_method, self, args, n, names);
}

Method combine_method = {{"x", "topk_idx", "topk_weights", "handle", "use_logfmt", "zero_copy", "async_finish", "return_recv_hook", "out",
                          "combine_wait_recv_cost_stats", "overlap", "packed_recv_count", "comp_signal", "block_m", "threshold", "num_sms"},
                         10, {}, nullptr, {}, {}};

PyObject *low_latency_combine(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  PyObject *given[MOST_PARAMETERS] = {}, *made = nullptr;
  bool short_way = take(combine_method, args, n, names, given) && given[X] != nullptr && given[IDS] != nullptr && given[WEIGHTS] != nullptr &&
                   given[HANDLE] != nullptr && absent(given[COMBINE_WAITS]) && !on(given[LOGFMT]) && !on(given[COMBINE_ASYNC]) && !on(given[OVERLAP]);
  PyObject *calls = short_way ? calls_of(self) : nullptr;
  PyObject *y = calls != nullptr ? (on(given[ZERO_COPY]) ? PyObject_GetAttr(self, next_name) : kept(given[X])) : nullptr;
  if (y != nullptr) made = combine_now(as_calls(calls), y, given, on(given[COMBINE_HOOK]));
  Py_XDECREF(y);
  Py_XDECREF(calls);
  return made != nullptr || PyErr_Occurred() ? made : long_way(combine_method, self, args, n, names);
}

/* Replaces one method of a class. Returns whether Python raised nothing. */
bool replace(PyObject *type, const char *name, Method &m, void *function, const char *doc) {
  m.doc = doc;
  m.def = {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL | METH_KEYWORDS, m.doc.c_str()};
  for (int i = 0; i < MOST_PARAMETERS && m.names[i] != nullptr; i++) m.interned[i] = PyUnicode_InternFromString(m.names[i]);
  m.longer = PyObject_GetAttrString(type, name);
  PyObject *method = m.longer != nullptr ? PyDescr_NewMethod(reinterpret_cast<PyTypeObject *>(type), &m.def) : nullptr;
  bool fine = method != nullptr && PyObject_SetAttrString(type, name, method) == 0;
  Py_XDECREF(method);
  return fine;
}

} // namespace

/* serve(Buffer, text, text): replaces the methods low_latency_dispatch and low_latency_combine. The texts are their
 * docstrings, with their signatures in the form that inspect reads. */
PyObject *serve(PyObject *, PyObject *args) {
  PyObject *type = nullptr;
  const char *of_dispatch = nullptr, *of_combine = nullptr;
  if (!PyArg_ParseTuple(args, "Oss", &type, &of_dispatch, &of_combine)) return nullptr;
  bool fine = replace(type, "low_latency_dispatch", dispatch_method, slot(low_latency_dispatch), of_dispatch) &&
              replace(type, "low_latency_combine", combine_method, slot(low_latency_combine), of_combine);
  return fine ? kept(Py_None) : nullptr;
}

bool add_calls(PyObject *module) {
  sent_name = PyUnicode_InternFromString("sent");
  calls_name = PyUnicode_InternFromString("_calls");
  next_name = PyUnicode_InternFromString("_next_combine");
  hook_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&hook_spec));
  calls_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&calls_spec));
  return hook_type != nullptr && calls_type != nullptr && PyModule_AddObject(module, "Calls", kept(reinterpret_cast<PyObject *>(calls_type))) == 0;
}

} // namespace native
