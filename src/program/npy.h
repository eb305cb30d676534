// Tensors in NumPy's files (.npy).
#pragma once
#include <string>

#include "tensor/tensor.h"

namespace rl::program {

Tensor read_npy(const std::string& path);  // ValueError where the file is damaged
void write_npy(const std::string& path, const Tensor& t);

}  // namespace rl::program
