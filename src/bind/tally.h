// The garbage collector finds a cycle if each reference in it is shown to it once, by tp_traverse
// of an object that it tracks. Here the references between two Python objects may lead through
// tensors and nodes ("pieces"), which are counted in C++ and which it does not know.
//
// The rule: a piece is *accounted for* when each of its counts is known to belong to an object that
// the collector has asked, or to a piece that is accounted for. What such a piece owns dies with
// those objects, so that its references to Python objects may be shown as theirs.
//
// A tensor may itself own a count of its object (holds_python). The object then lives as long as
// the tensor, and stands for it: once the tensor's other counts are accounted for, the reference to
// the object is shown, and the object shows everything else that the tensor owns.
//
// The collector asks twice. First it subtracts: each reference must be shown once. Here the counts
// are tallied from object to object, and who accounts for the last count of a piece shows what that
// owns; so pieces that several objects own are found if the collector asks all of them. Then it
// asks the objects in use what they lead to: each shows what is owned by the accounted pieces that
// it leads to, whoever else owns them. What other pieces own was not subtracted, and is in use to
// the collector already. What the second question did not reach is garbage.
//
// The first question of CPython has the object itself as its argument. A tally ends with the
// collection (gc.callbacks), and begins anew when an object is asked the first question again, as
// finalizers have run then. An object that was not asked the first question (gc.get_referents,
// Python without a GIL) shows what it accounts for by itself: nobody else can account for the same.
//
// Only accounted pieces are looked into, which is work in proportion to what is owned, and safe
// while other threads run backward without the GIL: they have a count of what they work on, or of
// what owns that. A cycle within the graph itself is not found so. There are two kinds: the
// gradient of a tensor has a history (create_graph=True) that leads back to it; or its own history
// does, as it was changed in place by what a node has computed that keeps it. Such tensors hold
// their objects during full collections. Those that the program drops are freed without the
// collector, if it can be: we look at everything that they lead to, then take away what others own
// and what that leads to (closed_set). Both are done only while no thread works on a graph.
#pragma once
#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/meta.h"
#include "autograd/saved_tensor.h"
#include "bind/graph.h"

namespace rl::bind {

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

inline PyObject* held_object(const TensorImpl* t) {
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

inline int visit_objects(const Piece& piece, visitproc visit, void* arg) {
  if (piece.tensor) return visit_hooks(piece.tensor, visit, arg);
  if (int stop = visit_hooks(*piece.node, visit, arg)) return stop;
  Py_VISIT(static_cast<PyObject*>(piece.node->metadata));
  if (int stop = visit_context(piece.node, visit, arg)) return stop;
  VisitPacked packed(visit, arg);
  piece.node->read_saved(packed);
  return packed.stop;
}

inline bool graph_is_still() { return !threads_share && thread_state().backward_depth == 0; }

inline bool held(const Piece& piece) { return piece.tensor && held_object(piece.tensor); }

// The counts that are to be accounted for: of a held tensor all but that of its object.
inline int32_t wanted(const Piece& piece) { return piece.count() - held(piece); }

// Values by address, in one block of memory.
template <class Value>
class AddressTable {
 public:
  Value* find(const void* key) {
    if (slots_.empty()) return nullptr;
    Slot& slot = slot_of(key);
    return slot.key ? &slot.value : nullptr;
  }
  // A new one if there is none, which moves the others; null where there is no memory for it.
  Value* find_or_make(const void* key) {
    if (2 * count_ >= slots_.size() && !grow()) return find(key);
    Slot& slot = slot_of(key);
    if (!slot.key) {
      slot.key = key;
      ++count_;
    }
    return &slot.value;
  }

 private:
  struct Slot {
    const void* key = nullptr;
    Value value{};
  };
  Slot& slot_of(const void* key) {
    size_t at = (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15u >> 20;
    while (slots_[at &= slots_.size() - 1].key && slots_[at].key != key) ++at;
    return slots_[at];
  }
  bool grow() {
    try {
      std::vector<Slot> old(std::max<size_t>(64, 2 * slots_.size()));
      old.swap(slots_);
      for (const Slot& slot : old)
        if (slot.key) slot_of(slot.key) = slot;
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// Pieces that are still to be looked into, in lists that are linked by the pieces: the second
// question has to be answered with or without memory.
class WaitingPieces {
 public:
  ~WaitingPieces() {
    while (take()) {}
  }
  static bool can_wait(const Piece& piece) { return piece.node || piece.tensor->meta; }
  void add(const Piece& piece) {
    if (piece.node) push(nodes_, piece.node);
    else push(tensors_, piece.tensor);
  }
  std::optional<Piece> take() {
    if (nodes_) return Piece{nullptr, pop(nodes_)};
    if (tensors_) return Piece{pop(tensors_), nullptr};
    return {};
  }

 private:
  static Node*& next(Node* node) { return node->next; }
  static TensorImpl*& next(TensorImpl* t) {
    return static_cast<AutogradMeta*>(t->meta.get())->next;
  }
  // The last one is its own next: who has a next waits already.
  template <class T> static void push(T*& first, T* item) {
    if (next(item)) return;
    next(item) = first ? first : item;
    first = item;
  }
  template <class T> static T* pop(T*& first) {
    T* item = first;
    T* after = std::exchange(next(item), nullptr);
    first = after == item ? nullptr : after;
    return item;
  }
  Node* nodes_ = nullptr;
  TensorImpl* tensors_ = nullptr;
};

// What some objects account for. Where there is no memory to note a count, its piece is not
// accounted for, and so in use.
class Tally {
 public:
  // For the first question: shows what is accounted for by the count that the object of `root` has.
  int subtract(const Piece& root, visitproc visit, void* arg) noexcept {
    Answer answer{visit, arg, false};
    return give(answer, root);
  }
  // For the second one: shows all that the object of `root` leads to and that has not been reached.
  int reach(const Piece& root, visitproc visit, void* arg) noexcept {
    Answer answer{visit, arg, true};
    return give(answer, root);
  }

  // Of a piece that several objects own, when both questions have been asked.
  bool finds_garbage(const Piece& piece) {
    Counts* counts = pieces_.find(piece.address());
    return counts && counts->accounted && !counts->reached;
  }

 private:
  struct Counts {
    int32_t met = 0;
    bool accounted = false, reached = false;
  };

  struct Answer {
    visitproc visit;
    void* arg;
    bool is_second;
    int stop = 0;
    WaitingPieces ahead{};
  };

  int give(Answer& answer, const Piece& root) {
    if (held(root) ? graph_is_still() : is_shown(answer, root)) enter(answer, root);
    while (std::optional<Piece> piece = answer.ahead.take()) look_into(answer, *piece);
    return answer.stop;
  }
  // At once, if it is a tensor without hooks or a gradient, of which no chain is long.
  void enter(Answer& answer, const Piece& piece) {
    if (WaitingPieces::can_wait(piece)) answer.ahead.add(piece);
    else look_into(answer, piece);
  }
  // What nodes have kept is read for this: tensors first, then numbers and texts, for which alone
  // there may be no memory.
  void look_into(Answer& answer, const Piece& piece) {
    try {
      if (!answer.stop) answer.stop = visit_objects(piece, answer.visit, answer.arg);
    } catch (const std::bad_alloc&) {}
    auto meet = [&](const Piece& next) {
      if (held(next)) {
        const bool shown = answer.is_second || accounts_for(next);
        if (shown && !answer.stop) answer.stop = answer.visit(held_object(next.tensor), answer.arg);
      } else if (is_shown(answer, next)) {
        enter(answer, next);
      }
    };
    try {
      each_reference(piece, meet);
    } catch (const std::bad_alloc&) {}
  }
  bool is_shown(const Answer& answer, const Piece& piece) {
    return answer.is_second ? is_new(piece) : accounts_for(piece);
  }

  // Is it accounted for, and has not been reached? Who asks has the one count, or one of several.
  bool is_new(const Piece& piece) {
    if (wanted(piece) == 1) return true;
    Counts* counts = pieces_.find(piece.address());
    return counts && counts->accounted && !std::exchange(counts->reached, true);
  }
  // Meets one count of `piece`: is it the last one?
  bool accounts_for(const Piece& piece) {
    const int32_t counts = wanted(piece);
    if (counts == 1) return true;
    Counts* known = pieces_.find_or_make(piece.address());
    if (!known || known->accounted || ++known->met != counts) return false;
    return known->accounted = true;
  }

  AddressTable<Counts> pieces_;
};

}  // namespace rl::bind
