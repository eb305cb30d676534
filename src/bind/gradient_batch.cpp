// Many gradients in one backward pass: `grad(..., is_grads_batched=True)`, `jacrev`, `jacfwd`.
//
// A node's formula is for one gradient. It runs on a stand-in: a tensor on meta, of the shape of
// one gradient. An op that is given one is computed for all: by its own function on other arguments
// (dispatch/batched.h), by a rule of vmap (func/_gradient_batch.py), or as the ops that it is
// composed of. A kernel that is launched on a stand-in raises, and what cannot be done on meta does
// too: then the node is applied to one gradient after the other.
#include "bind/gradient_batch.h"

#include <string>

#include "autograd/engine.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/types.h"
#include "dispatch/batched.h"
#include "dispatch/generated.h"
#include "ops_create.h"
#include "ops_shape.h"

namespace rl::bind {

namespace {

Imported level_class("rushlight.func._gradient_batch", "GradientLevel");

// ---- the arguments of an op

Object object_of(const Tensor& t) {
  return t.defined() ? checked(wrap(t)) : Object::share(Py_None);
}

Object object_of(const Given& given) {
  switch (given.kind) {
    case Given::Integers: return checked(wrap(*static_cast<const Dims*>(given.at)));
    case Given::Integer: return checked(wrap(given.integer));
    case Given::Flag: return checked(wrap(given.integer != 0));
    case Given::Real: return checked(wrap(given.real));
    case Given::Other: break;
    default: return Object::share(Py_None);
  }
  switch (given.type) {
    case Given::Number: return checked(wrap(*static_cast<const Scalar*>(given.at)));
    case Given::ElementType: return checked(wrap(*static_cast<const DType*>(given.at)));
    case Given::Place: return checked(wrap(*static_cast<const Device*>(given.at)));
    case Given::Text: {
      const auto& text = *static_cast<const std::string*>(given.at);
      return checked(PyUnicode_FromStringAndSize(text.data(), Py_ssize_t(text.size())));
    }
    case Given::Reals: break;
  }
  const auto& numbers = *static_cast<const std::vector<double>*>(given.at);
  Object items = checked(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; i < numbers.size(); ++i)
    PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), checked(wrap(numbers[i])).release());
  return items;
}

// ---- a pass

// Nodes, for tests, and the op of the last one.
std::atomic<int64_t> applied_one_by_one{0};
std::atomic<const char*> last_one_by_one{""};

// A batch whose rules are those of a level of Python's.
class RuleBatch : public OpBatch {
 public:
  RuleBatch(Object level, int64_t size, bool records)
      : OpBatch(size, records), level_(std::move(level)) {}

  // In a scope, ops see what stands for many.
  class Scope {
   public:
    explicit Scope(RuleBatch* batch) : batch_(batch), outer_(std::exchange(op_batch, batch)) {}
    ~Scope() {
      op_batch = outer_;
      batch_->forget();
    }

   private:
    RuleBatch* const batch_;
    OpBatch* const outer_;
    ModeGuard batched_{Batched, 0};
  };

  void add(PyObject* stand_in, PyObject* examples) {
    entries_.push_back({tensor_of(stand_in), tensor_of(examples)});
  }

 private:
  void forget() {
    bool has_objects = false;
    for (const Entry& e : entries_) has_objects |= e.object != nullptr;
    if (has_objects) {
      WithGil gil;
      for (const Entry& e : entries_) Py_XDECREF(static_cast<PyObject*>(e.object));
    }
    entries_.clear();
  }

  // Python's stand-in, which the level knows.
  Object object_of_stand_in(const Tensor& t, Entry& entry) {
    Object object = checked(wrap(t));
    if (entry.object) return object;
    Object examples = checked(wrap(entry.examples));
    checked(PyObject_CallMethod(level_.get(), "mark", "OO", object.get(), examples.get()));
    entry.object = Py_NewRef(object.get());
    return object;
  }

  Object argument(const Tensor& t) {
    Entry* entry = find(t);
    return entry ? object_of_stand_in(t, *entry) : object_of(t);
  }

  Object argument(const Given& given) {
    if (given.kind == Given::OneTensor) return argument(*static_cast<const Tensor*>(given.at));
    if (given.kind != Given::Tensors) return object_of(given);
    const auto& list = *static_cast<const TensorList*>(given.at);
    Object items = checked(PyList_New(static_cast<Py_ssize_t>(list.size())));
    for (size_t i = 0; i < list.size(); ++i)
      PyList_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), argument(list[i]).release());
    return items;
  }

  bool compute_by_rule(const char* key, GivenList given) override {
    return with_python([&] {
      Object items = checked(PyList_New(static_cast<Py_ssize_t>(given.size())));
      Py_ssize_t at = 0;
      for (const Given& g : given) PyList_SET_ITEM(items.get(), at++, argument(g).release());
      Object found = checked(PyObject_CallMethod(level_.get(), "compute", "sO", key, items.get()));
      if (found.get() == Py_None) return false;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found.get()); ++i)
        results.push_back(result(PyTuple_GET_ITEM(found.get(), i)));
      return true;
    });
  }

  Tensor result(PyObject* o) {
    const Tensor& t = tensor_of(o);
    for (const Entry& e : entries_)
      if (e.stand_in.impl() == t.impl()) return t;  // that has been changed
    Object examples = checked(PyObject_CallMethod(level_.get(), "examples", "O", o));
    if (examples.get() == Py_None) return t;
    entries_.push_back({t, tensor_of(examples.get()), Py_NewRef(o)});
    return t;
  }

  Object level_;
};

class PassOfBatch final : public GradientBatch, public RuleBatch {
 public:
  using RuleBatch::RuleBatch;

  void apply(Node& node, Gradients& grads, Gradients& results) override {
    if (node.takes_stand_ins() && apply_to_stand_ins(node, grads, results)) return;
    ++applied_one_by_one;
    last_one_by_one = node.op;
    apply_one_by_one(node, grads, results);
  }

 private:
  Tensor gradients_of(const Tensor& t) {
    if (const Entry* entry = find(t)) return entry->examples;
    Dims sizes{size};  // the same for all
    for (int64_t n : t.sizes()) sizes.push_back(n);
    return ops::expand(t, sizes);
  }

  bool apply_to_stand_ins(Node& node, Gradients& grads, Gradients& results) {
    Scope scope(this);
    GradModeGuard formulas_of_ops(true);  // but for the loops of one op's elements
    ModeGuard once(BatchedOnce * !records, 0);
    try {
      Gradients given, found(results.size());
      for (const Tensor& g : grads) given.push_back(stand_in(g));
      node.apply(given, found);
      for (size_t i = 0; i < found.size(); ++i)
        if (node.edges[i] && found[i].defined()) fit_gradient(node, i, found[i]);
      ModeGuard plain = outside();
      for (size_t i = 0; i < found.size(); ++i)
        if (node.edges[i] && found[i].defined()) found[i] = gradients_of(found[i]);
      results = std::move(found);
      return true;
    } catch (const Error&) {
      return false;
    } catch (const CarriedError& error) {
      if (!error.is_exception()) throw;  // an interruption
      return false;
    }
  }

  void apply_one_by_one(Node& node, Gradients& grads, Gradients& results) {
    std::vector<TensorList> columns(results.size());
    for (int64_t i = 0; i < size; ++i) {
      Gradients row, found(results.size());
      for (const Tensor& g : grads) row.push_back(g.defined() ? ops::select(g, 0, i) : Tensor());
      node.apply(row, found);
      for (size_t j = 0; j < found.size(); ++j) {
        if (!node.edges[j]) continue;
        if (found[j].defined()) fit_gradient(node, j, found[j]);
        columns[j].push_back(std::move(found[j]));
      }
    }
    for (size_t j = 0; j < columns.size(); ++j) results[j] = stacked(columns[j]);
  }

  // A program's backward may return None for some.
  static Tensor stacked(TensorList& column) {
    const Tensor* like = nullptr;
    for (const Tensor& t : column)
      if (t.defined()) like = &t;
    if (!like) return {};
    Tensor zeros;
    for (Tensor& t : column) {
      if (t.defined()) continue;
      if (!zeros.defined()) zeros = ops::zeros_like(*like);
      t = zeros;
    }
    return ops::stack(column, 0);
  }
};

// _in_batch(level, pairs, call): call() where, of each pair, the first stands for the second.
PyObject* run_in_batch(PyObject*, PyObject* args) {
  PyObject *level, *pairs, *call;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "OnO!O", &level, &size, &PyList_Type, &pairs, &call)) return nullptr;
  return guarded([&] {
    RuleBatch batch(Object::share(level), size, grad_enabled());
    RuleBatch::Scope scope(&batch);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs); ++i) {
      PyObject* pair = PyList_GET_ITEM(pairs, i);
      batch.add(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    return checked(PyObject_CallNoArgs(call)).release();
  });
}

// _stands_for(tensor): inside of that, what it stands for; None of a tensor that is like others.
PyObject* stands_for(PyObject*, PyObject* o) {
  return guarded([&] { return object_of(op_batch->examples(tensor_of(o))).release(); });
}

PyObject* count_one_by_one(PyObject*, PyObject*) {
  return Py_BuildValue("Ls", static_cast<long long>(applied_one_by_one), last_one_by_one.load());
}

PyMethodDef functions[] = {{"_in_batch", run_in_batch, METH_VARARGS, nullptr},
                           {"_stands_for", stands_for, METH_O, nullptr},
                           {"_nodes_applied_one_by_one", count_one_by_one, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

std::unique_ptr<GradientBatch> make_gradient_batch(int64_t size, bool records) {
  Object count = checked(wrap(size));
  Object level = checked(PyObject_CallOneArg(level_class.get(), count.get()));
  return std::make_unique<PassOfBatch>(std::move(level), size, records);
}

void init_gradient_batch(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace rl::bind
