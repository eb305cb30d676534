#include "kernels/cpu/optim_strips.h"
#include "kernels/optim_rules.h"

namespace rl::kernels::RL_ISA {

void optim_strip(OptimRule rule, DType dtype, int64_t n, void* const* arrays,
                 const double* numbers) {
  if (dtype == DType::Float64) apply<double>(rule, n, arrays, numbers);
  else apply<float>(rule, n, arrays, numbers);
}

}  // namespace rl::kernels::RL_ISA
