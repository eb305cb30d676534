#include "autograd/new_stack.h"

#include <exception>
#include <thread>

#include "core/thread_state.h"

namespace rl {

TensorList on_new_stack(const std::function<TensorList()>& f) {
  ThreadState& caller = thread_state();
  TensorList result;
  std::exception_ptr error;
  std::thread worker([&] {
    try {
      ThreadState& own = thread_state();
      own.mode = caller.mode;
      own.levels = caller.levels;
      own.inplace_policy = caller.inplace_policy;
      own.next_sequence = caller.next_sequence;
      own.backward_depth = caller.backward_depth + 1;
      own.runs_for = caller.runs_for;
      result = f();
    } catch (...) {
      error = std::current_exception();
    }
    if (thread_state_pointer) caller.next_sequence = thread_state_pointer->next_sequence;
  });
  worker.join();
  if (error) std::rethrow_exception(error);
  return result;
}

}  // namespace rl
