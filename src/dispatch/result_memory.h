// Where an op of several steps is to leave its result.
#pragma once
#include "core/thread_state.h"
#include "tensor/tensor.h"

namespace rl {

// While it lives, the first result of this thread that `out` can hold as it is lies there and not
// in new memory, from which it would be copied: pow_(2) of 1 MB takes 9 us and not 37. So only
// where nothing reads what was in `out` after that: it shares no memory with the inputs, or is
// the only one and is read once. Whoever makes one copies a result that lies elsewhere.
class ResultMemory {
 public:
  explicit ResultMemory(const Tensor& out);  // undefined: nothing changes
  // Of an op that is not recorded and whose inputs lie elsewhere; else it does nothing.
  ResultMemory(const char* op, const Tensor& out, const TensorList& inputs);
  ~ResultMemory();
  ResultMemory(const ResultMemory&) = delete;

  // The tensor for a result, once; undefined where it needs memory of its own.
  static Tensor take(const Dims& sizes, DType dtype, Device device) {
    return is_offered() ? take_offered(sizes, dtype, device) : Tensor();
  }
  static bool is_offered() { return __builtin_expect(thread_state().result_memory != nullptr, 0); }

 private:
  static Tensor take_offered(const Dims& sizes, DType dtype, Device device);
  const void* const before_;
};

}  // namespace rl
