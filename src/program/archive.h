// The file of a program: a zip archive without compression that holds program.json and
// weights.safetensors (docs/programs.md). The file is mapped; tensors lie in it until they change.
#pragma once
#include <map>
#include <string>

#include "program/json.h"
#include "tensor/tensor.h"

namespace rl::program {

struct Archive {
  Json document;
  std::map<std::string, Tensor> tensors;
};

// ValueError where the file is damaged.
Archive read_archive(const std::string& path);

// Tensors by name in a file of safetensors alone.
std::map<std::string, Tensor> read_safetensors(const std::string& path);
void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace rl::program
