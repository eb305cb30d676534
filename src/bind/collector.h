// What tensors and graph nodes own, as the garbage collector of Python is shown it. The rules are
// in tally.h.
#pragma once
#include "autograd/node.h"
#include "bind/object.h"
#include "bind/python.h"

namespace rl::bind {

// Whether the graph may hold Python objects that lead back to it: a tensor has attributes, hooks or
// a class of its own, or a node has. Until then no tensor can be a part of a cycle. Never unset.
extern std::atomic<bool> graph_holds_objects;
inline void note_objects() { graph_holds_objects.store(true, std::memory_order_relaxed); }

// Lets the garbage collector see a tensor: it has come to own Python objects.
void track(PyObject* tensor);
// The same of one that may own some by way of its history.
void track_history_slow(PyObject* tensor);
inline void track_history(PyObject* tensor) {
  if (__builtin_expect(graph_holds_objects.load(std::memory_order_relaxed), 0))
    track_history_slow(tensor);
}

// And one that is about to get a gradient, whose history may lead back to it.
void note_gradient(PyObject* tensor, bool has_history);

// Lets it see the tensors that `o`, which the graph comes to hold, refers to.
void track_captured(PyObject* o);

// For tp_traverse of the object `self`, which owns a count of a tensor or node: visits the Python
// objects that live as long as that count does, and no longer.
int visit_owned(PyObject* self, TensorImpl* t, visitproc visit, void* arg);
int visit_owned(PyObject* self, Node* node, visitproc visit, void* arg);
// For tp_clear: gives up what the tensor or node owns, unless others are using it.
void clear_owned(TensorImpl* t);
void clear_owned(Node* node);

// Whether `t` may be owned by what it owns: by the history of its gradient, or by its own where it
// was changed in place (`x += f(x)`, of which f has kept x).
bool may_own_itself(const TensorImpl* t);
// The object of `t` dies, but not `t`, which may own itself. If nothing but its own history refers
// to `t` it is garbage and freed at once, without the collector. If not, the object is kept and
// this is tried again when others die, and after collections; `forget_kept` when it dies.
void free_own_history(PyObject* self, TensorImpl* t);
void forget_kept(PyObject* self);

void init_collector();

}  // namespace rl::bind
