#pragma once
namespace rl {
// Call once before anything is differentiated.
void install_ops();
}  // namespace rl
