/* Replaces methods of the Python class Buffer by functions of this file. Such a function makes the call itself,
 * which is the short way. If it does not support the arguments, it calls the replaced Python method, which is the
 * long way. */
#include "calls.h"

namespace native {
namespace {

PyObject *calls_name, *next_name, *size_name;

struct Method {
  const char *names[MOST_PARAMETERS];
  int positional;
  PyObject *interned[MOST_PARAMETERS], *longer;
  std::string doc;
  PyMethodDef def;
};

/* Stores each argument in out[i], where i is the index of its parameter. Returns false if the arguments do not fit
 * the parameters. */
bool take(const Method &m, PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **out) {
  if (n > m.positional) return false;
  for (Py_ssize_t i = 0; i < n; i++) out[i] = args[i];
  for (Py_ssize_t k = 0, count = names != nullptr ? PyTuple_Size(names) : 0; k < count; k++) {
    PyObject *name = PyTuple_GetItem(names, k);
    int i = 0;
    while (i < MOST_PARAMETERS && m.interned[i] != name) i++;
    if (i == MOST_PARAMETERS || out[i] != nullptr) return false;
    out[i] = args[n + k];
  }
  return true;
}

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

Method layout_method = {{"topk_idx", "num_experts", "previous_event", "async_finish", "allocate_on_comm_stream"}, 5, {}, nullptr, {}, {}};

PyObject *get_dispatch_layout(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  PyObject *given[MOST_PARAMETERS] = {}, *made = nullptr;
  bool short_way = take(layout_method, args, n, names, given) && given[LAYOUT_IDS] != nullptr && given[LAYOUT_EXPERTS] != nullptr &&
                   absent(given[LAYOUT_PREVIOUS]) && !on(given[LAYOUT_ASYNC]);
  PyObject *calls = short_way ? calls_of(self) : nullptr, *ranks = calls != nullptr ? PyObject_GetAttr(self, size_name) : nullptr;
  if (ranks != nullptr) made = layout_now(as_calls(calls), given, PyLong_AsLongLong(ranks));
  Py_XDECREF(ranks);
  Py_XDECREF(calls);
  return made != nullptr || PyErr_Occurred() ? made : long_way(layout_method, self, args, n, names);
}

Method send_method = {{"x", "handle", "num_tokens_per_rank", "num_tokens_per_rdma_rank", "is_token_in_rank", "num_tokens_per_expert", "topk_idx",
                       "topk_weights", "expert_alignment", "num_worst_tokens", "config", "previous_event", "async_finish",
                       "allocate_on_comm_stream"}, 14, {}, nullptr, {}, {}};

PyObject *dispatch_rows(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  PyObject *given[MOST_PARAMETERS] = {}, *made = nullptr;
  bool short_way = take(send_method, args, n, names, given) && given[ROWS] != nullptr && absent(given[ROWS_HANDLE]) && absent(given[PREVIOUS]) &&
                   !on(given[ROWS_ASYNC]);
  PyObject *calls = short_way ? calls_of(self) : nullptr;
  if (calls != nullptr) made = send_now(as_calls(calls), self, given);
  Py_XDECREF(calls);
  return made != nullptr || PyErr_Occurred() ? made : long_way(send_method, self, args, n, names);
}

Method add_method = {{"x", "handle", "topk_weights", "bias", "config", "previous_event", "async_finish", "allocate_on_comm_stream"}, 8, {}, nullptr, {}, {}};

PyObject *combine_rows(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  PyObject *given[MOST_PARAMETERS] = {}, *made = nullptr;
  bool short_way = take(add_method, args, n, names, given) && given[ROWS] != nullptr && given[ROWS_HANDLE] != nullptr && absent(given[BIAS]) &&
                   absent(given[ADD_PREVIOUS]) && !on(given[ADD_ASYNC]);
  PyObject *calls = short_way ? calls_of(self) : nullptr;
  if (calls != nullptr) made = add_now(as_calls(calls), given);
  Py_XDECREF(calls);
  return made != nullptr || PyErr_Occurred() ? made : long_way(add_method, self, args, n, names);
}

const struct {
  const char *name;
  Method *method;
  void *function;
} served[] = {{"low_latency_dispatch", &dispatch_method, slot(low_latency_dispatch)},
              {"low_latency_combine", &combine_method, slot(low_latency_combine)},
              {"get_dispatch_layout", &layout_method, slot(get_dispatch_layout)},
              {"dispatch", &send_method, slot(dispatch_rows)},
              {"combine", &add_method, slot(combine_rows)}};

/* Returns false if a Python function raised an exception. */
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

/* serve(Buffer, {name: text}) replaces the methods with these names. The text becomes the new method's signature and
 * docstring. */
PyObject *serve(PyObject *, PyObject *args) {
  PyObject *type = nullptr, *texts = nullptr;
  if (!PyArg_ParseTuple(args, "OO!", &type, &PyDict_Type, &texts)) return nullptr;
  calls_name = PyUnicode_InternFromString("_calls");
  next_name = PyUnicode_InternFromString("_next_combine");
  size_name = PyUnicode_InternFromString("group_size");
  for (const auto &s : served) {
    PyObject *text = PyDict_GetItemString(texts, s.name), *bytes = text != nullptr ? PyUnicode_AsUTF8String(text) : nullptr;
    bool fine = bytes != nullptr && replace(type, s.name, *s.method, s.function, PyBytes_AsString(bytes));
    Py_XDECREF(bytes);
    if (!fine) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_TypeError, "serve: no text for %s", s.name);
  }
  return kept(Py_None);
}

} // namespace native
