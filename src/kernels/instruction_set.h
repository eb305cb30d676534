// The instruction set that the CPU's kernels run on.
#pragma once
#include <string>

namespace rl::kernels {

const char* instruction_set();

// What is wrong with RUSHLIGHT_ISA, which names no set, or none of this build or processor; ""
// where nothing is.
std::string complaint_of_chosen_set();

}  // namespace rl::kernels
