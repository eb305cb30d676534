// What the declarations of ops are made of.
#pragma once
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "core/memory_format.h"
#include "tensor/tensor.h"

namespace rl {

class Generator;
struct LayoutArgument {};

}  // namespace rl
