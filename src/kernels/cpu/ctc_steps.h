// The loops of ctc_loss over the states of one step.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Logarithms of probabilities, one for each state.
template <class T> struct CtcStep {
  const T* before;   // of the states one step before; before[-1] and before[-2] are -infinity
  const T* skip;     // 0 where a state may follow the one two places before, else -infinity
  const T* emitted;  // of each state's label
  T* after;
  int64_t states;
};
RL_ISA_KERNEL(ctc_step_of_floats, (const CtcStep<float>& step))
RL_ISA_KERNEL(ctc_step_of_doubles, (const CtcStep<double>& step))

// exp(a + b - emitted + loss), the probability of each state given the target.
template <class T> struct CtcStates {
  const T *alpha, *beta, *emitted;
  T loss;
  T* probabilities;
  int64_t states;
};
RL_ISA_KERNEL(ctc_states_of_floats, (const CtcStates<float>& job))
RL_ISA_KERNEL(ctc_states_of_doubles, (const CtcStates<double>& job))

// to[i] = (exp(x[i]) - to[i]) * factor
RL_ISA_KERNEL(ctc_gradient_of_floats, (const float* x, float factor, float* to, int64_t n))
RL_ISA_KERNEL(ctc_gradient_of_doubles, (const double* x, double factor, double* to, int64_t n))

}  // namespace rl::kernels
