/* Offers the operators as plain Python functions, because calls through PyTorch's dispatcher take longer. PyTorch's
 * stable ABI cannot convert between a tensor and its Python object. So this file finds at which offset a Python
 * object holds its tensor. For the other direction it loads PyTorch's function THPVariable_Wrap by name. */
#include "python.h"

#include <dlfcn.h>

#include <exception>
#include <utility>

#include "ops.h"

namespace native {

PyTypeObject *tensor_type;
size_t tensor_at;
PyObject *(*wrap)(const void *tensor);

namespace {

struct BadArgument {};

template <class T>
T from(PyObject *o);
template <>
int64_t from<int64_t>(PyObject *o) {
  int64_t v = PyLong_AsLongLong(o);
  if (v == -1 && PyErr_Occurred()) throw BadArgument();
  return v;
}
template <>
Tensor from<Tensor>(PyObject *o) {
  if (!is_tensor(o)) {
    PyErr_SetString(PyExc_TypeError, "an argument is not a tensor");
    throw BadArgument();
  }
  AtenTensorHandle own = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(tensor_in(o).handle, &own));
  return Tensor(own);
}
template <>
MaybeTensor from<MaybeTensor>(PyObject *o) {
  return o == Py_None ? MaybeTensor() : MaybeTensor(from<Tensor>(o));
}

PyObject *to(const Tensor &t) { return wrap(t.get()); }
template <class... T, size_t... i>
PyObject *to_tuple(const std::tuple<T...> &values, std::index_sequence<i...>) {
  PyObject *all = PyTuple_New(sizeof...(T));
  bool fine = all != nullptr;
  PyObject *each[] = {to(std::get<i>(values))...};
  for (size_t n = 0; n < sizeof...(T); n++) {
    fine = fine && each[n] != nullptr;
    if (fine) PyTuple_SetItem(all, static_cast<Py_ssize_t>(n), each[n]);
  }
  return fine ? all : nullptr;
}
template <class... T>
PyObject *to(const std::tuple<T...> &values) {
  return to_tuple(values, std::index_sequence_for<T...>());
}

template <auto f>
struct Entry;
template <class R, class... A, R (*f)(A...)>
struct Entry<f> {
  template <size_t... i>
  static PyObject *with(PyObject *const *args, std::index_sequence<i...>) {
    std::tuple<std::decay_t<A>...> given{from<std::decay_t<A>>(args[i])...};
    if constexpr (std::is_void_v<R>) {
      Released others;
      std::apply(f, std::move(given));
    } else {
      auto called = [&] {
        Released others;
        return std::apply(f, std::move(given));
      };
      return to(called());
    }
    Py_RETURN_NONE;
  }
  static PyObject *call(PyObject *, PyObject *const *args, Py_ssize_t n) {
    if (n != static_cast<Py_ssize_t>(sizeof...(A))) {
      PyErr_Format(PyExc_TypeError, "%zd arguments given, %zu needed", n, sizeof...(A));
      return nullptr;
    }
    try {
      return with(args, std::index_sequence_for<A...>());
    } catch (const BadArgument &) {
    } catch (const std::exception &e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
    }
    return nullptr;
  }
};

PyObject *counted_dispatch(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  PyObject *made = Entry<&dispatch>::call(self, args, n);
  if (made == nullptr) return nullptr;
  const Link &l = link_of(PyLong_AsLongLong(args[0]));
  return Py_BuildValue("(NiiN)", made, l.said[1], l.said[2], counts_of(l));
}

/* use(type, tensors) finds the offset at which a Python object holds its tensor. `tensors` is a list of examples. use
 * returns False if it finds none. */
PyObject *use(PyObject *, PyObject *args) {
  PyObject *type = nullptr, *tensors = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &type, &tensors)) return nullptr;
  size_t found = 0;
  for (size_t at = sizeof(PyObject); at <= sizeof(PyObject) + 16 && found == 0; at += sizeof(void *)) {
    bool all = PyList_Size(tensors) > 1;
    for (Py_ssize_t i = 0; all && i < PyList_Size(tensors); i++) {
      PyObject *t = PyList_GetItem(tensors, i), *known = PyObject_GetAttrString(t, "_cdata");
      all = known != nullptr && *reinterpret_cast<void **>(reinterpret_cast<char *>(t) + at) == PyLong_AsVoidPtr(known);
      Py_XDECREF(known);
    }
    if (all) found = at;
  }
  PyErr_Clear();
  void *torch = dlopen("libtorch_python.so", RTLD_NOW | RTLD_NOLOAD);
  void *function = torch != nullptr ? dlsym(torch, "_Z16THPVariable_WrapRKN2at10TensorBaseE") : nullptr;
  if (found == 0 || function == nullptr) Py_RETURN_FALSE;
  Py_INCREF(type);
  tensor_type = reinterpret_cast<PyTypeObject *>(type);
  tensor_at = found;
  wrap = reinterpret_cast<PyObject *(*)(const void *)>(function);
  Py_RETURN_TRUE;
}

Tensor same(Tensor t) { return t; }

#define FUNCTION(name, f) {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(f)), METH_FASTCALL, nullptr}
#define FAST(name) FUNCTION(#name, (&Entry<&name>::call))
PyMethodDef functions[] = {
    {"use", use, METH_VARARGS, nullptr}, {"serve", serve, METH_VARARGS, nullptr}, FAST(same), FAST(layout), FUNCTION("dispatch", &counted_dispatch), FAST(dispatch_again), FAST(combine),
    FAST(ll_dispatch), FAST(ll_combine), FAST(ll_receive), FAST(call), {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "epcomm_native", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace native

extern "C" __attribute__((visibility("default"))) PyObject *PyInit_epcomm_native(void) {
  PyObject *made = PyModule_Create(&native::module);
  if (made != nullptr && !native::add_calls(made)) Py_CLEAR(made);
  return made;
}
