// SavedTensor: a tensor kept for backward, with the version it had.
#pragma once
#include <optional>
#include <variant>

#include "autograd/node.h"
#include "core/scalar.h"

namespace rl {

// A saved tensor packed by user hooks; bind/ implements it.
struct PackedTensor {
  virtual ~PackedTensor() = default;
  virtual Tensor unpack() = 0;
  Edge history;  // of the tensor that was packed
};
// Called where the mode has SavedHooks; nullptr keeps the tensor as it is.
extern std::unique_ptr<PackedTensor> (*pack_saved)(const Tensor& t);

class SavedTensor {
 public:
  SavedTensor() = default;
  // `is_output`: an output of the node that keeps it. Kept without its grad_fn: no reference cycle.
  SavedTensor(const Tensor& t, bool is_output = false) { save(t, is_output); }
  // An in-place op saves its output after bump_version.
  void save(const Tensor& t, bool is_output = false);
  // The tensor as it was; RuntimeError if it was changed since or released.
  Tensor unpack(const Node& owner) const;
  bool release();  // whether there was one
  // From now on it is what `packed` unpacks.
  void replace_by(std::unique_ptr<PackedTensor> packed);
  bool defined() const { return tensor_.defined() || packed_; }
  // What it owns, for the garbage collector.
  const Tensor& tensor() const { return tensor_; }
  const PackedTensor* packed() const { return packed_.get(); }

 private:
  [[noreturn]] void fail_changed(const Node& owner) const;
  [[noreturn]] void fail_detached(const Node& owner) const;
  Tensor tensor_;
  std::unique_ptr<PackedTensor> packed_;
  uint32_t version_ = 0;
  uint32_t output_nr_ = 0;
  bool is_output_ = false;
  bool needs_history_ = false;
  bool had_history_ = false;  // no output: its grad_fn is that of tensor_
};

// A number, text and so on that a node keeps; nothing for an argument that was not given.
using SavedValue = std::variant<std::monostate, bool, int64_t, double, std::string, Scalar, DType,
                                Dims, std::vector<double>>;

// What reads the things that a node keeps, under the names of the op's arguments.
struct SavedReader {
  virtual ~SavedReader() = default;
  virtual void tensor(const char* name, const SavedTensor& saved) = 0;
  virtual void tensors(const char* name, const std::vector<SavedTensor>& saved) = 0;
  virtual void value(const char* name, SavedValue value) = 0;
  virtual void inner(Node*) {}  // a node that is run as a part of this one
  template <class T> void value(const char* name, const std::optional<T>& given) {
    if (given) value(name, SavedValue(*given));
    else value(name, SavedValue());
  }
};

}  // namespace rl
