// What gen/cuda.py embeds: the text of the headers that kernels include, and the formulas of the op
// table in device code.
#pragma once
#include <vector>

#include "kernels/elementwise.h"

namespace rl::cuda {

// A block in the LZ4 format: the names of the headers, their texts and the formulas, a zero byte
// between two.
struct PackedSources {
  int headers, formulas;
  size_t size;
  const char* block;
};
extern const PackedSources packed_sources;
extern const kernels::Loop* const device_loops[];  // whose formulas they are

struct DeviceSources {
  std::vector<const char*> names, texts;
  // By loop, the body of a function of inputs from_[] (of type T) and numbers given_[].
  std::vector<const char*> formulas;
};
const DeviceSources& device_sources();  // unpacked at the first call

}  // namespace rl::cuda
