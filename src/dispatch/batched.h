// What an op makes of tensors that stand for a batch of gradients: with the mode Batched, the
// function of each row asks here (bind/gradient_batch.cpp tells the rest).
//
// A stand-in is a tensor on meta of the shape that one gradient has; all of them lie in a tensor
// with one more dim, the first. Most rows are computed for all by a rule of vmap, which is Python;
// those that formulas are full of, and those that Python cannot call, by their own function on
// arguments that are spread.
#pragma once
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "core/thread_state.h"
#include "dispatch/given.h"
#include "tensor/tensor.h"

namespace rl {

enum class Spread : uint8_t {
  ByRule,       // of vmap, or by the ops that the row is composed of
  Elementwise,  // dims of size 1 before those of a gradient, so that they align
  Leading,      // of batches of matrices: every tensor has the dim of gradients
  Merged,       // of batches of images: the gradients are part of the batch
  Images,       // the same, but for tensors that all images share
  Channels,     // the gradients are channels beside each other, in each group of a convolution
  Dim,          // along the dim that is its first number
  Dims,         // all its numbers are dims
  View,         // its list of numbers are the sizes of the result
  Expand,       // which may have more dims
};

enum class Batching { Plain, Body, Results, Spread };

// The batch of the backward pass that this thread is inside of.
class OpBatch {
 public:
  OpBatch(int64_t size, bool records) : size(size), records(records) {}
  virtual ~OpBatch() = default;

  // Results: they have been computed, and are `results`. Spread: the caller computes the function
  // of the row of spread arguments. Body: that of the arguments as they are. Plain: that, outside,
  // as none of them is a stand-in. `op`: see `observe`.
  Batching compute(const char* op, GivenList given, Spread how);
  Tensor examples(const Tensor& stand_in);  // undefined: it is none
  Tensor stand_in(const Tensor& examples, Spread how = Spread::ByRule);
  bool records_of(const Tensor& t);  // is what is made of it recorded?

  // For computing with the tensors of all gradients, as in any backward pass.
  ModeGuard outside() const { return ModeGuard(NoGrad * !records, Batched | BatchedOnce); }

  const int64_t size;
  const bool records;  // how they are computed
  int64_t groups = 1;  // of the convolution that is computed
  TensorList results;

 protected:
  struct Entry {
    Tensor stand_in, examples;
    void* object = nullptr;  // of Python
  };
  // By a rule of vmap; false where there is none.
  virtual bool compute_by_rule(const char* key, GivenList given) = 0;
  Entry* find(const Tensor& t);
  std::vector<Entry> entries_;  // of the node that is applied: a few

 private:
  bool fits(GivenList given, Spread how);
};
extern __thread OpBatch* op_batch;

// The arguments of the function of a row, for all gradients.
class SpreadArguments {
 public:
  SpreadArguments(OpBatch& batch, Spread how, GivenList given);
  SpreadArguments(OpBatch& batch, Spread how, int64_t rank)
      : batch_(batch), how_(how), rank_(rank) {}
  Tensor operator()(const Tensor& t) const;
  TensorList operator()(const TensorList& list) const;
  Dims operator()(const Dims& dims) const;
  int64_t operator()(int64_t number) const;
  template <class T> const T& operator()(const T& other) const { return other; }

 private:
  OpBatch& batch_;
  const Spread how_;
  int64_t rank_ = 0;
  mutable bool seen_ = false;  // the first number, or the first list of them
};

// The results of a row: those that a rule has computed, and what stands for those of its function.
template <class R> struct BatchedResult {
  static constexpr bool possible = false;
};
template <> struct BatchedResult<Tensor> {
  static constexpr bool possible = true;
  static Tensor take() { return std::move(op_batch->results[0]); }
  static Tensor stand_in(const Tensor& result, Spread how) {
    return op_batch->stand_in(result, how);
  }
};
template <> struct BatchedResult<TensorList> {
  static constexpr bool possible = true;
  static TensorList take() { return std::move(op_batch->results); }
};
template <size_t n> struct BatchedResult<std::array<Tensor, n>> {
  static constexpr bool possible = true;
  static std::array<Tensor, n> take() {
    std::array<Tensor, n> taken;
    std::move(op_batch->results.begin(), op_batch->results.end(), taken.begin());
    return taken;
  }
  static std::array<Tensor, n> stand_in(std::array<Tensor, n> results, Spread how) {
    for (Tensor& t : results) t = op_batch->stand_in(t, how);
    return results;
  }
};

}  // namespace rl
