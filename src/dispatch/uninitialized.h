// What `empty` and its like return: under deterministic algorithms no leftovers of other tensors.
#pragma once
#include <atomic>

namespace rl {

inline std::atomic<bool> fills_uninitialized{false};

}  // namespace rl
