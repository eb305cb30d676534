// The operations of the op table by name, each called with values of any type: what runs programs
// that are data. gen/boxed.py writes the table.
#pragma once
#include "program/value.h"

namespace rl {
class Generator;
struct LayoutArgument;
}  // namespace rl

namespace rl::program {

struct Parameter {
  const char* name;
  const char* kind;  // as in bind/args.h: "Tensor", "IntList", ...
  bool has_default;
  int length;  // one number stands for that many; -1: it does not
};

struct Operation;

// The arguments of a call, in the order of the parameters. Each reader checks what it reads and
// names the operation and the parameter.
class Arguments {
 public:
  // `values` has an entry for each parameter, null where it is not given.
  Arguments(const Operation& operation, const Value* const* values)
      : operation_(operation), values_(values) {}

  bool given(int i) const { return values_[i] && !values_[i]->is_none(); }
  const Tensor& tensor(int i) const;
  const Tensor& tensor_or_none(int i) const;
  Tensor tensor_or_number(int i) const;
  TensorList tensors(int i) const;
  TensorList tensors_or_none(int i) const;
  Scalar scalar(int i) const;
  std::optional<Scalar> scalar_or_none(int i) const;
  int64_t integer(int i) const;
  std::optional<int64_t> integer_or_none(int i) const;
  double real(int i) const;
  std::optional<double> real_or_none(int i) const;
  bool boolean(int i) const;
  std::optional<bool> boolean_or_none(int i) const;
  Dims integers(int i) const;
  std::optional<Dims> integers_or_none(int i) const;
  std::vector<double> reals(int i) const;
  std::optional<std::vector<double>> reals_or_none(int i) const;
  std::string text(int i) const;
  std::optional<std::string> text_or_none(int i) const;
  std::optional<DType> dtype_or_none(int i) const;
  std::optional<Device> device_or_none(int i) const;
  std::optional<MemoryFormat> memory_format_or_none(int i) const;
  Generator* generator_or_none(int i) const;
  LayoutArgument layout(int i) const;

 private:
  const Value& need(int i) const;
  [[noreturn]] void refuse(int i, const char* expected) const;
  template <class T> const T& as(int i, const char* expected) const;
  const Operation& operation_;
  const Value* const* values_;
};

struct Operation {
  const char* key;  // "add", "clamp.tensor", "add_"
  const Parameter* parameters;
  int count;
  Value (*function)(const Arguments&);

  int find_parameter(const std::string& name) const;  // -1 for none
  // Positional arguments, then those given by name. What is missing, doubled or unknown raises.
  Value call(const ValueList& positional,
             const std::vector<std::pair<std::string, Value>>& named = {}) const;
};

const Operation* operations_begin();  // sorted by key
const Operation* operations_end();
const Operation* find_operation(const std::string& key);  // nullptr for none

}  // namespace rl::program
