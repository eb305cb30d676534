// The view of a tensor that may be absent, as kernels take it.
#pragma once
#include "tensor/tensor.h"

namespace rl {

class OptionalView {
 public:
  // An error where a tensor is given that has no data.
  explicit OptionalView(const Tensor& t) : given_(t.defined()) {
    if (given_) view_ = t.view();
  }
  const View* get() const { return given_ ? &view_ : nullptr; }

 private:
  View view_;
  bool given_;
};

}  // namespace rl
