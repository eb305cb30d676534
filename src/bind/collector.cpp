// The garbage collector finds a cycle if each reference in it is shown to it once, by tp_traverse
// of an object that it tracks. Here the references between two Python objects may lead through
// tensors and nodes, which are counted in C++ and which it does not know.
//
// The rule: an object of a tensor or node shows the Python objects that are owned by what it *owns
// alone*. That is the largest set of tensors and nodes of which every count is the object's own or
// is held by a member of the set. So
// - whatever is in the set goes when the object goes. To show its references as the object's own is
//   right: if the object can be reached, so can they, and if not, they cannot.
// - the sets of two objects have no member in common: along a chain of counts to the member each
//   tensor or node would be in both sets too, also the first, of which the other object has a
//   count. So no reference is shown twice.
// What others have a share in is shown by nobody, and the collector takes it to be in use: a cycle
// through a tensor or node that two Python objects own is not found while both are there.
//
// A tensor may itself own a count of its object (holds_python). The object then lives as long as
// the tensor, and stands for it: who owns all counts of the tensor but the object's shows the
// reference to the object, and the object shows everything else that the tensor owns, whoever else
// has a count.
//
// Members are found in the order of their counts: who has been met as often as it is counted is in
// the set. Only members are looked into, all of which is then work in proportion to what is owned,
// and safe while other threads run backward without the GIL: they have a count of what they work
// on, or of what owns that, so that it is no member. A cycle within the graph itself is not found
// so. There is one kind: the gradient of a tensor has a history (create_graph=True) that leads back
// to it. For such a tensor we look at everything that it leads to, then take away what others own
// and what that leads to. This is done only while no thread works on a graph.
#include "bind/collector.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "autograd/meta.h"
#include "autograd/saved_tensor.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/graph.h"
#include "bind/python_link.h"
#include "bind/tensor_type.h"

namespace rl::bind {

std::atomic<bool> graph_holds_objects{false};

namespace {

// A tensor or a node.
struct Piece {
  TensorImpl* tensor = nullptr;
  Node* node = nullptr;

  const void* address() const {
    return tensor ? static_cast<const void*>(tensor) : static_cast<const void*>(node);
  }
  int32_t count() const {
    if (node) return node->refs.load(std::memory_order_acquire);
    int32_t refs = tensor->refs.load(std::memory_order_acquire);
    return refs < 0 ? refs - holds_python : refs;
  }
};

PyObject* held_object(const TensorImpl* t) {
  return t->refs.load(std::memory_order_relaxed) < 0
             ? static_cast<PyObject*>(t->python.load(std::memory_order_relaxed))
             : nullptr;
}

// The tensors and nodes that a node keeps besides its edges.
template <class F>
struct KeptPieces final : SavedReader {
  explicit KeptPieces(F& f) : f(f) {}
  void tensor(const char*, const SavedTensor& saved) override {
    if (saved.tensor().defined()) f(Piece{saved.tensor().impl(), nullptr});
    if (saved.packed() && saved.packed()->history)
      f(Piece{nullptr, saved.packed()->history.node.get()});
  }
  void tensors(const char* name, const std::vector<SavedTensor>& saved) override {
    for (const SavedTensor& t : saved) tensor(name, t);
  }
  void value(const char*, SavedValue) override {}
  void inner(Node* node) override { f(Piece{nullptr, node}); }
  F& f;
};

// Calls f once for each count that `piece` has of another one.
template <class F>
void each_reference(const Piece& piece, F&& f) {
  if (const TensorImpl* t = piece.tensor) {
    if (t->grad_fn) f(Piece{nullptr, static_cast<Node*>(t->grad_fn.get())});
    if (t->base) f(Piece{t->base.get(), nullptr});
    auto* meta = static_cast<AutogradMeta*>(t->meta.get());
    if (meta && meta->grad.defined()) f(Piece{meta->grad.impl(), nullptr});
    return;
  }
  for (const Edge& edge : piece.node->edges)
    if (edge) f(Piece{nullptr, edge.node.get()});
  if (piece.node->is_accumulator()) {
    const Tensor& leaf = static_cast<AccumulateGrad*>(piece.node)->variable;
    if (leaf.defined()) f(Piece{leaf.impl(), nullptr});
  }
  KeptPieces<std::remove_reference_t<F>> kept(f);
  piece.node->read_saved(kept);
}

// The Python objects that a node's saved tensors were packed into.
struct VisitPacked final : SavedReader {
  VisitPacked(visitproc visit, void* arg) : visit(visit), arg(arg) {}
  void tensor(const char*, const SavedTensor& saved) override {
    if (saved.packed() && !stop) stop = visit_packed(*saved.packed(), visit, arg);
  }
  void tensors(const char* name, const std::vector<SavedTensor>& saved) override {
    for (const SavedTensor& t : saved) tensor(name, t);
  }
  void value(const char*, SavedValue) override {}
  visitproc visit;
  void* arg;
  int stop = 0;
};

int visit_objects(const Piece& piece, visitproc visit, void* arg) {
  if (piece.tensor) return visit_hooks(piece.tensor, visit, arg);
  if (int stop = visit_hooks(*piece.node, visit, arg)) return stop;
  Py_VISIT(static_cast<PyObject*>(piece.node->metadata));
  if (int stop = visit_context(piece.node, visit, arg)) return stop;
  VisitPacked packed(visit, arg);
  piece.node->read_saved(packed);
  return packed.stop;
}

bool graph_is_still() { return !threads_share && thread_state().backward_depth == 0; }

// What an object owns alone: see above. It throws nothing: who has no memory for it ends.
class OwnedAlone {
 public:
  explicit OwnedAlone(const Piece& root) noexcept : root_(root) {
    if (held(root) && graph_is_still() && has_history(root.tensor)) find_with_cycles();
    else find_by_counts();
  }
  bool has_root() const { return !members_.empty(); }
  int visit(visitproc visit, void* arg) const {
    for (const Piece& piece : members_)
      if (int stop = visit_objects(piece, visit, arg)) return stop;
    for (const TensorImpl* t : held_) Py_VISIT(held_object(t));
    return 0;
  }

 private:
  static bool has_history(TensorImpl* t) {
    return gradient_has_history(Tensor(Ref<TensorImpl>::share(t)));
  }

  // To be met by members before the piece is one, or before its object is shown.
  int32_t wanted(const Piece& piece) const {
    return piece.count() - (held(piece) || is_root(piece));
  }
  static bool held(const Piece& piece) { return piece.tensor && held_object(piece.tensor); }
  bool is_root(const Piece& piece) const { return piece.address() == root_.address(); }

  void find_by_counts() {
    if (!held(root_) && wanted(root_) != 0) return;
    std::unordered_map<const void*, int32_t> met;
    auto meet = [&](const Piece& piece) {
      int32_t count = wanted(piece);
      if (count != 1 && ++met[piece.address()] != count) return;
      if (held(piece)) held_.push_back(piece.tensor);
      else members_.push_back(piece);
    };
    members_.push_back(root_);
    if (held(root_) && !graph_is_still()) return;  // another thread may work on it
    for (size_t i = 0; i < members_.size(); ++i) {
      Piece piece = members_[i];  // the list grows meanwhile
      each_reference(piece, meet);
    }
  }

  void find_with_cycles() {
    struct Found {
      Piece piece;
      int32_t met = 0;
      bool taken_away = false;
    };
    std::unordered_map<const void*, Found> found;
    std::vector<Piece> ahead;
    // The object of another tensor stands for what that owns.
    auto is_end = [&](const Piece& piece) { return held(piece) && !is_root(piece); };
    auto look_into_all = [&](auto& f) {
      while (!ahead.empty()) {
        Piece piece = ahead.back();
        ahead.pop_back();
        each_reference(piece, f);
      }
    };
    auto meet = [&](const Piece& piece) {
      auto [at, is_first] = found.try_emplace(piece.address(), Found{piece});
      ++at->second.met;
      if (is_first && !is_end(piece)) ahead.push_back(piece);
    };
    found.emplace(root_.address(), Found{root_});
    ahead.push_back(root_);
    look_into_all(meet);
    auto take_away = [&](const Piece& piece) {
      Found& f = found.at(piece.address());
      if (std::exchange(f.taken_away, true) || is_end(piece)) return;
      if (!is_root(piece) || !held(piece)) ahead.push_back(piece);
    };
    for (auto& [address, f] : found)
      if (f.met != wanted(f.piece)) take_away(f.piece);
    look_into_all(take_away);
    for (auto& [address, f] : found) {
      if (!f.taken_away && held(f.piece)) held_.push_back(f.piece.tensor);
      if (is_root(f.piece) ? held(f.piece) || !f.taken_away : !f.taken_away && !held(f.piece))
        members_.push_back(f.piece);
    }
  }

  Piece root_;
  std::vector<Piece> members_;
  std::vector<TensorImpl*> held_;  // whose objects are shown
};

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

// Objects that their tensors hold for the sake of the gradient's history alone; borrowed.
std::deque<PyObject*>& kept_objects() {
  static auto* list = new std::deque<PyObject*>;
  return *list;
}

// Whether nothing refers to the object of `t` but `t` itself.
bool is_dropped(TensorImpl* t) {
  PyObject* o = held_object(t);
  return o && Py_REFCNT(o) == 1;
}

// Tensors that the program has dropped, and whose gradients have histories: finds out which of them
// nothing refers to but such histories, of their own or of one another, and frees those.
void free_histories(const std::vector<TensorImpl*>& dropped) {
  struct Found {
    Piece piece;
    int32_t met = 0;
    bool in_use = false;
  };
  std::unordered_map<const void*, Found> found;
  std::vector<Piece> ahead;
  auto look_into_all = [&](auto& f) {
    while (!ahead.empty()) {
      Piece piece = ahead.back();
      ahead.pop_back();
      each_reference(piece, f);
    }
  };
  auto meet = [&](const Piece& piece) {
    auto [at, is_first] = found.try_emplace(piece.address(), Found{piece});
    ++at->second.met;
    if (!is_first) return;
    if (piece.tensor && is_dropped(piece.tensor)) ++at->second.met;  // its object is a part of it
    ahead.push_back(piece);
  };
  for (TensorImpl* t : dropped)
    if (found.try_emplace(t, Found{{t, nullptr}, 1}).second) ahead.push_back({t, nullptr});
  look_into_all(meet);
  auto use = [&](const Piece& piece) {
    if (!std::exchange(found.at(piece.address()).in_use, true)) ahead.push_back(piece);
  };
  for (auto& [address, f] : found)
    if (f.met != f.piece.count()) use(f.piece);
  look_into_all(use);
  TensorList garbage;
  for (auto& [address, f] : found)
    if (!f.in_use && f.piece.tensor && f.piece.tensor->meta)
      garbage.emplace_back(Ref<TensorImpl>::share(f.piece.tensor));
  for (const Tensor& t : garbage)
    if (gradient_has_history(t)) set_grad(t, {});
}

// Looks at the kept ones again, as what referred to them may have gone: at the oldest, in turn.
void free_kept(size_t most, TensorImpl* dying = nullptr) {
  std::deque<PyObject*>& kept = kept_objects();
  std::vector<TensorImpl*> dropped;
  if (dying) dropped.push_back(dying);
  for (size_t left = std::min(kept.size(), most); left > 0; --left) {
    PyObject* oldest = kept.front();
    kept.pop_front();
    kept.push_back(oldest);
    TensorImpl* t = tensor_of(oldest).impl();
    if (is_dropped(t)) dropped.push_back(t);
  }
  if (!dropped.empty()) free_histories(dropped);
}

// gc.callbacks: after a full collection, which may have freed what referred to them.
PyObject* after_collection(PyObject*, PyObject* args) {
  const char* phase;
  PyObject* info;
  if (!PyArg_ParseTuple(args, "sO", &phase, &info)) return nullptr;
  PyObject* generation = PyDict_Check(info) ? PyDict_GetItemString(info, "generation") : nullptr;
  const bool full = generation && PyLong_Check(generation) && PyLong_AsLong(generation) == 2;
  return guarded([&]() -> PyObject* {
    if (std::strcmp(phase, "stop") == 0 && graph_is_still())
      free_kept(full ? kept_objects().size() : 2);
    Py_RETURN_NONE;
  });
}

// Once there is something to keep.
void watch_collections() {
  static std::atomic<bool> watching{false};
  if (lists_change || watching.exchange(true)) return;
  static PyMethodDef function = {"_free_gradients_with_history", after_collection, METH_VARARGS,
                                 nullptr};
  Object module = checked(PyImport_ImportModule("gc"));
  Object callbacks = checked(PyObject_GetAttrString(module.get(), "callbacks"));
  Object made = checked(PyCFunction_New(&function, nullptr));
  checked(PyList_Append(callbacks.get(), made.get()));
}

// While the graph has a count of a leaf with hooks, that holds its object, which stands for it.
void hold_object(TensorImpl* t) {
  if (lists_change || (threads_share && !PyGILState_Check())) return;
  auto* o = static_cast<PyObject*>(t->python.load(std::memory_order_relaxed));
  int32_t refs = t->refs.load(std::memory_order_relaxed);
  if (!o || Py_REFCNT(o) == 0) return;
  do {
    if (refs <= 1) return;
  } while (!t->refs.compare_exchange_weak(refs, refs + holds_python, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
  Py_INCREF(o);
}

void gradient_leads_back(const Tensor& t) {
  WithGil gil;
  try {
    watch_collections();
    Object object(wrap(t));
    show(object.get());
  } catch (const PythonError&) {
    throw CarriedError::take();
  }
}

}  // namespace

void track(PyObject* tensor) {
  graph_holds_objects.store(true, std::memory_order_relaxed);
  show(tensor);
}

void track_history_slow(PyObject* tensor) {
  const TensorImpl* t = tensor_of(tensor).impl();
  if (t && (t->grad_fn || t->base || t->meta)) show(tensor);
}

void track_captured(PyObject* o) {
  graph_holds_objects.store(true, std::memory_order_relaxed);
  if (!lists_change) Referents().look_at(o);  // without a GIL others may be changing them
}

void free_own_history(PyObject* self, TensorImpl* t) {
  if (lists_change) return;
  if (graph_is_still()) free_kept(2, t);
  if (t->refs.load(std::memory_order_relaxed) != 1) kept_objects().push_back(self);
}

void forget_kept(PyObject* self) {
  std::deque<PyObject*>& kept = kept_objects();
  auto at = std::find(kept.begin(), kept.end(), self);
  if (at != kept.end()) kept.erase(at);
}

int visit_owned(TensorImpl* t, visitproc visit, void* arg) {
  if (!t->grad_fn && !t->base && !t->meta) return 0;
  return OwnedAlone({t, nullptr}).visit(visit, arg);
}

int visit_owned(Node* node, visitproc visit, void* arg) {
  return OwnedAlone({nullptr, node}).visit(visit, arg);
}

void clear_owned(TensorImpl* t) {
  OwnedAlone owned({t, nullptr});
  if (!owned.has_root()) return;
  Tensor keep(Ref<TensorImpl>::share(t));
  clear_hooks(keep);
  set_grad(keep, {});
  Ref<NodeBase> node = std::move(t->grad_fn);
  Ref<TensorImpl> base = std::move(t->base);
  Ref<ViewRule> rule = std::move(t->view_rule);
}

// Its edges stay, in number: they go nowhere.
void clear_owned(Node* node) {
  if (node->refs.load(std::memory_order_acquire) != 1) return;
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
  hold_hooked_leaf = hold_object;
}

}  // namespace rl::bind
