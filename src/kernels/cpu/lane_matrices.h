// Matrices of a batch side by side, one in each lane of a vector.
//
// 16 of them make a group: the elements of one place, of all 16, stand next to each other.
#pragma once
#include <cstdint>

namespace rl::kernels {

inline constexpr int64_t group_lanes = 16;

// Matrices of groups; each place of them is group_lanes elements long.
struct LaneMatrices {
  void* data = nullptr;
  int64_t row = 0, column = 0, group = 0;
  template <class T> T* at(int64_t g, int64_t i, int64_t j) const {
    return static_cast<T*>(data) + g * group + i * row + j * column;
  }
  // The same of elements of so many bytes.
  char* bytes(int64_t g, int64_t i, int64_t j, int64_t size) const {
    return static_cast<char*>(data) + (g * group + i * row + j * column) * size;
  }
  LaneMatrices turned() const { return {data, column, row, group}; }
};

}  // namespace rl::kernels
