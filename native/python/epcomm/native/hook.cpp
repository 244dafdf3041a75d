#include "calls.h"

namespace native {
namespace {

PyTypeObject *hook_type;

/* Receives a call whose first half, the send, has run. */
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

void end(PyObject *self) {
  Hook *h = as_hook(self);
  h->pending = false;
  Py_CLEAR(h->tensors);
  Py_CLEAR(h->stats);
  if (PyList_GetItem(h->begun, h->op) == self) PyList_SetItem(h->begun, h->op, kept(Py_None));
}

PyObject *hook_finish(PyObject *self, PyObject *) {
  Hook *h = as_hook(self);
  std::string text;
  EpcommStream stream = nullptr;
  if (h->lost) {
    PyErr_SetString(PyExc_RuntimeError, "hook: ranks left or came back after the call was sent, so the call is lost; make it again");
    return nullptr;
  }
  if (!h->pending) Py_RETURN_NONE;
  bool fine = released([&] {
    stream = current_stream(h->device);
    low_receive(*h->native, reinterpret_cast<int64_t>(stream), h->op, h->stats != nullptr ? tensor_in(h->stats) : Ref());
  }, &text);
  if (!fine) {
    if (h->native->sent_in[h->op] != 0) h->pending = false;
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
PyType_Slot hook_slots[] = {{Py_tp_dealloc, slot(hook_free)}, {Py_tp_traverse, slot(hook_traverse)}, {Py_tp_clear, slot(hook_clear)},
                            {Py_tp_call, slot(hook_call)}, {Py_tp_methods, hook_methods}, {Py_tp_getset, hook_values}, {0, nullptr}};
PyType_Spec hook_spec = {"epcomm_native.Hook", sizeof(Hook), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, hook_slots};

} // namespace

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

bool add_hooks() {
  hook_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&hook_spec));
  return hook_type != nullptr;
}

} // namespace native
