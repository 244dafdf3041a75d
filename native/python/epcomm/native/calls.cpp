/* Makes a Buffer's low-latency calls without Python code. Python makes the first call with a set of
 * arguments. Then it calls learn_dispatch or learn_combine, so that this file makes further calls with the same set. */
#include "calls.h"

#include <dlfcn.h>

namespace native {

PyTypeObject *calls_type;
PyObject *sent_name;

namespace {

using Current = AOTITorchError (*)(int32_t, void **);

/* Returns PyTorch's function for the current stream of a GPU, or null. */
Current current_of_torch() {
  void *cuda = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  return cuda != nullptr ? reinterpret_cast<Current>(dlsym(cuda, "aoti_torch_get_current_cuda_stream")) : nullptr;
}

} // namespace

EpcommStream current_stream(int32_t device) {
  static const Current current = current_of_torch();
  void *stream = nullptr;
  if (device >= 0) TORCH_ERROR_CODE_CHECK(current(device, &stream));
  return stream;
}

bool knows_streams(int32_t device) { return device < 0 || current_of_torch() != nullptr; }

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

PyObject *tuple_of(PyTypeObject *type, std::initializer_list<PyObject *> items) {
  static const auto make = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
  PyObject *plain = tuple_of(items), *args = plain != nullptr ? tuple_of({plain}) : nullptr;
  PyObject *all = args != nullptr ? make(type, args, nullptr) : nullptr;
  Py_XDECREF(args);
  return all;
}

PyObject *failed(PyObject *link, const std::string &text) {
  PyObject *error = PyObject_CallFunction(PyExc_RuntimeError, "s", text.c_str());
  PyObject *why = error != nullptr ? PyObject_CallMethod(link, "reason", "O", error) : nullptr;
  if (why != nullptr) PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(why)), why);
  Py_XDECREF(error);
  Py_XDECREF(why);
  return nullptr;
}

namespace {

PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *handle = nullptr, *sent = nullptr, *normal_sent = nullptr, *event = nullptr;
  if (!PyArg_ParseTuple(args, "OOOO", &handle, &sent, &normal_sent, &event)) return nullptr;
  PyObject *self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  Calls *c = as_calls(self);
  c->known = new std::deque<Known>();
  c->normal = new std::deque<Normal>();
  c->slab = new Slab();
  c->handle = reinterpret_cast<PyTypeObject *>(kept(handle));
  c->sent = reinterpret_cast<PyTypeObject *>(kept(sent));
  c->normal_sent = reinterpret_cast<PyTypeObject *>(kept(normal_sent));
  c->event = kept(event);
  return self;
}

void calls_free(PyObject *self) {
  Calls *c = as_calls(self);
  PyTypeObject *type = Py_TYPE(self);
  for (Known &k : *c->known)
    for (PyObject *o : {k.link, k.begun, k.wide, k.sent}) Py_XDECREF(o);
  for (Normal &k : *c->normal)
    for (PyObject *o : {k.link, k.nothing}) Py_XDECREF(o);
  delete c->known;
  delete c->normal;
  delete c->slab;
  Py_XDECREF(c->counter_link);
  Py_DECREF(c->handle);
  Py_DECREF(c->sent);
  Py_DECREF(c->normal_sent);
  Py_DECREF(c->event);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject *learn_dispatch(PyObject *self, PyObject *args) {
  Known k = {};
  long long hidden = 0, experts = 0, topk = 0, most = 0, number = 0, key = 0;
  int fp8 = 0, later = 0, device = 0;
  if (!PyArg_ParseTuple(args, "LLLLppOLOiL", &hidden, &experts, &topk, &most, &fp8, &later, &k.link, &number, &k.begun, &device, &key)) return nullptr;
  k.hidden = hidden, k.experts = experts, k.topk = topk, k.most = most, k.key = key;
  k.fp8 = fp8 != 0, k.later = later != 0, k.device = device;
  k.native = reinterpret_cast<Link *>(number);
  serve(device);
  if (!knows_streams(device)) Py_RETURN_NONE;
  k.wide = PyLong_FromLongLong(hidden);
  if (k.wide == nullptr) return nullptr;
  Py_INCREF(k.link);
  Py_INCREF(k.begun);
  as_calls(self)->known->push_back(k);
  Py_RETURN_NONE;
}

PyObject *learn_combine(PyObject *, PyObject *args) {
  long long number = 0, key = 0;
  int which = 0;
  if (!PyArg_ParseTuple(args, "LpL", &number, &which, &key)) return nullptr;
  reinterpret_cast<Link *>(number)->combine_key[which] = key;
  Py_RETURN_NONE;
}

bool idle(const Known &k, int op) { return PyList_GetItem(k.begun, op) == Py_None; }

PyObject *sent_of(Calls *c, Known &k, int64_t tokens) {
  if (k.sent != nullptr && k.tokens == tokens) return kept(k.sent);
  PyObject *sent = tuple_of(c->sent, {kept(k.link), kept(k.fp8 ? Py_True : Py_False), PyLong_FromLongLong(tokens)});
  if (sent == nullptr) return nullptr;
  Py_XDECREF(k.sent);
  k.sent = kept(sent);
  k.tokens = tokens;
  return sent;
}

/* Returns (recv_x, recv_count, handle, event, hook). */
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

PyObject *combined(Calls *c, const Known &k, PyObject *y, PyObject *const *args, PyObject *given, bool later, EpcommStream stream, const Owned &made) {
  PyObject *out = given != Py_None ? kept(given) : wrap(made.get()), *hook = nullptr;
  if (out == nullptr) return nullptr;
  if (!later) hook = kept(Py_None);
  else hook = new_hook(k, 1, stream, tuple_of({kept(y), kept(args[IDS]), kept(args[WEIGHTS]), kept(args[HANDLE]), kept(out)}), Py_None);
  return tuple_of({out, kept(c->event), hook});
}

/* pause(True) makes all calls go through Python, until pause(False). */
PyObject *calls_pause(PyObject *self, PyObject *on) {
  as_calls(self)->paused = PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}

PyMethodDef calls_methods[] = {{"learn_dispatch", learn_dispatch, METH_VARARGS, nullptr}, {"learn_combine", learn_combine, METH_VARARGS, nullptr},
                               {"learn_normal", learn_normal, METH_VARARGS, nullptr}, {"learn_layout", learn_layout, METH_VARARGS, nullptr},
                               {"pause", calls_pause, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot calls_slots[] = {{Py_tp_new, slot(calls_new)}, {Py_tp_dealloc, slot(calls_free)}, {Py_tp_methods, calls_methods}, {0, nullptr}};
PyType_Spec calls_spec = {"epcomm_native.Calls", sizeof(Calls), 0, Py_TPFLAGS_DEFAULT, calls_slots};

} // namespace

PyObject *dispatch_now(Calls *c, PyObject *const *args, bool fp8, bool later) {
  PyObject *stats = args[STATS] != nullptr ? args[STATS] : Py_None;
  if (!is_tensor(args[X]) || !is_tensor(args[IDS]) || (stats != Py_None && !is_tensor(stats))) return nullptr;
  LowRows in = {tensor_in(args[X]), Ref(), tensor_in(args[IDS]), Ref(), fp8, later};
  const int64_t most = PyLong_AsLongLong(args[MOST]), experts = PyLong_AsLongLong(args[EXPERTS]);
  int64_t dims = 0, of_ids = 0;
  const int64_t *x = sizes_of(in.x, &dims), *ids = sizes_of(in.ids, &of_ids);
  PyErr_Clear();
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

PyObject *combine_now(Calls *c, PyObject *y, PyObject *const *args, bool later) {
  PyObject *handle = args[HANDLE], *given = args[OUT] != nullptr ? args[OUT] : Py_None;
  if (!is_tensor(y) || !is_tensor(args[IDS]) || !is_tensor(args[WEIGHTS]) || (given != Py_None && !is_tensor(given))) return nullptr;
  PyObject *sent = PyTuple_Check(handle) ? PyObject_GetAttr(handle, sent_name) : nullptr;
  if (sent == nullptr) PyErr_Clear();
  Py_XDECREF(sent);
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

bool add_calls(PyObject *module) {
  sent_name = PyUnicode_InternFromString("sent");
  calls_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&calls_spec));
  return add_hooks() && add_normal() && calls_type != nullptr && PyModule_AddObject(module, "Calls", kept(reinterpret_cast<PyObject *>(calls_type))) == 0;
}

} // namespace native
