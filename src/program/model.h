// A program in a file, run without Python: docs/programs.md has the format.
//
//   Model model = Model::load("model.rl");
//   ValueList outputs = model.run({x});
//
// A model may be run by several threads at once unless it changes its buffers.
#pragma once
#include <memory>
#include <string>

#include "program/value.h"

namespace rl::program {

// A size of an input: fixed, or factor * symbol + offset.
struct SizeRule {
  int64_t fixed = -1;
  int symbol = -1;  // its place in Model::symbols
  int64_t factor = 1, offset = 0;
};

struct InputRule {
  enum Kind { OfTensor, OfNumber, Fixed, Typed };
  std::string name;
  Kind kind = OfTensor;
  DType dtype = DType::Float32;
  std::vector<SizeRule> sizes;  // of a tensor; one of a number that may change
  Value value;                  // that the program was exported for
  std::string type;             // of Typed: "Tensor", "int", "float", "bool", "tensors", "list"
};

struct Symbol {
  std::string name;
  int64_t least, most;  // most < 0: no bound
};

class Model {
 public:
  // Errors of kind Value where the file is damaged, and of kind NotImplemented where it calls an
  // operation that this library does not have.
  static Model load(const std::string& path);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // The outputs for the inputs, both in the flat order of the program. Nothing is recorded for
  // gradients. Errors name the input that is not what the program was exported for.
  ValueList run(const ValueList& inputs) const;
  // For programs of tensors alone.
  TensorList operator()(const TensorList& inputs) const;

  const std::vector<InputRule>& inputs() const;
  size_t output_count() const;
  const std::vector<Symbol>& symbols() const;
  // Parameters, buffers and constants by name; they share memory with those of the model.
  std::vector<std::pair<std::string, Tensor>> tensors() const;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl::program
