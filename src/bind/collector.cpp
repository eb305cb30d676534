// What the objects of tensors and nodes answer the garbage collector, by the rules in tally.h.
#include "bind/collector.h"

#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autograd/inplace.h"
#include "autograd/meta.h"
#include "autograd/saved_tensor.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/graph.h"
#include "bind/python_link.h"
#include "bind/tally.h"
#include "bind/tensor_type.h"

namespace rl::bind {

std::atomic<bool> graph_holds_objects{false};

namespace {

// The collection that is running, while gc.callbacks tells of it.
class Collection {
 public:
  static Collection& now() {
    static auto* collection = new Collection;
    return *collection;
  }
  // From the next collection on. Members of the list that remove themselves may let it pass over
  // ours: its place changes then.
  static void watch(PyObject* list, PyObject* member) {
    callbacks_ = list;
    callback_ = member;
  }
  void begin() {
    *this = Collection();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(callbacks_); ++i)
      if (PyList_GET_ITEM(callbacks_, i) == callback_) place_ = i;
  }
  void end() { *this = Collection(); }
  bool is_running() const {
    return place_ >= 0 && place_ < PyList_GET_SIZE(callbacks_) &&
           PyList_GET_ITEM(callbacks_, place_) == callback_;
  }

  // The answer of `self`, which has a count of `root`.
  int answer(PyObject* self, const Piece& root, visitproc visit, void* arg) {
    if (is_running() && arg == self) return note(self) ? tally_.subtract(root, visit, arg) : 0;
    if (is_running() && asked_.find(self)) return tally_.reach(root, visit, arg);
    if constexpr (!lists_change) return Tally().subtract(root, visit, arg);
    // Without a GIL another thread may ask at this moment, and pieces wait in one list at a time:
    // what is not shown is in use.
    static std::atomic<bool> asks{false};
    if (asks.exchange(true)) return 0;
    int stop = Tally().subtract(root, visit, arg);
    asks.store(false);
    return stop;
  }
  // An object was asked the first question. False where there is no memory to know that: nobody
  // shows anything then until the collection is over, and what it would have been is in use.
  bool note(PyObject* self) {
    bool* known = asked_.find_or_make(self);
    if (known && std::exchange(*known, true)) {
      tally_ = Tally();
      asked_ = AddressTable<bool>();
      if ((known = asked_.find_or_make(self))) *known = true;
    }
    if (!known) has_memory_ = false;
    return has_memory_;
  }
  bool finds_garbage(const Piece& piece) {
    return is_running() && has_memory_ && tally_.finds_garbage(piece);
  }

 private:
  static PyObject *callbacks_, *callback_;
  Py_ssize_t place_ = -1;
  bool has_memory_ = true;
  AddressTable<bool> asked_;
  Tally tally_;
};

PyObject *Collection::callbacks_ = nullptr, *Collection::callback_ = nullptr;

void show(PyObject* o) {
  LinkLock lock(o);
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}

// Tensors that an object refers to by way of a few others: what a closure has captured, the members
// of a list. They were made before the graph held objects, and may be part of a cycle now.
struct Referents {
  static constexpr int deepest = 5, most = 100;
  PyObject* globals = nullptr;  // of the function at hand: no part of what it captured
  int depth = 0, left = most;

  static int visit(PyObject* o, void* arg) { return static_cast<Referents*>(arg)->look_at(o); }
  int look_at(PyObject* o) {
    if (o == globals || PyType_Check(o) || PyModule_Check(o) || !PyObject_IS_GC(o)) return 0;
    if (is_tensor(o)) {
      track_history_slow(o);
      return 0;
    }
    if (depth == deepest || --left < 0) return 0;
    PyObject* outer = globals;
    if (PyFunction_Check(o)) globals = PyFunction_GET_GLOBALS(o);
    ++depth;
    if (Py_TYPE(o)->tp_traverse) Py_TYPE(o)->tp_traverse(o, visit, this);
    --depth;
    globals = outer;
    return 0;
  }
};

// Objects that tensors which may own themselves hold for that alone; borrowed.
std::unordered_set<PyObject*>& kept_objects() {
  static auto* objects = new std::unordered_set<PyObject*>;
  return *objects;
}

// Whether nothing refers to the object of `t` but `t` itself.
bool is_dropped(TensorImpl* t) {
  PyObject* o = held_object(t);
  return o && Py_REFCNT(o) == 1;
}

// The node from whose creation on it is worth while to look again: when as many were made as pieces
// were in use, which pays for the time that those took. So a program which keeps what it changes in
// place does not slow down as its graph grows.
__thread uint64_t look_again_at = 0;

// The largest set of pieces that `roots` lead to of which each count is one of the `known(piece)`
// that the caller accounts for, or belongs to a member.
template <class Known>
std::vector<Piece> closed_set(const std::vector<Piece>& roots, Known known) {
  struct Found {
    Piece piece;
    int32_t met = 0;
    bool outside = false;
  };
  std::unordered_map<const void*, Found> found;
  std::vector<Piece> ahead;
  auto find = [&](const Piece& piece) -> Found& {
    auto [at, is_first] = found.try_emplace(piece.address(), Found{piece});
    if (is_first) {
      at->second.met = known(piece);
      ahead.push_back(piece);
    }
    return at->second;
  };
  auto look_into_all = [&](auto&& f) {
    while (!ahead.empty()) {
      Piece piece = ahead.back();
      ahead.pop_back();
      each_reference(piece, f);
    }
  };
  for (const Piece& root : roots) find(root);
  look_into_all([&](const Piece& piece) { ++find(piece).met; });
  auto take_away = [&](const Piece& piece) {
    if (!std::exchange(found.at(piece.address()).outside, true)) ahead.push_back(piece);
  };
  for (auto& [address, f] : found)
    if (f.met != f.piece.count()) take_away(f.piece);
  look_into_all(take_away);
  std::vector<Piece> members;
  for (auto& [address, f] : found)
    if (!f.outside) members.push_back(f.piece);
  look_again_at = thread_state().next_sequence + (found.size() - members.size());
  return members;
}

// Tensors that the program has dropped, and which may own themselves: finds out which of them
// nothing refers to but histories of their own or of one another, and frees those.
void free_histories(const std::vector<Piece>& dropped, const TensorImpl* dying) {
  auto known = [&](const Piece& piece) -> int32_t {  // the object is a part of what is dropped
    return piece.tensor && (piece.tensor == dying || is_dropped(piece.tensor));
  };
  TensorList garbage;
  for (const Piece& piece : closed_set(dropped, known))
    if (piece.tensor && may_own_itself(piece.tensor))
      garbage.emplace_back(Ref<TensorImpl>::share(piece.tensor));
  for (const Tensor& t : garbage) {
    if (gradient_has_history(t)) set_grad(t, {});
    if (t.impl()->in_own_history) Ref<NodeBase> history = std::move(t.impl()->grad_fn);
  }
}

// Looks at the kept ones again too, as what referred to them may have gone.
void free_kept(TensorImpl* dying = nullptr) {
  std::vector<Piece> dropped;
  if (dying) dropped.push_back({dying, nullptr});
  for (PyObject* o : kept_objects()) {
    TensorImpl* t = tensor_of(o).impl();
    if (is_dropped(t)) dropped.push_back({t, nullptr});
  }
  if (!dropped.empty()) free_histories(dropped, dying);
  else look_again_at = 0;
}

bool is_due() { return thread_state().next_sequence >= look_again_at; }

// Lets a tensor of which others have counts hold its object, which stands for it then.
bool hold_object(TensorImpl* t) {
  if (lists_change || (threads_share && !has_gil())) return false;
  auto* o = static_cast<PyObject*>(t->python.load(std::memory_order_relaxed));
  int32_t refs = t->refs.load(std::memory_order_relaxed);
  if (!o || Py_REFCNT(o) == 0) return false;
  do {
    if (refs <= 1) return false;
  } while (!t->refs.compare_exchange_weak(refs, refs + holds_python, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
  Py_INCREF(o);
  return true;
}

// While the graph has a count of a leaf with hooks.
void hold_leaf(TensorImpl* t) { hold_object(t); }

void release_object(TensorImpl* t) {
  int32_t refs = t->refs.load(std::memory_order_relaxed);
  do {
    if (refs >= 0) return;
  } while (!t->refs.compare_exchange_weak(refs, refs - holds_python, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
  Py_DECREF(static_cast<PyObject*>(t->python.load(std::memory_order_relaxed)));
}

// Objects of the tensors that may own themselves, or might once; and those of them that are held
// during the collection that is running. Borrowed.
struct OwnHistories {
  std::unordered_set<PyObject*> all, held_now;

  static OwnHistories& get() {
    static auto* objects = new OwnHistories;
    return *objects;
  }
  void hold() {
    for (auto at = all.begin(); at != all.end();) {
      TensorImpl* t = tensor_of(*at).impl();
      if (may_own_itself(t)) {
        auto [held, is_new] = held_now.insert(*at);
        if (!hold_object(t)) held_now.erase(held);
      }
      at = t->retains_grad || may_own_itself(t) ? std::next(at) : all.erase(at);
    }
  }
  void release_objects() {
    while (!held_now.empty()) {
      PyObject* o = *held_now.begin();
      held_now.erase(o);
      release_object(tensor_of(o).impl());  // others of them may die
    }
  }
};

// gc.callbacks. A full collection may have freed what referred to the kept ones.
PyObject* on_collection(PyObject*, PyObject* args) {
  const char* phase;
  PyObject* info;
  if (!PyArg_ParseTuple(args, "sO", &phase, &info)) return nullptr;
  PyObject* generation = PyDict_Check(info) ? PyDict_GetItemString(info, "generation") : nullptr;
  const bool full = generation && PyLong_Check(generation) && PyLong_AsLong(generation) == 2;
  OwnHistories::get().release_objects();
  try {
    if (std::strcmp(phase, "start") == 0) {
      Collection::now().begin();
      if (full && graph_is_still()) OwnHistories::get().hold();
    } else {
      Collection::now().end();
      if (graph_is_still() && (full || is_due())) free_kept();
    }
  } catch (const std::bad_alloc&) {
    // What this collection does not find, for want of memory, a later one will.
  }
  Py_RETURN_NONE;
}

void watch_collections() {
  static PyMethodDef function = {"_on_collection", on_collection, METH_VARARGS, nullptr};
  Object module = checked(PyImport_ImportModule("gc"));
  Object callbacks = checked(PyObject_GetAttrString(module.get(), "callbacks"));
  Object made = checked(PyCFunction_New(&function, nullptr));
  checked(PyList_Append(callbacks.get(), made.get()));
  Collection::watch(callbacks.release(), made.release());
}

void gradient_leads_back(const Tensor& t) {
  WithGil gil;
  try {
    Object object(wrap(t));
    note_gradient(object.get(), true);
  } catch (const PythonError&) {
    throw CarriedError::take();
  }
}

void note_own_history(TensorImpl* t) {
  if (lists_change) return;
  WithGil gil;
  try {
    if (void* object = t->python.load(std::memory_order_relaxed))
      OwnHistories::get().all.insert(static_cast<PyObject*>(object));
  } catch (const std::bad_alloc&) {
    // Cycles that lead through Python objects too are not found then.
  }
}

}  // namespace

void track(PyObject* tensor) {
  note_objects();
  show(tensor);
}

void track_history_slow(PyObject* tensor) {
  const TensorImpl* t = tensor_of(tensor).impl();
  if (t && (t->grad_fn || t->base || t->meta)) show(tensor);
}

void track_captured(PyObject* o) {
  note_objects();
  if (!lists_change) Referents().look_at(o);  // without a GIL others may be changing them
}

bool may_own_itself(const TensorImpl* t) {
  return t->in_own_history ||
         (t->meta &&
          gradient_has_history(Tensor(Ref<TensorImpl>::share(const_cast<TensorImpl*>(t)))));
}

void free_own_history(PyObject* self, TensorImpl* t) {
  if (lists_change) return;
  try {
    if (graph_is_still() && is_due()) free_kept(t);
    if (t->refs.load(std::memory_order_relaxed) != 1) kept_objects().insert(self);
  } catch (const std::bad_alloc&) {
    // It is left to full collections.
  }
}

void note_gradient(PyObject* tensor, bool has_history) {
  show(tensor);
  if (!has_history) return;
  note_objects();
  if (lists_change) return;
  meta(tensor_of(tensor));  // by which the end of the object finds out that it is noted
  OwnHistories::get().all.insert(tensor);
}

void forget_kept(PyObject* self) {
  OwnHistories& objects = OwnHistories::get();
  if (objects.all.erase(self)) objects.held_now.erase(self);
  kept_objects().erase(self);
}

int visit_owned(PyObject* self, TensorImpl* t, visitproc visit, void* arg) {
  Collection& collection = Collection::now();
  if (t->grad_fn || t->base || t->meta) return collection.answer(self, {t, nullptr}, visit, arg);
  if (arg == self && collection.is_running()) collection.note(self);
  return 0;
}

int visit_owned(PyObject* self, Node* node, visitproc visit, void* arg) {
  return Collection::now().answer(self, {nullptr, node}, visit, arg);
}

void clear_owned(TensorImpl* t) {
  const Piece piece{t, nullptr};
  const bool dies = held(piece) ? graph_is_still() : piece.count() == 1;
  if (!dies && !Collection::now().finds_garbage(piece)) return;
  Tensor keep(Ref<TensorImpl>::share(t));
  clear_hooks(keep);
  set_grad(keep, {});
  Ref<NodeBase> node = std::move(t->grad_fn);
  Ref<TensorImpl> base = std::move(t->base);
  Ref<ViewRule> rule = std::move(t->view_rule);
}

// Its edges stay, in number: they go nowhere.
void clear_owned(Node* node) {
  const Piece piece{nullptr, node};
  if (piece.count() != 1 && !Collection::now().finds_garbage(piece)) return;
  Ref<Node> keep = Ref<Node>::share(node);
  std::unique_ptr<NodeHooks> hooks = std::move(node->hook_lists);
  if (void* dict = std::exchange(node->metadata, nullptr)) release_node_metadata(dict);
  if (node->is_accumulator()) return;
  node->release_saved();
  node->released = true;
  for (Edge& edge : node->edges) edge.node = nullptr;
}

void init_collector() {
  gradient_got_history = gradient_leads_back;
  hold_hooked_leaf = hold_leaf;
  tensor_got_own_history = note_own_history;
  if (!lists_change) watch_collections();
}

}  // namespace rl::bind
