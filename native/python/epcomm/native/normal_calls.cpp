/* Makes a Buffer's normal calls (those that are not low-latency calls) without Python code. */
#include "calls.h"

namespace native {
namespace {

PyObject *bound_name, *own_bound_name; /* "bound" of a Config, "_bound" of a Buffer */

PyObject *or_none(const Owned &t) { return t.get() != nullptr ? wrap(t.get()) : kept(Py_None); }

bool is_tensor_or_absent(PyObject *o) { return absent(o) || is_tensor(o); }
Ref tensor_or_none(PyObject *o) { return absent(o) ? Ref() : tensor_in(o); }

/* Returns the number in o. If o is null, it returns the argument `otherwise`. It sets *fine to false if o is not a
 * number. */
int64_t number(PyObject *o, int64_t otherwise, bool *fine) {
  if (o == nullptr) return otherwise;
  int64_t n = PyLong_AsLongLong(o);
  if (n == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    *fine = false;
  }
  return n;
}

int64_t most_sms(PyObject *buffer, PyObject *config, bool *fine) {
  PyObject *bound = absent(config) ? PyObject_GetAttr(buffer, own_bound_name) : PyObject_GetAttr(config, bound_name);
  PyErr_Clear();
  int64_t n = bound != nullptr ? number(bound, 0, fine) : 0;
  *fine = *fine && bound != nullptr;
  Py_XDECREF(bound);
  return n;
}

PyObject *handle_of(Calls *c, const Normal &k, PyObject *in_rank, int64_t tokens, const NormalReceived &made) {
  const Link &l = *k.native;
  PyObject *handle = tuple_of(c->handle, {wrap(made.before.get()), kept(k.nothing), kept(k.nothing), wrap(made.sources.get()), kept(in_rank),
                                          kept(k.nothing)});
  PyObject *sent = tuple_of(c->normal_sent, {kept(k.link), kept(k.fp8 ? Py_True : Py_False), wrap(made.index.get()), PyLong_FromLongLong(tokens),
                                             PyLong_FromLong(l.said[1]), PyLong_FromLong(l.said[2])});
  if (handle != nullptr && (sent == nullptr || PyObject_SetAttr(handle, sent_name, sent) != 0)) Py_CLEAR(handle);
  Py_XDECREF(sent);
  return handle;
}

/* Returns (recv_x, recv_topk_idx, recv_topk_weights, rows of each expert, handle, event). */
PyObject *received(Calls *c, const Normal &k, PyObject *in_rank, int64_t tokens, const NormalReceived &made) {
  PyObject *out = wrap(made.out.get());
  if (k.fp8) out = tuple_of({out, wrap(made.scales.get())});
  return tuple_of({out, or_none(made.ids), or_none(made.weights), counts_of(*k.native), handle_of(c, k, in_rank, tokens, made), kept(c->event)});
}

const Normal *find(const Calls *c, int64_t hidden, int64_t experts, int64_t topk, int64_t sms, bool fp8) {
  for (const Normal &k : *c->normal)
    if (k.hidden == hidden && k.experts == experts && k.topk == topk && k.sms == sms && k.fp8 == fp8) return &k;
  return nullptr;
}

/* Calls f(stream) without Python's global lock. If f throws, it returns false, and raises a Python exception
 * unless the status is MISREAD. */
template <class F>
bool called(const Link &l, PyObject *link, int32_t device, F f) {
  std::string text;
  if (released([&] { f(reinterpret_cast<int64_t>(current_stream(device))); }, &text)) return true;
  if (l.said[0] != MISREAD) failed(link, text);
  return false;
}

} // namespace

PyObject *counts_of(const Link &l) {
  const Py_ssize_t experts = l.per_expert != nullptr ? l.local : 0;
  PyObject *counts = PyList_New(experts);
  for (Py_ssize_t e = 0; counts != nullptr && e < experts; e++)
    PyList_SetItem(counts, e, PyLong_FromUnsignedLong(l.per_expert[e]));
  return counts;
}

PyObject *layout_now(Calls *c, PyObject *const *args, int64_t ranks) {
  bool fine = true;
  const int64_t experts = number(args[LAYOUT_EXPERTS], 0, &fine);
  if (c->counter == nullptr || !fine || !is_tensor(args[LAYOUT_IDS])) return nullptr;
  Layout made;
  Link &l = *c->counter;
  if (!called(l, c->counter_link, c->counter_device, [&](int64_t stream) { made = normal_layout(l, stream, tensor_in(args[LAYOUT_IDS]), experts, ranks); }))
    return nullptr;
  return tuple_of({wrap(made.per_rank.get()), kept(Py_None), wrap(made.per_expert.get()), wrap(made.in_rank.get()), kept(c->event)});
}

PyObject *send_now(Calls *c, PyObject *buffer, PyObject *const *args) {
  PyObject *x = args[ROWS];
  const bool fp8 = PyTuple_Check(x) && PyTuple_Size(x) == 2;
  PyObject *scales = fp8 ? PyTuple_GetItem(x, 1) : nullptr;
  if (fp8) x = PyTuple_GetItem(x, 0);
  for (PyObject *o : {x, args[PER_RANK], args[IN_RANK], args[PER_EXPERT]})
    if (o == nullptr || !is_tensor(o)) return nullptr;
  if (!is_tensor_or_absent(args[TOPK_IDS]) || !is_tensor_or_absent(args[TOPK_WEIGHTS]) || (fp8 && !is_tensor(scales))) return nullptr;
  bool fine = true;
  const int64_t align = number(args[ALIGNMENT], 1, &fine), worst = number(args[WORST], 0, &fine), sms = most_sms(buffer, args[CONFIG], &fine);
  NormalRows in = {tensor_in(x), fp8 ? tensor_in(scales) : Ref(), tensor_in(args[PER_RANK]), tensor_in(args[PER_EXPERT]),
                   tensor_in(args[IN_RANK]), tensor_or_none(args[TOPK_IDS]), tensor_or_none(args[TOPK_WEIGHTS]), align, worst};
  int64_t dims = 0, of_ids = 2;
  const int64_t *sizes = sizes_of(in.x, &dims), *ids = in.ids ? sizes_of(in.ids, &of_ids) : nullptr;
  if (!fine || dims != 2 || of_ids != 2) return nullptr;
  const int64_t tokens = sizes[0];
  const Normal *k = find(c, sizes[1], size(in.per_expert, 0), ids != nullptr ? ids[1] : 0, sms, fp8);
  if (k == nullptr || tokens > k->native->max_tokens) return nullptr;
  NormalReceived made;
  if (!called(*k->native, k->link, k->device, [&](int64_t stream) { made = normal_dispatch(*k->native, stream, k->key, in); })) return nullptr;
  return received(c, *k, args[IN_RANK], tokens, made);
}

PyObject *add_now(Calls *c, PyObject *const *args) {
  PyObject *y = args[ROWS], *handle = args[ROWS_HANDLE], *weights = args[ROWS_WEIGHTS];
  if (!is_tensor(y) || !is_tensor_or_absent(weights)) return nullptr;
  PyObject *sent = PyTuple_Check(handle) ? PyObject_GetAttr(handle, sent_name) : nullptr;
  if (sent == nullptr) PyErr_Clear();
  Py_XDECREF(sent);
  if (sent == nullptr || Py_TYPE(sent) != c->normal_sent) return nullptr;
  PyObject *link = PyTuple_GetItem(sent, 0);
  auto at = [sent](Py_ssize_t i) { return PyLong_AsLongLong(PyTuple_GetItem(sent, i)); };
  for (const Normal &k : *c->normal) {
    if (k.link != link) continue;
    const int64_t key = k.native->combine_key[!absent(weights)];
    if (key == 0) break;
    NormalReturned in = {tensor_in(y), tensor_in(PyTuple_GetItem(sent, 2)), tensor_or_none(weights), PyTuple_GetItem(sent, 1) == Py_True,
                         at(3), at(4), at(5)};
    NormalCombined made;
    if (!called(*k.native, link, k.device, [&](int64_t stream) { made = normal_combine(*k.native, stream, key, in); })) return nullptr;
    return tuple_of({wrap(made.combined.get()), or_none(made.weights), kept(c->event)});
  }
  return nullptr;
}

PyObject *learn_normal(PyObject *self, PyObject *args) {
  Normal k = {};
  long long hidden = 0, experts = 0, topk = 0, sms = 0, number = 0, key = 0;
  int fp8 = 0, device = 0;
  if (!PyArg_ParseTuple(args, "LLLLpOLOiL", &hidden, &experts, &topk, &sms, &fp8, &k.link, &number, &k.nothing, &device, &key)) return nullptr;
  k.hidden = hidden, k.experts = experts, k.topk = topk, k.sms = sms, k.key = key;
  k.fp8 = fp8 != 0, k.device = device;
  k.native = reinterpret_cast<Link *>(number);
  serve(device);
  if (!knows_streams(device)) Py_RETURN_NONE;
  Py_INCREF(k.link);
  Py_INCREF(k.nothing);
  as_calls(self)->normal->push_back(k);
  Py_RETURN_NONE;
}

PyObject *learn_layout(PyObject *self, PyObject *args) {
  Calls *c = as_calls(self);
  PyObject *link = nullptr;
  long long number = 0;
  int device = 0;
  if (!PyArg_ParseTuple(args, "OLi", &link, &number, &device)) return nullptr;
  serve(device);
  if (!knows_streams(device)) Py_RETURN_NONE;
  Py_INCREF(link);
  Py_XDECREF(c->counter_link);
  c->counter_link = link;
  c->counter = reinterpret_cast<Link *>(number);
  c->counter_device = device;
  Py_RETURN_NONE;
}

bool add_normal() {
  bound_name = PyUnicode_InternFromString("bound");
  own_bound_name = PyUnicode_InternFromString("_bound");
  return bound_name != nullptr && own_bound_name != nullptr;
}

} // namespace native
