/* Includes Python's limited API, and converts between tensors and their Python objects. */
#ifndef EPCOMM_NATIVE_PYTHON_H
#define EPCOMM_NATIVE_PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include "native.h"

namespace native {

extern PyTypeObject *tensor_type;
extern size_t tensor_at;
extern PyObject *(*wrap)(const void *tensor);

inline bool is_tensor(PyObject *o) { return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type); }

/* Returns the tensor of a Python object, which still owns it. */
inline Ref tensor_in(PyObject *o) { return reinterpret_cast<AtenTensorHandle>(reinterpret_cast<char *>(o) + tensor_at); }

struct Released {
  PyThreadState *state = PyEval_SaveThread();
  ~Released() { PyEval_RestoreThread(state); }
};

/* Returns how many rows each local expert received in the last dispatch. The list is empty if the host did not wait
 * for the counts. */
PyObject *counts_of(const Link &l);

/* Returns false if a Python function raised an exception. */
bool add_calls(PyObject *module);
PyObject *serve(PyObject *module, PyObject *args);

} // namespace native

#endif
