// What an operator of Tensor calls: the op, and the method that __torch_function__ is told of. The
// op table fills them: bind_operators.h, which gen/operators.py makes.
#pragma once
#include "tensor/tensor.h"

namespace rl::bind {

struct Binary {
  const char* method;
  const char* reflected;  // of number <op> tensor
  Tensor (*call)(const Tensor&, const Tensor&);
  bool numbers;  // a Python number may stand on either side
};

struct InPlace {
  const char* method;
  const Tensor& (*call)(const Tensor&, const Tensor&);
};

struct Unary {
  const char* method;
  Tensor (*call)(const Tensor&);
};

}  // namespace rl::bind
