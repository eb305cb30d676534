#pragma once

namespace rl::kernels {

// Before the process ends: waits until no thread is in one of the bundled libraries, and stops
// those that come later. At the end the libraries take down the code and the memory that they work
// with.
void end_libraries();

}  // namespace rl::kernels
