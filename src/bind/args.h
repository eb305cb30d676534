// Argument parsing for the generated functions: tables of overloads, one parser, typed readers.
//
// A generated function looks like
//   static PyObject* call_clamp(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject*
//   names) {
//     return guarded([&]() -> PyObject* {
//       Arguments a;
//       switch (a.parse(spec_clamp, self, args, n, names)) {
//         case 0: return wrap(ops::clamp(a.tensor(0), a.scalar_or_none(1), a.scalar_or_none(2)));
//         case 1: return wrap(ops::clamp(a.tensor(0), a.tensor_or_none(1), a.tensor_or_none(2)));
//         default: return a.result();   // the subclass protocol has answered, or an error is set
//       }
//     });
//   }
#pragma once
#include <optional>
#include <string>

#include "bind/python.h"
#include "bind/torch_function.h"

namespace rl {
struct LayoutArgument;
}

namespace rl::bind {

enum class Kind : uint8_t {
  Tensor,
  TensorList,
  Scalar,
  Int,
  Float,
  Bool,
  IntList,
  FloatList,
  BoolList,
  String,
  DType,
  Device,
  Layout,
  MemoryFormat,
  Generator,
  Object,
  OptionalTensorList,
  TensorOrNumber  // a Python number is wrapped into a 0-d tensor that yields in type promotion
};

struct Parameter {
  const char* name;
  Kind kind;
  bool none;  // None is accepted
  bool has_default;
  bool keyword_only;
  int8_t length;  // IntList, FloatList: a single number stands for this many; -1 only lists
};

struct Overload {
  const char*
      signature;  // as shown in errors: "clamp(Tensor input, Number min=None, Number max=None)"
  const Parameter* parameters;
  int count;
  int positional;
  // Its numbers may be tensors: one with dims is a wrong value to torch, not a wrong type.
  bool numbers_may_be_tensors = false;
};

// Where a function is found: `torch.` itself, or a module of it.
struct Spec {
  const char* name;       // "clamp"
  const char* qualified;  // "nn.functional.relu", for messages
  const Overload* overloads;
  int count;
};

inline constexpr int max_arguments = 24;

class Arguments {
 public:
  Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() { Py_XDECREF(snapshots_); }
  // Fits the call to the first overload that accepts it; `self` (or nullptr) is its first argument.
  // Python's rules, and torch's: a list argument that comes first may be given as varargs; `axis`
  // stands for `dim`, `keepdims` for `keepdim`, `x`/`self` for `input`, `x2` for `other`.
  // Returns -1 when a TypeError is set or a __torch_function__ gave the answer (see result()).
  int parse(const Spec& spec, PyObject* self, PyObject* const* args, Py_ssize_t count,
            PyObject* names);
  PyObject* result() { return result_; }

  bool given(int i) const { return slots_[i] != nullptr && slots_[i] != Py_None; }
  PyObject* object(int i) const { return slots_[i]; }
  // Typed readers; call them only where the overload says so.
  const Tensor& tensor(int i) const { return tensor_of(slots_[i]); }
  Tensor tensor_or_number(int i) const;       // a number is wrapped
  void need_tensor(int i, int j) const;       // raises if both are numbers
  const Tensor& tensor_or_none(int i) const;  // undefined for None
  TensorList tensors(int i) const;
  std::vector<Tensor> tensors_or_none(int i) const;  // undefined entries for None
  Scalar scalar(int i) const;
  std::optional<Scalar> scalar_or_none(int i) const;
  int64_t integer(int i) const;
  std::optional<int64_t> integer_or_none(int i) const;
  double real(int i) const;
  std::optional<double> real_or_none(int i) const;
  bool boolean(int i) const;
  std::optional<bool> boolean_or_none(int i) const;
  Dims integers(int i) const;  // expanded to the parameter's length
  std::optional<Dims> integers_or_none(int i) const;
  std::vector<double> reals(int i) const;
  std::optional<std::vector<double>> reals_or_none(int i) const;
  std::string text(int i) const;
  std::optional<std::string> text_or_none(int i) const;
  std::optional<rl::DType> dtype_or_none(int i) const;
  // Not given: that of out=, if any.
  std::optional<rl::DType> dtype_or_of(int i, int out) const;
  std::optional<rl::Device> device_or_of(int i, int out) const;
  std::optional<rl::Device> device_or_none(int i) const;
  std::optional<MemoryFormat> memory_format_or_none(int i) const;
  rl::Generator* generator_or_none(int i) const;
  LayoutArgument layout(int i) const;  // checks that it is strided
  // What was made, in page-locked memory where argument `i`, pin_memory, asks for that.
  Tensor pinned_if_asked(int i, Tensor&& made) const {
    return given(i) ? pinned_if(boolean(i), std::move(made)) : std::move(made);
  }

 private:
  Tensor pinned_if(bool asked, Tensor&& made) const;
  struct Call;  // what was passed
  bool fit(const Call& call, std::string* why);
  bool place_keywords(const Call& call, std::string* why);
  bool accept(const Parameter& p, PyObject* o);
  bool accept_list(const Parameter& p, PyObject* o);
  bool accept_integer(PyObject* o) const;
  bool accept_integers(PyObject* const* items, Py_ssize_t count) const;
  bool accept_other_tensor(PyObject* o);
  bool accept_override(PyObject* o);
  PyObject* unchanging(PyObject* list);
  std::string explain_type(int i, bool is_method) const;
  static bool takes_count(const Overload& o, const Call& call);
  bool wants_one_element(const Call& call) const;
  int refuse(const Call& call);
  int ask_subclasses(const Call& call);
  void check_what_changes() const;
  int ask_others(const Call& call);
  int hand_over(const Call& call, const Overriding& found, bool taken = true);
  [[noreturn]] void overflow(int i) const;

  PyObject* slots_[max_arguments];
  // Integers given one by one for the list that stands in slot `spread_`: view(2, 3).
  PyObject* const* spread_items_ = nullptr;
  Py_ssize_t spread_count_ = 0;
  int spread_ = -1;
  const Spec* spec_ = nullptr;
  const Overload* overload_ = nullptr;
  PyObject* result_ = nullptr;
  PyObject* snapshots_ = nullptr;  // a list that keeps tuples alive
  bool overridden_ = false;        // some argument is more than a plain tensor
  // Is a tensor with dims, and of one element, an integer? Where no form takes it as a tensor.
  bool elements_are_integers_ = false;
};

}  // namespace rl::bind
