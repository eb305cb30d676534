// Arithmetic of programs on plain numbers, by Python's rules.
#pragma once
#include <string>

#include "program/value.h"

namespace rl::program {

using NumberFunction = Value (*)(const Value* const* operands);
// The function of a name ("add", "floordiv", "lt", "getitem" ...) for so many operands, or nullptr.
NumberFunction find_number_function(const std::string& name, size_t operands);

}  // namespace rl::program
